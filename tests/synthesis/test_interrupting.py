"""A run that is killed at any moment goes on from there, and ends with the same environments.

The run is a program of its own that asks the loopback endpoint. The endpoint slows it down, so that there are moments
to kill it between its first request and its last folder.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from endpoint import Body, FakeEndpoint, Reply, running_endpoint
from processes import descendants, gone_afterwards
from synthesis.scripted_model import model

from awm_hub.rollouts.dataset import read_rollouts
from awm_hub.synthesis.store import FILE, read_store, wording_of

NAMES = {"moss_care_1": "Moss Care", "orchid_care_1": "Orchid Care"}
ONE = "moss_care_1"
SLIPS = {
    "task": ["I would rather not."],
    "sample_data": ["```sql\nINSERT INTO plants (id, name, room, every_days) VALUES (1, 'Moss', 'Hall', 0);\n```"],
}
"""What is wrong at first, so that there are corrections to interrupt too."""
SMALL = ("--tables", "2", "--rows", "5", "--tools", "3", "--tasks", "2")
WHOLE = {"scenario.toml", "schema.sql", "seed.sql", "tools.py", "tasks.toml", "verifiers.py", "quality.json"}


class Trial:
    """One output folder and the program that works on it."""

    def __init__(self, folder: Path, fake: FakeEndpoint, ids: Sequence[str]) -> None:
        self.folder, self.out, self.fake, self.ids = folder, folder / "made", fake, list(ids)
        (folder / "names.txt").write_text("\n".join(NAMES[name] for name in ids), encoding="utf-8")

    def start(self) -> subprocess.Popen[str]:
        words = ("synthesize", "names.txt", "-o", "made", "--model", "m", "--base-url", self.fake.base_url, *SMALL)
        command = [sys.executable, "-m", "awm_hub", *words, "--json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=self.folder, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload,no-any-return]

    def finish(self) -> dict[str, str]:
        """Let it come to its end; environment → hash."""
        process = self.start()
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert json.loads(out)["data"]["accepted"] == self.ids
        with read_store(self.out) as store:
            return {o["environment"]: o["content_hash"] for o in store.records("outcome")}

    def kill_after(self, seconds: float) -> bool:
        """Start it and kill it, with all that it started; whether it was still at work."""
        process = self.start()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            with gone_afterwards(process.pid):
                process.kill()
                process.communicate()
            return True
        process.communicate()
        return False

    def stored(self) -> set[str]:
        """Wordings that have an answer; the store has to be whole, but for its last line."""
        if not (self.out / FILE).exists():
            return set()
        with read_store(self.out) as store:
            return {wording_as_sent(store.body(key)) for key in store.keys("answer")}

    def check_folders(self) -> None:
        """See that whatever is in the output is there as a whole."""
        for name in ("environments", "rejected", "rollouts"):
            for path in (self.out / name).glob("[!.]*"):
                assert name != "environments" or {p.name for p in path.iterdir()} == WHOLE


def wording_as_sent(body: Body) -> str:
    """Hash of what a request says once the inference client took the nulls out of its tools' schemas."""
    return wording_of(_without_nulls(body))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def slowed(script: Callable[[Body], Reply], seconds: float) -> Callable[[Body], Reply]:
    def answer(body: Body) -> Reply:
        time.sleep(seconds)
        return script(body)

    return answer


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment → hash, of a run that nobody interrupts."""
    with running_endpoint(model(SLIPS)) as fake:
        return Trial(tmp_path_factory.mktemp("undisturbed"), fake, [ONE]).finish()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with running_endpoint(slowed(model(SLIPS), 0.05)) as fake:
        yield Trial(tmp_path, fake, [ONE])


@pytest.fixture(scope="module")
def both_undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with running_endpoint(model(SLIPS)) as fake:
        return Trial(tmp_path_factory.mktemp("both"), fake, list(NAMES)).finish()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Trial]:
    with running_endpoint(slowed(model(SLIPS), 0.05)) as fake:
        yield Trial(tmp_path, fake, list(NAMES))


def interrupted(trial: Trial, moments: Iterator[float], kills: int) -> int:
    """Kill the run so often, or until it is done; how many requests were asked again.

    What the store has is never asked again, and only what was on its way at a kill is.
    """
    seen = again = 0
    for _ in range(kills):
        before = trial.stored()
        was_at_work = trial.kill_after(next(moments))
        new = [wording_as_sent(body) for body in trial.fake.bodies[seen:]]
        seen += len(new)
        assert len(set(new)) == len(new)
        assert not before & set(new)
        again += len(set(new) - trial.stored())
        assert len(set(new) - trial.stored()) <= 2 * len(trial.ids)  # tasks are attempted side by side
        trial.check_folders()
        if not was_at_work:
            break
    return again


def end(trial: Trial, undisturbed: dict[str, str], again: int) -> None:
    """Go on to the end, which is as it would have been."""
    assert trial.finish() == undisturbed
    assert len(trial.fake.requests) == len(trial.stored()) + again
    trial.check_folders()
    assert not [path for path in trial.out.rglob(".*") if path.exists()]
    found = list(read_rollouts(trial.out / "trajectories"))
    assert (len(found), all(r.is_success for r in found)) == (2 * len(trial.ids), True)
    with read_store(trial.out) as store:
        assert set(store.keys("request")) == set(store.keys("answer"))


def leave_half_written(out: Path) -> None:
    """What a kill at the worst moment leaves: half a line at the store's end, folders that were being written."""
    whole = (out / FILE).read_bytes()
    (out / FILE).write_bytes(whole[: whole.rstrip().rfind(b"\n") + 40])
    for name in ("environments", "rollouts", "rejected", "."):
        place = out / name / ".writing-x1" / "moss_care_1"
        place.mkdir(parents=True)
        (place / "tools.py").write_text("half")


def test_a_run_that_is_killed_ends_as_if_it_had_not_been(trial: Trial, undisturbed: dict[str, str]) -> None:
    again = interrupted(trial, iter((1.4, 2.2, 3.0)), kills=3)
    end(trial, undisturbed, again)
    whole = (trial.out / FILE).read_bytes()
    leave_half_written(trial.out)
    end(trial, undisturbed, again)
    assert (trial.out / FILE).read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_is_killed_ten_times_ends_the_same(both: Trial, both_undisturbed: dict[str, str], seed: int) -> None:
    chance = random.Random(seed)
    again = interrupted(both, iter(lambda: chance.uniform(0.6, 3.0), None), kills=10)
    end(both, both_undisturbed, again)


def test_ctrl_c_says_how_to_go_on_and_leaves_no_process(trial: Trial) -> None:
    begun = threading.Event()
    script = trial.fake._script

    def answer(body: Body) -> Reply:
        begun.set()
        return script(body)  # type: ignore[operator]

    trial.fake._script = answer
    process = trial.start()
    assert begun.wait(30)
    time.sleep(1.5)
    with gone_afterwards(process.pid):
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    error = json.loads(out)["error"]
    assert error == {
        "type": "Interrupted",
        "message": "interrupted; what is answered and checked is in made",
        "next": "repeat the command to go on",
    }
    assert "Traceback" not in err
    assert trial.stored()
    assert descendants(process.pid) == set()
