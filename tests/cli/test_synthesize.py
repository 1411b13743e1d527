"""`awm-hub synthesize`: from names to environments, live and by files, with a model that a test has written."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from endpoint import Body, FakeEndpoint, Reply, running_endpoint, says
from synthesis.scripted_model import batch_lines, model, put_lines

import awm_hub
from awm_hub.rollouts.dataset import read_rollouts
from awm_hub.synthesis.store import FILE, Store, read_store

Cli = Callable[..., tuple[int, Any, str]]
KEY = "sk-planted-5d41402abc4b2a76"
NAMES = ("Plant Care", "Moss Care", "Orchid Care")
IDS = ["moss_care_1", "orchid_care_1", "plant_care_1"]
SMALL = ("--tables", "2", "--rows", "5", "--tools", "3", "--tasks", "2")
DATA = {
    "out", "state", "model", "scenarios", "dropped", "is_stalled", "accepted", "rejected", "unfinished", "trajectories",
    "figures", "waiting", "batch",
}  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A finished run with three names."""

    words: tuple[str, ...]
    """The command."""
    out: Path
    fake: FakeEndpoint
    done: subprocess.CompletedProcess[str]

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.done.stdout)["data"]
        return found


def names_file(folder: Path, *names: str) -> str:
    path = folder / "names.txt"
    path.write_text("# A comment\n" + "\n".join(names) + "\n", encoding="utf-8")
    return str(path)


def hashes(out: Path) -> dict[str, str]:
    """Environment → hash of what was accepted."""
    with read_store(out) as store:
        return {o["environment"]: o["content_hash"] for o in store.records("outcome")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("live")
    with running_endpoint(model()) as fake:
        words = ("synthesize", names_file(folder, *NAMES), "-o", "made", "--model", "m", "--base-url", fake.base_url)
        command = [sys.executable, "-m", "awm_hub", *words, *SMALL, "--license", "CC-BY-4.0", "--json"]
        environment = {**os.environ, "AWM_HUB_API_KEY": KEY}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        yield Made((*words, *SMALL), folder / "made", fake, done)


def test_three_names_become_three_environments(made: Made) -> None:
    assert made.done.returncode == 0, made.done.stderr
    head = json.loads(made.done.stdout)
    assert {key: head[key] for key in ("command", "ok")} == {"command": "synthesize", "ok": True}
    assert set(made.data) == DATA
    assert (made.data["accepted"], made.data["rejected"], made.data["unfinished"]) == (IDS, [], [])
    told = {key: made.data[key] for key in ("out", "state", "model", "scenarios", "dropped", "waiting", "batch")}
    assert told == {
        "out": "made", "state": "done", "model": "m", "scenarios": 3, "dropped": 0, "waiting": 0, "batch": None,
    }  # fmt: skip
    for name in IDS:
        files = {path.name for path in (made.out / "environments" / name).iterdir()}
        sources = {"scenario.toml", "schema.sql", "seed.sql", "tools.py", "tasks.toml", "verifiers.py"}
        assert files == {*sources, "quality.json"}
    assert not (made.out / "rejected").exists()


def test_each_request_is_asked_once(made: Made) -> None:
    requests_each = 7 + 2 + 3  # stages, and the turns of the two tasks
    assert len(made.fake.requests) == 1 + 3 * requests_each
    assert len({json.dumps(body) for body in made.fake.bodies}) == len(made.fake.requests)


def test_progress_is_told_on_stderr(made: Made) -> None:
    events = [json.loads(line) for line in made.done.stderr.splitlines()]
    assert sorted(e["environment"] for e in events if e["event"] == "made" and e["accepted"]) == IDS
    moss = [(e["event"], e.get("stage") or e.get("gate")) for e in events if e["environment"] == "moss_care_1"]
    stages = ("scenario", "task", "database", "sample_data", "toolset", "code", "verification")
    written = [(event, stage) for stage in stages for event in ("attempt", "gate")]
    assert moss == [*written, ("gate", "solution"), ("gate", "audit"), ("made", None)]


def test_what_is_made_can_be_packed(made: Made, cli: Cli, tmp_path: Path) -> None:
    dataset = str(tmp_path / "dataset")
    code, _, err = cli("pack", str(made.out / "environments"), "-o", dataset)
    assert code == 0, err
    found = awm_hub.load(dataset)
    assert sorted(found) == IDS
    environments = [found[name] for name in IDS]
    assert {e.id: e.content_hash for e in environments} == hashes(made.out)
    origin = environments[0].provenance
    assert (origin.generator, origin.pipeline_version) == ("m", f"awm-hub {awm_hub.__version__}")
    assert (origin.license, origin.attempts["code"]) == ("CC-BY-4.0", 1)
    assert [environments[0].title, len(environments[0].tools), len(environments[0].tasks)] == ["Moss Care", 3, 2]


def test_the_solvers_right_attempts_are_a_dataset(made: Made) -> None:
    found = list(read_rollouts(made.out / "trajectories"))
    assert made.data["trajectories"] == len(found) == 6
    assert all(rollout.is_success for rollout in found)
    assert sorted({rollout.trajectory.environment_id for rollout in found}) == IDS
    known = hashes(made.out)
    assert all(r.trajectory.environment_hash == known[r.trajectory.environment_id] for r in found)


def test_the_report_is_written(made: Made) -> None:
    assert json.loads((made.out / "report.json").read_text()) == made.data["figures"]
    page = (made.out / "report.md").read_text()
    assert all(name in page for name in IDS)


def test_the_key_is_sent_and_kept_nowhere(made: Made) -> None:
    assert {seen.headers["authorization"] for seen in made.fake.requests} == {f"Bearer {KEY}"}
    assert KEY not in made.done.stdout + made.done.stderr
    paths = [path for path in made.out.rglob("*") if path.is_file()]
    assert len(paths) > 30
    assert [path for path in paths if KEY.encode() in path.read_bytes()] == []


def test_the_same_command_asks_and_changes_nothing(made: Made, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.out.parent)
    asked, kept = len(made.fake.requests), (made.out / FILE).read_bytes()
    code, out, err = cli(*made.words)
    assert (code, len(made.fake.requests), (made.out / FILE).read_bytes()) == (0, asked, kept)
    lines = out.splitlines()
    assert lines[:2] == ["3 scenarios: 3 accepted, 0 rejected, 0 unfinished", "moss_care_1    accepted"]
    assert lines[-2:] == ["report: made/report.md", "next: awm-hub pack made/environments -o DATASET"]
    assert "plant_care_1  ACCEPTED" in err.splitlines()


def test_another_setting_is_named_and_refused(made: Made, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.out.parent)
    code, out, err = cli(*made.words, "--tools", "4")
    assert (code, out) == (2, "")
    assert "sizes.tools is 4, and the run in made has 3" in err
    assert "use another output folder" in err


def test_an_environment_is_explained(made: Made, cli: Cli) -> None:
    code, out, _ = cli("synthesize", "-o", str(made.out), "--explain", "moss_care_1")
    assert code == 0
    assert "moss_care_1" in out


def test_two_runs_in_one_folder_are_refused(cli: Cli, tmp_path: Path) -> None:
    words = ("synthesize", names_file(tmp_path, "Moss Care"), "-o", str(tmp_path / "made"), "--model", "m", *SMALL)
    with Store.open(tmp_path / "made", {}):
        code, out, err = cli(*words, "--batch", str(tmp_path / "rounds"))
    assert (code, out) == (2, "")
    assert f"another run is working in {tmp_path / 'made'}" in err


def test_a_model_has_to_be_named(cli: Cli, tmp_path: Path) -> None:
    words = ("synthesize", names_file(tmp_path, "Moss Care"), "-o", str(tmp_path / "made"))
    for more in ((), ("--batch", str(tmp_path / "rounds"))):
        code, _, err = cli(*words, *more)
        assert code == 2
        assert "--model" in err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--target", "0"), "target is 0"),
        (("--budget-tokens", "0"), "a budget of 0 tokens"),
        (("--budget-usd", "5"), "what m costs is not known"),
        (("--tables", "0"), "tables is 0"),
        (("--tasks", "-1"), "tasks is -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(cli: Cli, tmp_path: Path, words: tuple[str, str], told: str) -> None:
    seeds = names_file(tmp_path, "Moss Care")
    batch = ("--batch", str(tmp_path / "rounds"))
    code, _, err = cli("synthesize", seeds, "-o", str(tmp_path / "made"), "--model", "m", *batch, *words)
    assert code == 2, err
    assert told in err


def test_an_endpoint_that_refuses_ends_the_run_with_its_reason(cli: Cli, tmp_path: Path) -> None:
    with running_endpoint([]) as fake:  # answers 400 to everything
        words = ("synthesize", names_file(tmp_path, "Moss Care"), "-o", str(tmp_path / "made"))
        code, out, err = cli(*words, "--model", "m", "--base-url", fake.base_url)
    assert (code, out) == (5, "")
    assert "the script of the test has ended" in err


def test_a_budget_stops_the_run_and_a_larger_one_goes_on(cli: Cli, tmp_path: Path) -> None:
    with running_endpoint(model()) as fake:
        seeds, out = names_file(tmp_path, "Plant Care"), str(tmp_path / "made")
        words = ("synthesize", seeds, "-o", out, *SMALL, "--model", "m", "--base-url", fake.base_url)
        code, found, _ = cli(*words, "--budget-tokens", "35", "--json")
        assert (code, found["data"]["state"], len(fake.requests)) == (1, "budget", 4)  # of ten tokens each
        assert found["data"]["unfinished"] == [{"id": "plant_care_1", "reason": "budget"}]
        code, told, _ = cli(*words, "--budget-tokens", "40")
        assert (code, len(fake.requests)) == (1, 4)
        assert told.splitlines()[-1] == "next: repeat the command with a larger budget to go on"
        code, found, _ = cli(*words, "--budget-tokens", "1000", "--json")
        assert (code, found["data"]["state"], found["data"]["accepted"]) == (0, "done", ["plant_care_1"])
        assert len(fake.requests) == 1 + 7 + 5


class ByFiles:
    """A run that is asked by files."""

    def __init__(self, cli: Cli, folder: Path, *names: str) -> None:
        self.rounds, self.out = folder / "rounds", folder / "made"
        seeds = names_file(folder, *names)
        words = ("synthesize", seeds, "-o", str(self.out), "--model", "m", "--batch", str(self.rounds), *SMALL)
        self._cli, self._words = cli, words

    def start(self, *more: str) -> tuple[int, Any, str]:
        return self._cli(*self._words, *more)

    def go(self) -> dict[str, Any]:
        """What a start tells; the exit code has to be 0."""
        code, found, err = self.start("--json")
        assert code == 0, err
        data: dict[str, Any] = found["data"]
        return data


@pytest.fixture
def by_files(cli: Cli, tmp_path: Path) -> ByFiles:
    return ByFiles(cli, tmp_path, "Moss Care")


def test_answers_by_files_give_the_same_environments(made: Made, by_files: ByFiles) -> None:
    script = model()
    for number in itertools.count(1):
        data = by_files.go()
        if data["state"] != "waiting":
            break
        (written,) = data["batch"]["written"]
        assert written.endswith(f"round-{number:03}.requests.jsonl")
        assert (data["batch"]["requests"], data["batch"]["waiting"]) == (data["waiting"], [])
        put_lines(by_files.rounds / f"{number}.jsonl", batch_lines(Path(written), script, is_vllm=number % 2 == 0))
    assert (data["state"], data["accepted"], data["trajectories"]) == ("done", IDS[:1], 2)
    assert number == 1 + 7 + 3 + 1  # suitability, stages, turns; then nothing is left to ask
    known = hashes(made.out)
    assert hashes(by_files.out) == {IDS[0]: known[IDS[0]]}
    assert data["batch"]["written"] == data["batch"]["waiting"] == []


def test_a_request_waits_in_its_file_until_it_is_answered(by_files: ByFiles) -> None:
    first = by_files.go()
    assert (first["state"], first["waiting"], first["accepted"]) == ("waiting", 1, [])
    files = sorted(by_files.rounds.iterdir())
    again = by_files.go()
    assert sorted(by_files.rounds.iterdir()) == files
    assert (again["batch"]["written"], again["batch"]["waiting"]) == ([], first["batch"]["written"])
    code, out, _ = by_files.start()
    (path,) = first["batch"]["written"]
    assert (code, out.splitlines()[-1]) == (0, f"next: answer the 1 request of {path}, and repeat the command")


def test_failed_and_unknown_lines_are_told_and_failed_ones_asked_again(by_files: ByFiles) -> None:
    (written,) = by_files.go()["batch"]["written"]
    (line,) = batch_lines(Path(written), model())
    refused = {"status_code": 500, "body": {"error": {"message": "out of memory"}}}
    put_lines(by_files.rounds / "1.jsonl", [{**line, "response": refused}, {**line, "custom_id": "nobody/code/1"}])
    told = by_files.go()["batch"]
    assert told["failed"] == {"scenarios/suitability/1": ["500: out of memory"]}
    assert told["unknown"] == ["nobody/code/1"]
    assert [Path(p).name for p in told["written"]] == ["round-002.requests.jsonl"]
    put_lines(by_files.rounds / "2.jsonl", [line])
    told = by_files.go()["batch"]
    assert (told["taken"], told["failed"]) == (1, {})
    assert [Path(p).name for p in told["written"]] == ["round-003.requests.jsonl"]


def test_a_damaged_file_of_answers_is_named_with_its_line(by_files: ByFiles) -> None:
    (written,) = by_files.go()["batch"]["written"]
    (line,) = batch_lines(Path(written), model())
    path = by_files.rounds / "1.jsonl"
    path.write_text(json.dumps({**line, "custom_id": "nobody/code/1"}) + "\n" + json.dumps(line)[:100])
    code, _, err = by_files.start()
    assert code == 3
    assert f"line 2 of {path} cannot be read: it is not valid JSON" in err
    put_lines(path, [line])
    assert by_files.go()["batch"]["taken"] == 1


def test_what_is_rejected_is_told_with_its_reasons(cli: Cli, tmp_path: Path) -> None:
    right = model()

    def script(body: Body) -> Reply:
        return says("I would rather not.") if "Your task: the database" in str(body) else right(body)

    with running_endpoint(script) as fake:
        words = ("synthesize", names_file(tmp_path, "Moss Care"), "-o", str(tmp_path / "made"), *SMALL)
        code, out, err = cli(*words, "--model", "m", "--base-url", fake.base_url)
    assert code == 1
    place = tmp_path / "made" / "rejected" / "moss_care_1"
    (problem,) = json.loads((place / "problems.json").read_text())
    assert (problem["stage"], problem["rule"]) == ("database", "unreadable_answer")
    assert (place / "tasks.toml").is_file()
    assert "moss_care_1  rejected" in out
    assert out.splitlines()[-1] == f"next: awm-hub synthesize -o {tmp_path / 'made'} --explain moss_care_1"
    assert "moss_care_1  database: answered, attempt 5 for 1 problem, but it cannot be read" in err.splitlines()
    assert "unreadable_answer" in (tmp_path / "made" / "report.md").read_text()
