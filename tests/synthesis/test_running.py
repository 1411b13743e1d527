"""A run as a whole: what stops one environment stops no other, and the output says what became of each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endpoint import Body, FakeEndpoint, Reply, fails, running_endpoint
from synthesis.scripted_model import SIZES, model, stage_of, title_of

from awm_hub.errors import RemoteError, SealError, UsageError
from awm_hub.inference import Endpoint
from awm_hub.packing import read_source
from awm_hub.synthesis import Seed, SynthesisReport, loop, running, synthesize
from awm_hub.synthesis.loop import Audited, Made, Maker
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.solving import SolverState

GOOD, BAD = "Moss Care", "Sand Care"
PROBLEM = Problem(stage="code", rule="bad", subject="", message="it is bad")


def seeds(*names: str) -> list[Seed]:
    return [Seed(name=name, outline="") for name in names]


def run(fake: FakeEndpoint, out: Path, *names: str, **more: Any) -> SynthesisReport:
    endpoint = Endpoint("m", base_url=fake.base_url, attempts=1)
    return synthesize(seeds(*names), out, endpoint=endpoint, sizes=SIZES, **more)


def failing(reply: Reply, stage: str = "task") -> Callable[[Body], Reply]:
    """A script that fails at one stage of the bad environment."""
    right = model()
    return lambda body: reply if (stage_of(body), title_of(body)) == (stage, BAD) else right(body)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What becomes of each environment by its name, decided by a test: a hash, `None`, or an error."""
    outcomes: dict[str, Any] = {}

    async def make(self: Maker) -> Made:
        outcome = outcomes[self.draft.name]
        if isinstance(outcome, Exception):
            raise outcome
        audited = None if outcome is None else Audited(content_hash=outcome, quality={"hash": outcome})
        problems = (PROBLEM,) if outcome is None else ()
        return Made(draft=self.draft, audited=audited, problems=problems, attempts={}, solver=SolverState())

    async def roll_out(*more: Any) -> None:
        return None

    monkeypatch.setattr(loop.Maker, "make", make)
    monkeypatch.setattr(running.Outputs, "_roll_out", roll_out)
    return outcomes


def test_a_fastapi_environment_is_accepted(tmp_path: Path) -> None:
    with running_endpoint(model()) as fake:
        report = run(fake, tmp_path / "made", "Moss Care", interface="fastapi")
    assert (report.state, report.accepted, report.trajectories) == ("done", ("moss_care_1",), 2)
    source = read_source(tmp_path / "made" / "environments" / "moss_care_1")
    assert (source.interface, source.categories) == ("fastapi", ())


def test_an_endpoint_that_fails_at_one_environment_is_told_when_the_others_are_made(
    tmp_path: Path, made_up: dict[str, Any]
) -> None:
    made_up |= {GOOD: "1" * 64, BAD: RemoteError("no more")}
    with running_endpoint(model()) as fake, pytest.raises(RemoteError, match="no more"):
        run(fake, tmp_path, BAD, GOOD)
    assert [p.name for p in (tmp_path / "environments").iterdir()] == ["moss_care_1"]
    assert "moss_care_1" in (tmp_path / "report.md").read_text()


def test_a_machine_that_cannot_seal_is_told_as_that(tmp_path: Path, made_up: dict[str, Any]) -> None:
    made_up |= {GOOD: SealError("no seal")}
    with running_endpoint(model()) as fake, pytest.raises(SealError, match="no seal"):
        run(fake, tmp_path, GOOD)


def test_a_request_that_is_too_long_leaves_its_environment_unfinished(tmp_path: Path) -> None:
    too_long = fails(400, "This model's maximum context length is 10 tokens.", code="context_length_exceeded")
    with running_endpoint(failing(too_long)) as fake:
        report = run(fake, tmp_path, BAD)
    (left,) = report.unfinished
    assert (report.state, left.id, report.accepted) == ("done", "sand_care_1", ())
    assert "context" in left.reason


def test_a_fault_of_the_program_at_one_environment_costs_no_other(tmp_path: Path, made_up: dict[str, Any]) -> None:
    made_up |= {GOOD: "1" * 64, BAD: KeyError("tide")}
    with running_endpoint(model()) as fake:
        report = run(fake, tmp_path, BAD, GOOD)
    assert report.accepted == ("moss_care_1",)
    assert [(u.id, u.reason) for u in report.unfinished] == [("sand_care_1", "a fault of awm-hub: KeyError: 'tide'")]


def test_what_becomes_of_an_environment_takes_the_place_of_what_it_was(tmp_path: Path, made_up: dict[str, Any]) -> None:
    """As another version of the gates may find."""

    def told() -> list[str]:
        return sorted(f"{path.relative_to(tmp_path)}: {path.read_text()}" for path in tmp_path.glob("*/*/[pq]*.json"))

    with running_endpoint(model()) as fake:
        made_up[GOOD] = None
        run(fake, tmp_path, GOOD)
        assert told() == [f"rejected/moss_care_1/problems.json: {json.dumps([PROBLEM.to_dict()], indent=1)}\n"]
        for outcome in ("1" * 64, "2" * 64):
            made_up[GOOD] = outcome
            run(fake, tmp_path, GOOD)
            assert told() == [f"environments/moss_care_1/quality.json: {json.dumps({'hash': outcome}, indent=1)}\n"]
        made_up[GOOD] = None
        assert run(fake, tmp_path, GOOD).rejected == ("moss_care_1",)
    assert [p.name for p in tmp_path.glob("*/moss_care_1")] == ["moss_care_1"]


def test_names_that_do_not_suit_are_dropped_and_told(tmp_path: Path, made_up: dict[str, Any]) -> None:
    made_up |= {GOOD: "1" * 64}
    judged = {
        GOOD: {"suitability": "high", "reason": "Records.", "category": "productivity"},
        BAD: {"suitability": "low", "reason": "Sand has no records.", "category": "productivity"},
    }
    with running_endpoint(model({"suitability": [json.dumps(judged)]})) as fake:
        report = run(fake, tmp_path, GOOD, BAD)
    assert (report.scenarios, report.dropped, report.accepted) == (1, 1, ("moss_care_1",))


def test_answers_come_from_one_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="an endpoint or from a batch"):
        synthesize(seeds(GOOD), tmp_path)
    with pytest.raises(UsageError, match="an endpoint or from a batch"):
        synthesize(seeds(GOOD), tmp_path, endpoint=Endpoint("m", base_url="http://127.0.0.1:1/v1"), batch=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_all_drafts_have_in_common_is_in_the_settings(tmp_path: Path, made_up: dict[str, Any]) -> None:
    made_up[GOOD] = None
    with running_endpoint(model()) as fake:
        run(fake, tmp_path, GOOD)
        with pytest.raises(UsageError, match=r"interface is \"fastapi\", and the run in .* has \"functions\""):
            run(fake, tmp_path, GOOD, interface="fastapi")
        with pytest.raises(UsageError, match="seeds is"):
            run(fake, tmp_path, GOOD, BAD)


def test_a_draft_that_was_never_begun_is_kept_as_it_is(tmp_path: Path) -> None:
    """The best of an environment whose scenario could never be read is an empty one."""
    with running_endpoint(model({"scenario": ["no", "never", "not now", "nor then", "no more"]})) as fake:
        report = run(fake, tmp_path, GOOD)
    assert report.rejected == ("moss_care_1",)
    place = tmp_path / "rejected" / "moss_care_1"
    assert json.loads((place / "problems.json").read_text())[0]["rule"] == "unreadable_answer"
