"""The loop with stages of which only a number matters: who is asked next, how often, and which draft is kept."""

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from synthesis.scripted_desk import ScriptedDesk

from awm_hub.auditing.findings import AuditedEnvironment
from awm_hub.environment import Quality
from awm_hub.inference import Reply
from awm_hub.synthesis import loop, products, requests
from awm_hub.synthesis.asking import Waiting
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.loop import Made, Maker
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.solving import Solved, SolverState
from awm_hub.synthesis.stages import Stage
from awm_hub.synthesis.store import Store

NAMES = ("scenario", "task", "code")
Versions = Mapping[str, int]
"""Stage → the number in its product; of `solution` how often the task was attempted."""
Finds = Callable[[str, Versions], Sequence[Problem]]
"""Gate and versions → what is wrong."""


def wrong(stage: str, rule: str = "bad", subject: str = "", severity: str = "error") -> Problem:
    return Problem(stage=stage, rule=rule, subject=subject, message=f"{stage} is {rule}", severity=severity)


def nothing(gate: str, versions: Versions) -> Sequence[Problem]:
    return ()


def only(gate: str, stage: str, below: int, *found: Problem) -> Finds:
    """A gate that finds this while a stage's number is too low."""
    return lambda at, versions: found if at == gate and versions[stage] < below else ()


class Trial:
    """One run of the loop on fake stages."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, finds: Finds) -> None:
        self.folder, self.finds = folder, finds
        self.looked: list[str] = []
        """Gates that ran, in order."""
        self.solved = 0
        stages = [self._stage(position) for position in range(len(NAMES))]
        by_name = {stage.name: stage for stage in stages}
        monkeypatch.setattr(loop, "WRITTEN", tuple(stages))
        monkeypatch.setattr(loop, "STAGES_BY_NAME", by_name)
        monkeypatch.setattr(requests, "STAGES_BY_NAME", by_name)
        monkeypatch.setattr(loop, "solve_tasks", self._solve)
        monkeypatch.setattr(loop, "audit_draft", self._audit)

    async def run(self, answers: Mapping[str, Sequence[Any]]) -> Made:
        """Make an environment of answers: by stage, one after the other; a number is a product with it."""
        script = {
            f"club_1/{stage}/{number}": json.dumps({"v": given}) if isinstance(given, int) else given
            for stage, listed in answers.items()
            for number, given in enumerate(listed, 1)
        }
        self.desk = _Desk(script)
        with Store.open(self.folder, {}) as store:
            draft = Draft(id="club_1", name="Club", clock=dt.datetime(2026, 6, 1, 8, tzinfo=dt.UTC))
            self.events: list[Mapping[str, Any]] = []
            maker = Maker(draft=draft, desk=self.desk.desk, store=store, progress=self.events.append)
            made = await maker.make()
            self.because = {a["key"]: [p["rule"] for p in a["because"]] for a in store.records("attempt")}
        return made

    def asked(self) -> list[str]:
        """Positions that were asked, without the environment."""
        return [key.removeprefix("club_1/") for key in self.desk.asked]

    def _stage(self, position: int) -> Stage:
        name = NAMES[position]

        async def check(draft: Draft) -> tuple[Problem, ...]:
            return self._look(name, draft)

        return Stage(
            name=name,
            prompt=lambda draft: f"Write {name}.",
            shows=NAMES[:position],
            read=products.read_records,
            render=products.write_records,
            check=check,
        )

    def _look(self, gate: str, draft: Draft) -> tuple[Problem, ...]:
        self.looked.append(gate)
        return tuple(self.finds(gate, {**versions_of(draft), "solution": self.solved}))

    async def _solve(
        self, draft: Draft, desk: Any, state: SolverState, **more: Any
    ) -> tuple[Draft, tuple[Problem, ...]]:
        self.solved += "row" not in draft.solutions
        state.attempts["row"] = self.solved
        state.solved["row"] = Solved(slug="row", attempt=self.solved, is_noted=False)
        solved = draft.having("solution", {"row": json.dumps({"solution": [], "answer": self.solved})})
        return solved, self._look("solution", draft)

    async def _audit(self, draft: Draft, folder: Path, **more: Any) -> tuple[None, AuditedEnvironment, Any]:
        found = self._look("audit", draft)
        hash = "-".join(str(version) for version in versions_of(draft).values())
        return None, AuditedEnvironment(id=draft.id, content_hash=hash, findings=(), quality=Quality()), found


def versions_of(draft: Draft) -> dict[str, int]:
    return {name: draft.records(name)["v"] for name in NAMES if draft.parts(name)}


class _Desk(ScriptedDesk):
    """Gives whole replies too, for answers that were cut off."""

    async def ask(self, key: str, messages: Sequence[Mapping[str, Any]], **told: Any) -> Reply:
        reply = await super().ask(key, messages, **told)
        is_cut = (reply.content or "").endswith("CUT")
        return Reply(content=reply.content, finish_reason="length") if is_cut else reply


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Finds], Trial]:
    return lambda finds: Trial(tmp_path, monkeypatch, finds)


ONCE = {"scenario": [1], "task": [1], "code": [1]}


async def test_what_is_right_at_once_is_asked_once_and_looked_at_once(trial: Callable[[Finds], Trial]) -> None:
    tried = trial(nothing)
    made = await tried.run(ONCE)
    assert (made.is_accepted, made.problems, made.attempts) == (True, (), {"scenario": 1, "task": 1, "code": 1})
    assert tried.asked() == ["scenario/1", "task/1", "code/1"]
    assert tried.looked == ["scenario", "task", "code", "solution", "audit"]
    assert made.audited is not None
    assert made.audited.content_hash == "1-1-1"
    assert [e["event"] for e in tried.events] == ["attempt", "gate"] * 3 + ["gate"] * 2


async def test_a_second_start_looks_at_nothing_again(trial: Callable[[Finds], Trial]) -> None:
    tried = trial(only("audit", "code", 2, wrong("code")))
    first = await tried.run({**ONCE, "code": [1, 2]})
    looked = list(tried.looked)
    second = await tried.run({**ONCE, "code": [1, 2]})
    assert tried.looked == looked
    assert tried.events == []
    assert (first.audited, first.attempts) == (second.audited, second.attempts)


async def test_the_earliest_stage_with_an_error_is_asked_whichever_gate_found_it(
    trial: Callable[[Finds], Trial],
) -> None:
    def finds(gate: str, versions: Versions) -> Sequence[Problem]:
        both = [wrong("code", "slow"), wrong("task", "vague"), wrong("scenario", "dull", severity="warning")]
        left = [p for p in both if versions.get(p.stage, 0) < 2]
        return left if gate == "audit" and len(left) > 1 else ()

    tried = trial(finds)
    made = await tried.run({**ONCE, "task": [1, 2], "scenario": [1, 2], "code": [1, 2]})
    assert tried.asked() == ["scenario/1", "task/1", "code/1", "task/2", "code/2"]
    assert tried.because["club_1/task/2"] == ["vague"]
    assert tried.because["club_1/code/2"] == ["slow"]
    assert made.is_accepted
    told = tried.desk.asked["club_1/task/2"][-1]["content"]
    assert "- [vague] task is vague" in told
    assert "slow" not in told


async def test_what_stands_on_a_mended_product_is_looked_at_again(trial: Callable[[Finds], Trial]) -> None:
    tried = trial(only("code", "task", 2, wrong("task")))
    assert (await tried.run({**ONCE, "task": [1, 2]})).is_accepted
    assert tried.looked == ["scenario", "task", "code", "task", "code", "solution", "audit"]


async def test_warnings_are_sent_back_while_there_were_fewer_than_three_attempts(
    trial: Callable[[Finds], Trial],
) -> None:
    tried = trial(only("code", "code", 9, wrong("code", "wordy", severity="warning")))
    made = await tried.run({**ONCE, "code": [1, 2, 3]})
    assert (made.is_accepted, made.attempts["code"]) == (True, 3)
    assert made.audited is not None
    assert made.audited.content_hash == "1-1-3"


async def test_warnings_of_the_audit_that_are_left_are_told(trial: Callable[[Finds], Trial]) -> None:
    warning = wrong("code", "wordy", severity="warning")
    tried = trial(only("audit", "code", 9, warning))
    made = await tried.run({**ONCE, "code": [1, 2, 3]})
    assert (made.is_accepted, made.problems) == (True, (warning,))


async def test_a_correction_that_repeats_the_product_is_asked_for_no_longer_than_any(
    trial: Callable[[Finds], Trial],
) -> None:
    tried = trial(only("audit", "code", 9, wrong("code", "wordy", severity="warning")))
    made = await tried.run({**ONCE, "code": [1, 1, 1]})
    assert (made.is_accepted, made.attempts["code"]) == (True, 3)
    assert tried.looked.count("audit") == 1


async def test_the_best_draft_is_kept_where_attempts_run_out(trial: Callable[[Finds], Trial]) -> None:
    wrongs = {1: 3, 2: 1, 3: 2, 4: 2, 5: 4}
    tried = trial(
        lambda gate, versions: (
            [wrong("code", f"bad_{n}") for n in range(wrongs[versions["code"]])] if gate == "code" else ()
        )
    )
    made = await tried.run({**ONCE, "code": [1, 2, 3, 4, 5]})
    assert (made.is_accepted, made.attempts["code"]) == (False, 5)
    assert versions_of(made.draft)["code"] == 2
    assert [p.rule for p in made.problems] == ["bad_0"]
    assert "solution" not in tried.looked


async def test_a_draft_that_comes_further_is_better_than_one_with_fewer_errors(
    trial: Callable[[Finds], Trial],
) -> None:
    def finds(gate: str, versions: Versions) -> Sequence[Problem]:
        if gate == "audit":
            return [wrong("code", "weak"), wrong("code", "weaker")]
        return [wrong("code", "broken")] if gate == "code" and versions["code"] > 1 else ()

    made = await trial(finds).run({**ONCE, "code": [1, 2, 3, 4, 5]})
    assert (made.is_accepted, versions_of(made.draft)["code"]) == (False, 1)
    assert [p.rule for p in made.problems] == ["weak", "weaker"]


async def test_a_correction_that_makes_it_worse_does_not_lose_what_was_accepted(
    trial: Callable[[Finds], Trial],
) -> None:
    warning = wrong("code", "wordy", severity="warning")

    def finds(gate: str, versions: Versions) -> Sequence[Problem]:
        if gate == "audit" and versions["code"] == 1:
            return [warning]
        return [wrong("code", "broken")] if gate == "code" and versions["code"] > 1 else ()

    made = await trial(finds).run({**ONCE, "code": [1, 2, 3, 4, 5]})
    assert made.audited is not None
    assert (made.audited.content_hash, made.problems) == ("1-1-1", (warning,))
    assert versions_of(made.draft)["code"] == 1


async def test_the_solver_is_kept_as_it_was_with_the_draft_that_is_kept(trial: Callable[[Finds], Trial]) -> None:
    def finds(gate: str, versions: Versions) -> Sequence[Problem]:
        if gate == "audit":
            return [wrong("solution", "long", "row", "warning" if versions["solution"] == 1 else "error")]
        return ()

    made = await trial(finds).run(ONCE)
    assert made.is_accepted
    assert made.solver.solved["row"].attempt == 1
    assert made.draft.solutions["row"]["answer"] == 1


async def test_a_task_that_cannot_be_solved_ends_the_environment(trial: Callable[[Finds], Trial]) -> None:
    tried = trial(lambda gate, versions: [wrong("solution", "unsolved", "tow")] if gate == "solution" else ())
    made = await tried.run(ONCE)
    assert (made.is_accepted, [p.rule for p in made.problems]) == (False, ["unsolved"])
    assert tried.looked == ["scenario", "task", "code", "solution"]


async def test_a_solution_is_reopened_no_more_often_than_a_task_may_be_attempted(
    trial: Callable[[Finds], Trial],
) -> None:
    tried = trial(lambda gate, versions: [wrong("solution", "odd", "row")] if gate == "audit" else ())
    made = await tried.run(ONCE)
    assert (made.is_accepted, [p.rule for p in made.problems]) == (False, ["odd"])
    assert tried.solved == loop.ATTEMPTS


async def test_a_task_that_the_solver_blames_is_asked_for_until_its_attempts_are_used_up(
    trial: Callable[[Finds], Trial],
) -> None:
    tried = trial(lambda gate, versions: [wrong("task", "attempt_disagrees", "row")] if gate == "solution" else ())
    made = await tried.run({**ONCE, "task": [1, 2, 3, 4, 5]})
    assert (made.is_accepted, made.attempts["task"]) == (False, 5)
    assert [p.rule for p in made.problems] == ["attempt_disagrees"]


async def test_what_cannot_be_read_is_asked_for_again_with_the_reason(trial: Callable[[Finds], Trial]) -> None:
    tried = trial(nothing)
    made = await tried.run({**ONCE, "task": ["I would rather not.", '{"v": 1} CUT', 7]})
    assert (made.is_accepted, made.attempts["task"]) == (True, 3)
    assert tried.because["club_1/task/2"] == ["unreadable_answer"]
    second, third = (tried.desk.asked[f"club_1/task/{n}"] for n in (2, 3))
    assert second[-2] == {"role": "assistant", "content": "I would rather not."}
    assert "no complete JSON object is found" in second[-1]["content"]
    assert "cut off at the length limit" in third[-1]["content"]


async def test_a_correction_that_cannot_be_read_is_asked_for_again_with_what_it_was_for(
    trial: Callable[[Finds], Trial],
) -> None:
    tried = trial(only("code", "code", 2, wrong("code", "slow")))
    made = await tried.run({**ONCE, "code": [1, "Sorry.", 2]})
    assert made.is_accepted
    assert tried.because["club_1/code/3"] == ["slow", "unreadable_answer"]


@pytest.mark.parametrize(("stage", "kept"), [("scenario", {}), ("code", {"scenario": 1, "task": 1})])
async def test_a_stage_that_is_never_readable_is_why_the_environment_is_rejected(
    trial: Callable[[Finds], Trial], stage: str, kept: Versions
) -> None:
    tried = trial(nothing)
    made = await tried.run({**ONCE, stage: ["no"] * 5})
    assert (made.is_accepted, made.attempts[stage]) == (False, 5)
    assert [(p.stage, p.rule) for p in made.problems] == [(stage, "unreadable_answer")]
    assert versions_of(made.draft) == kept


async def test_a_product_that_is_removed_altogether_is_asked_for_anew(trial: Callable[[Finds], Trial]) -> None:
    tried = trial(only("code", "code", 2, wrong("code")))
    made = await tried.run({**ONCE, "code": [1, '{"remove": ["v"]}', 2]})
    assert made.is_accepted
    assert len(tried.desk.asked["club_1/code/3"]) == 2


async def test_a_missing_answer_stops_the_environment_and_leaves_the_rest_for_later(
    trial: Callable[[Finds], Trial],
) -> None:
    tried = trial(nothing)
    with pytest.raises(Waiting):
        await tried.run({"scenario": [1]})
    assert tried.asked() == ["scenario/1", "task/1"]
    assert (await tried.run(ONCE)).is_accepted
