"""Figures about judges, from judges that err in known ways."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from endpoint import running_endpoint, says

import awm_hub
from awm_hub.bench.judges import measure_judge
from awm_hub.bench.labelled import Labelled, hand_labelled, made_attempts
from awm_hub.environment import Environment
from awm_hub.errors import DataError, JudgeError, RecordError, UnknownNameError, UsageError
from awm_hub.inference import Endpoint
from awm_hub.judging import LlmJudge
from awm_hub.trajectory import Evidence, Outcome, StateDiff, Trajectory, Verdict

BY_HAND = Path(__file__).with_name("hand_labelled.jsonl")


@dataclasses.dataclass(frozen=True)
class Guess:
    """A judge that follows a rule of the test, several votes at a time."""

    rule: Callable[[Trajectory], tuple[str, ...]]
    name: str = "guess"

    def describe(self) -> dict[str, str]:
        return {"kind": self.name}

    async def judge(self, trajectory: Trajectory, *, environment: Environment | None = None) -> Verdict:
        votes = self.rule(trajectory)
        if not votes:
            raise JudgeError("no idea")
        usage = {"votes": [{"outcome": vote} for vote in votes]}
        return Verdict(
            outcome=Outcome(votes[0]),
            judge=self.name,
            reasoning="a guess",
            evidence=Evidence(diff=StateDiff()),
            usage=usage,
        )


@pytest.fixture(scope="module")
def attempts(notes_environment: Environment) -> tuple[Labelled, ...]:
    import asyncio

    task = notes_environment.task("postpone_plumber")
    made, _ = asyncio.run(made_attempts(notes_environment, task, per_kind=2))
    return made


async def test_made_attempts_are_labelled_by_their_making(attempts: tuple[Labelled, ...]) -> None:
    labels = {attempt.kind: attempt.accepted for attempt in attempts}
    assert labels["solution"] == labels["equivalent"] == {Outcome.COMPLETED}
    assert labels["noop"] == {Outcome.AGENT_ERROR}
    assert labels["mutant"] == labels["injection"] == {Outcome.AGENT_ERROR, Outcome.PARTIALLY_COMPLETED}
    assert max(sum(a.kind == kind for a in attempts) for kind in labels) == 2


async def test_other_right_endings_of_a_decision_function_are_left_out(notes_environment: Environment) -> None:
    made, unsettled = await made_attempts(notes_environment, notes_environment.task("one_bulb_note"))
    assert unsettled > 0
    assert (await measure_judge("decision", made)).mistakes == ()


async def test_the_decision_judge_makes_no_mistake_with_them(attempts: tuple[Labelled, ...]) -> None:
    report = await measure_judge("decision", attempts, repeats=2)
    assert report.accuracy.share == 1.0
    assert (report.false_pass.share, report.false_fail.share) == (0.0, 0.0)
    assert (report.self_consistency, report.fleiss_kappa, report.reward_flip_rate) == (1.0, 1.0, 0.0)
    assert report.by_outcome["AGENT_ERROR"].total == 2
    assert report.judge == {"kind": "decision"}


async def test_a_judge_that_passes_everything_is_found_out(attempts: tuple[Labelled, ...]) -> None:
    report = await measure_judge(Guess(lambda t: ("COMPLETED",)), attempts)
    assert (report.false_pass.share, report.false_fail.share) == (1.0, 0.0)
    assert report.false_pass.count == report.false_pass.total == len(attempts) - 3
    assert report.to_dict()["false_fail"] == {"count": 0, "total": 3, "share": 0.0}
    assert report.accuracy.right == report.by_outcome["COMPLETED"].right == 3
    assert len(report.mistakes) == len(attempts) - 3
    assert report.mistakes[0].found == "COMPLETED"
    assert report.self_consistency is None


async def test_votes_that_differ_lower_agreement_and_flip_rewards(attempts: tuple[Labelled, ...]) -> None:
    votes = ("AGENT_ERROR", "AGENT_ERROR", "COMPLETED")
    report = await measure_judge(Guess(lambda t: votes), attempts)
    assert report.self_consistency == pytest.approx(2 / 3)
    assert report.pairwise_agreement == pytest.approx(1 / 3)
    assert report.fleiss_kappa == pytest.approx((1 / 3 - 5 / 9) / (4 / 9))
    assert report.reward_flip_rate == pytest.approx(2 / 3)
    assert report.false_fail.share == 1.0


async def test_outcomes_of_equal_reward_flip_nothing(attempts: tuple[Labelled, ...]) -> None:
    report = await measure_judge(Guess(lambda t: ("AGENT_ERROR", "ENVIRONMENT_ERROR")), attempts)
    assert report.pairwise_agreement == 0.0
    assert report.reward_flip_rate == 0.0


async def test_attempts_that_cannot_be_judged_are_listed_and_not_counted(attempts: tuple[Labelled, ...]) -> None:
    report = await measure_judge(Guess(lambda t: ("COMPLETED",) if t.steps else ()), attempts)
    assert len(report.unjudged) == len(attempts) - report.attempts > 0
    assert report.unjudged[0][1] == "no idea"
    with pytest.raises(UsageError, match="nothing to judge"):
        await measure_judge("decision", [])


async def test_a_model_is_measured_with_its_votes_and_tokens(attempts: tuple[Labelled, ...]) -> None:
    confidences = {str(outcome): 0.5 for outcome in Outcome}
    text = json.dumps({"reasoning": "So be it.", "outcome": "COMPLETED", "confidences": confidences})
    with running_endpoint(lambda body: says(text)) as fake:
        async with Endpoint("m", base_url=fake.base_url) as endpoint:
            report = await measure_judge(LlmJudge(endpoint, votes=2), attempts)
    assert report.accuracy.share == 1.0  # code has the last word on every one of them
    assert report.usage["requests"] == len(fake.requests)
    assert report.to_dict()["accuracy"] == {"right": len(attempts), "total": len(attempts), "share": 1.0}
    json.dumps(report.to_dict())


async def test_hand_labelled_attempts_run_and_the_decision_is_right_about_passing() -> None:
    labelled = await hand_labelled(BY_HAND, awm_hub.load())
    report = await measure_judge("decision", labelled)
    assert report.attempts == 16
    assert (report.false_pass.count, report.false_fail.count) == (0, 0)
    assert report.by_outcome["COMPLETED"].share == report.by_outcome["AGENT_ERROR"].share == 1.0
    assert report.by_outcome["PARTIALLY_COMPLETED"].right == 0  # a derived decision knows no part of right


async def test_a_file_that_breaks_the_form_is_named_with_its_line(tmp_path: Path) -> None:
    path, environments = tmp_path / "labelled.jsonl", awm_hub.load()
    first = BY_HAND.read_text("utf-8").split("\n")[0]
    for line, message in (("{}", "line 2"), ("nonsense", "line 2"), (first.replace("COMPLETED", "FINE"), "line 2")):
        path.write_text(f"{first}\n{line}\n", encoding="utf-8")
        with pytest.raises(RecordError, match=message):
            await hand_labelled(path, environments)
    path.write_text(first.replace("renew_mateos_loans", "nowhere"), encoding="utf-8")
    with pytest.raises(UnknownNameError):
        await hand_labelled(path, environments)
    with pytest.raises(DataError, match="there is no file"):
        await hand_labelled(tmp_path / "absent.jsonl", environments)


async def test_an_attempt_in_a_failed_environment_is_no_vote(attempts: tuple[Labelled, ...]) -> None:
    failed = dataclasses.replace(attempts[0].trajectory, termination="environment_fault")
    labelled = dataclasses.replace(attempts[0], trajectory=failed, accepted=frozenset({Outcome.ENVIRONMENT_ERROR}))

    def votes(trajectory: Trajectory) -> tuple[str, ...]:
        is_failed = trajectory.termination == "environment_fault"
        return ("ENVIRONMENT_ERROR",) if is_failed else ("COMPLETED", "AGENT_ERROR")

    report = await measure_judge(Guess(votes), [labelled, *attempts[1:]])
    assert (report.attempts, report.pairwise_agreement, report.reward_flip_rate) == (len(attempts), 0.0, 1.0)


async def test_a_model_is_not_asked_to_repeat_itself(attempts: tuple[Labelled, ...]) -> None:
    with pytest.raises(UsageError, match="votes"):
        await measure_judge(Guess(lambda t: ("COMPLETED",)), attempts, repeats=2)
