"""Attempts at the tasks of a draft: real instances, a scripted solver and a scripted arbiter."""

import json
from pathlib import Path
from typing import Any

import pytest
from synthesis.drafting import draft_of, facts
from synthesis.scripted_desk import Answer, ScriptedDesk, conversation

from awm_hub.errors import RemoteError
from awm_hub.synthesis import products
from awm_hub.synthesis.asking import Waiting
from awm_hub.synthesis.building import build
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.solving import SolverState, solve_tasks

DUE, FERN = "due_today", "move_and_water_the_fern"
DUE_1, FERN_1 = f"plant_care_1/solution/{DUE}/1", f"plant_care_1/solution/{FERN}/1"
MOVE, WATER = ("move_plant", {"plant_id": 3, "room": "Kitchen"}), ("water_plant", {"plant_id": 3})
LIST: tuple[str, dict[str, Any]] = ("list_plants", {})
RIGHT_DUE = conversation(DUE_1, [("list_plants", {"only_due": True})], '["Monstera", "Fern"]')
RIGHT_FERN = conversation(FERN_1, [LIST], [MOVE], [WATER], "Done.")


async def _solve(
    script: dict[str, Answer], draft: Draft | None = None, state: SolverState | None = None
) -> tuple[Draft, tuple[Problem, ...], SolverState, ScriptedDesk]:
    desk, state = ScriptedDesk(script), state or SolverState()
    solved, problems = await solve_tasks(draft or draft_of(), desk.desk, state)
    return solved, problems, state, desk


def _verdict(at_fault: str, reason: str = "The fern was not watered.", **more: str) -> dict[str, str]:
    return {"at_fault": at_fault, "reason": reason, **more}


def _verifying(slug: str, body: str) -> dict[str, str]:
    """Products of verification in which one function has another body."""
    text = f"def signals_{slug}(initial, final, changes):\n    {body}"
    return dict(draft_of().parts("verification")) | {f"signals_{slug}": text}


async def test_tasks_on_which_solver_and_verifier_agree_get_solutions() -> None:
    draft, problems, state, desk = await _solve(RIGHT_DUE | RIGHT_FERN)
    assert problems == ()
    assert draft.solutions == {
        DUE: {
            "solution": [{"tool": "list_plants", "arguments": {"only_due": True}}],
            "answer": ["Monstera", "Fern"],
        },
        FERN: {
            "solution": [{"tool": tool, "arguments": arguments} for tool, arguments in (LIST, MOVE, WATER)],
            "answer": None,
        },
    }
    assert {slug: (one.attempt, one.is_noted) for slug, one in state.solved.items()} == {
        DUE: (1, False),
        FERN: (1, False),
    }
    trajectory = state.solved[FERN].trajectory
    assert trajectory is not None
    assert trajectory.messages[-1]["content"] == "Done."
    assert set(desk.asked) == set(RIGHT_DUE | RIGHT_FERN)


async def test_solved_drafts_can_be_packed(tmp_path: Path) -> None:
    draft, _, _, _ = await _solve(RIGHT_DUE | RIGHT_FERN)
    built, problems = await build(draft, tmp_path)
    assert problems == ()
    assert built is not None
    assert built.environment.task(DUE).answer == ["Monstera", "Fern"]
    assert [call.tool for call in built.environment.task(FERN).solution or ()] == [
        "list_plants",
        "move_plant",
        "water_plant",
    ]


async def test_the_solver_sees_what_every_agent_sees() -> None:
    _, _, _, desk = await _solve(RIGHT_DUE | RIGHT_FERN)
    system, user = desk.asked[f"{DUE_1}/1"]
    assert "# System" in system["content"]
    assert user["content"] == (
        'Which plants need water today or are overdue? Give their names.\n\nEnd with JSON: ["<text>", …]'
    )


async def test_detours_are_left_out_of_a_solution() -> None:
    detour = conversation(
        FERN_1,
        [LIST],
        [LIST, ("list_plants", {"room": "Nowhere"})],
        [("move_plant", {"plant_id": 99, "room": "Kitchen"})],
        [("move_plant", {"plant_id": "x"})],
        [MOVE, WATER],
        [WATER],
        [("list_plants", {"room": "Kitchen"})],
        "Done.",
    )
    draft, problems, _, _ = await _solve(RIGHT_DUE | detour)
    assert problems == ()
    assert [step["tool"] for step in draft.solutions[FERN]["solution"]] == ["list_plants", "move_plant", "water_plant"]


async def test_every_task_is_asked_for_before_a_run_waits() -> None:
    with pytest.raises(Waiting):
        await _solve({})
    desk = ScriptedDesk({f"{FERN_1}/1": [LIST]})
    with pytest.raises(Waiting):
        await solve_tasks(draft_of(), desk.desk, SolverState())
    assert set(desk.asked) == {f"{DUE_1}/1", f"{FERN_1}/1", f"{FERN_1}/2"}


async def test_an_endpoint_that_fails_ends_the_run_and_is_no_attempt() -> None:
    class Failing(ScriptedDesk):
        async def ask(self, key: str, messages: Any, **told: Any) -> Any:
            raise RemoteError("the endpoint is gone")

    state = SolverState()
    with pytest.raises(RemoteError, match="gone"):
        await solve_tasks(draft_of(), Failing({}).desk, state)
    assert state == SolverState()


async def test_solutions_that_still_end_right_are_kept_without_a_request() -> None:
    draft, _, state, _ = await _solve(RIGHT_DUE | RIGHT_FERN)
    again, problems, _, desk = await _solve({}, draft, state)
    assert (again, problems, desk.asked) == (draft, (), {})


async def test_a_solution_that_no_longer_ends_right_is_attempted_again() -> None:
    draft, _, state, _ = await _solve(RIGHT_DUE | RIGHT_FERN)
    rows = {**draft.parts("sample_data")}
    rows["waterings"] = rows["waterings"].replace("(1, '2026-02-23'", "(1, '2026-03-01'")
    told = {**facts()[DUE], "answer": ["Fern"]}
    changed = draft.having("sample_data", rows).having(
        "verification", {**draft.parts("verification"), f"task:{DUE}": json.dumps(told)}
    )
    second = f"plant_care_1/solution/{DUE}/2"
    script = conversation(second, [("list_plants", {"only_due": True})], '["Fern"]')
    solved, problems, state, desk = await _solve(script, changed, state)
    assert problems == ()
    assert solved.solutions[DUE]["answer"] == ["Fern"]
    assert set(desk.asked) == {f"{second}/1", f"{second}/2"}
    assert state.solved[DUE].is_noted is False


async def test_a_disagreement_goes_to_the_arbiter_with_all_that_is_known() -> None:
    script = RIGHT_DUE | conversation(FERN_1, [LIST], [MOVE], "Done.") | {f"{FERN_1}/arbiter": _verdict("verification")}
    draft, problems, state, desk = await _solve(script)
    assert set(draft.solutions) == {DUE}
    assert problems == (
        Problem(
            stage="verification",
            rule="attempt_disagrees",
            subject=FERN,
            message=f"task {FERN}: The fern was not watered. (An attempt at the task showed: "
            "verifier: the new waterings are [], not one of plant 3 on 2026-03-02)",
        ),
    )
    question = desk.asked[f"{FERN_1}/arbiter"][0]["content"]
    for part in (
        "Move the fern to the kitchen",
        "def signals_move_and",
        "2. move_plant(",
        '"room":"Kitchen"',
        "_unexpected",
    ):
        assert part in question
    assert "def signals_due_today" not in question
    assert state.attempts == {DUE: 1, FERN: 1}
    assert state.reasons == {}


async def test_an_attempt_at_fault_is_followed_by_one_that_is_told_why() -> None:
    second = f"plant_care_1/solution/{FERN}/2"
    script = (
        RIGHT_DUE
        | conversation(FERN_1, [LIST], [MOVE], "Done.")
        | {f"{FERN_1}/arbiter": _verdict("solution")}
        | conversation(second, [LIST], [MOVE, WATER], "Done.")
    )
    draft, problems, state, desk = await _solve(script)
    assert problems == ()
    assert set(draft.solutions) == {DUE, FERN}
    assert state.to_dict() == {
        "attempts": {DUE: 1, FERN: 2},
        "reasons": {FERN: ["The fern was not watered."]},
        "solved": {DUE: {"attempt": 1, "is_noted": False}, FERN: {"attempt": 2, "is_noted": True}},
    }
    assert SolverState.from_dict(state.to_dict()) == state
    assert desk.asked[f"{second}/1"][1]["content"] == (
        "Move the fern to the kitchen and water it.\n\nNote: an earlier attempt at this was not accepted. "
        "The fern was not watered. Start from the beginning and do it right."
    )


async def test_after_five_attempts_at_fault_a_task_is_unsolved() -> None:
    script: dict[str, Answer] = dict(RIGHT_DUE)
    for number in range(1, 6):
        prefix = f"plant_care_1/solution/{FERN}/{number}"
        script |= conversation(prefix, "I cannot.") | {f"{prefix}/arbiter": "hm"}
    draft, problems, state, _ = await _solve(script)
    assert problems == (
        Problem(
            stage="solution",
            rule="unsolved",
            subject=FERN,
            message=f"5 attempts at task {FERN} failed, the last because: "
            "the attempt and the verifier do not agree, and nobody said why",
        ),
    )
    assert state.is_exhausted(FERN)
    assert (await _solve({}, draft, state))[1] == problems


async def test_a_wrong_answer_is_a_disagreement() -> None:
    wrong = conversation(DUE_1, [("list_plants", {"only_due": True})], '["Fern"]')
    script = wrong | RIGHT_FERN | {f"{DUE_1}/arbiter": _verdict("task", "It is unclear.")}
    _, problems, _, desk = await _solve(script)
    assert [(p.stage, p.subject) for p in problems] == [("task", DUE)]
    assert "the answer is ['Fern'], but answer_sql gives ['Monstera', 'Fern'] on the ending" in problems[0].message
    assert '["Fern"]' in desk.asked[f"{DUE_1}/arbiter"][0]["content"]


async def test_a_query_that_changes_something_is_a_disagreement() -> None:
    acting = conversation(DUE_1, [LIST, WATER], '["Monstera", "Fern"]')
    script = acting | RIGHT_FERN | {f"{DUE_1}/arbiter": _verdict("code", tool="water_plant")}
    _, problems, _, _ = await _solve(script)
    assert [(p.stage, p.subject) for p in problems] == [("code", "water_plant")]
    assert "is a query, but its solution changes waterings" in problems[0].message


async def test_the_answer_of_a_solution_is_what_its_ending_gives() -> None:
    task = {
        FERN: json.dumps({"kind": "both", "instruction": "Move the fern to the kitchen, water it, count waterings."})
    }
    told = {**facts()[FERN], "answer": 1, "answer_sql": "SELECT count(*) * 1.0 FROM waterings"}
    plain = draft_of()
    draft = draft_of(
        task={**plain.parts("task"), **task},
        verification={**plain.parts("verification"), f"task:{FERN}": json.dumps(told)},
    )
    script = RIGHT_DUE | conversation(FERN_1, [LIST], [MOVE, WATER], "There are 6.\n6")
    solved, problems, _, _ = await _solve(script, draft)
    assert problems == ()
    assert solved.solutions[FERN]["answer"] == 6
    assert [step["tool"] for step in solved.solutions[FERN]["solution"]] == ["list_plants", "move_plant", "water_plant"]


async def test_a_verifier_that_overlooks_further_changes_is_a_problem_of_verification() -> None:
    body = 'return {"problems": [] if changes["waterings"]["added"] else ["not watered"]}'
    draft, problems, _, _ = await _solve(RIGHT_DUE | RIGHT_FERN, draft_of(verification=_verifying(FERN, body)))
    assert set(draft.solutions) == {DUE, FERN}
    assert problems == (
        Problem(
            stage="verification",
            rule="blind_to_damage",
            subject=FERN,
            message=f"signals_{FERN} finds nothing wrong where the task is done and the first row of waterings is "
            "deleted besides: any further change is a problem",
        ),
    )
    kept = await _solve({}, draft)
    assert (kept[0], kept[1]) == (draft, problems)


async def test_calls_that_name_what_chance_gave_become_references(tmp_path: Path) -> None:
    code = """
import secrets
import sqlite3


def start(db: sqlite3.Connection, room: str) -> dict:
    \"\"\"Start a move.

    Args:
        room: Where to.
    \"\"\"
    token = secrets.token_hex(8)
    db.execute("INSERT INTO moves (token, room) VALUES (?, ?)", (token, room))
    return {"token": token}


def finish(db: sqlite3.Connection, token: str) -> dict:
    \"\"\"Finish a move.

    Args:
        token: Of the move.
    \"\"\"
    if not db.execute("UPDATE moves SET is_done = 1 WHERE token = ?", (token,)).rowcount:
        raise LookupError("no such move")
    return {"ok": True}
"""
    verifiers = """
def signals_move(initial, final, changes):
    done = [row["room"] for row in final.execute("SELECT room FROM moves WHERE is_done AND id > 1")]
    others = [name for name in changes if name != "moves"] or changes["moves"]["changed"] or changes["moves"]["removed"]
    return {"problems": ([] if done == ["Kitchen"] else [f"done: {done}"]) + (["others"] if others else [])}
"""
    draft = draft_of(
        task={"move": json.dumps({"kind": "change", "instruction": "Start a move to the Kitchen and finish it."})},
        database=dict(
            products.read_sql(
                "CREATE TABLE moves (id INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, room TEXT NOT NULL,"
                " is_done INTEGER NOT NULL DEFAULT 0);"
            ).parts
        ),
        sample_data=dict(products.read_sql("INSERT INTO moves (id, token, room) VALUES (1, 'abc', 'Attic');").parts),
        code=products.python_parts(code),
        verification={
            "task:move": json.dumps({"success": "A move to the kitchen is done.", "failure": "It is not."}),
            **products.python_parts(verifiers),
        },
    )

    class Reading(ScriptedDesk):
        """Writes the token that the first result showed."""

        async def ask(self, key: str, messages: Any, **told: Any) -> Any:
            if key.endswith("/2"):
                token = json.loads(messages[-1]["content"])["token"]
                self.script[key] = [("finish", {"token": token})]
            return await super().ask(key, messages, **told)

    prefix = "plant_care_1/solution/move/1"
    desk = Reading({f"{prefix}/1": [("start", {"room": "Kitchen"})], f"{prefix}/3": "Done."})
    solved, problems = await solve_tasks(draft, desk.desk, SolverState())
    assert problems == ()
    assert solved.solutions["move"] == {
        "solution": [
            {"tool": "start", "arguments": {"room": "Kitchen"}},
            {"tool": "finish", "arguments": {"token": "$1.token"}},
        ],
        "answer": None,
        "references": True,
    }
    built, problems = await build(solved, tmp_path)
    assert problems == ()
    assert built is not None
    assert built.environment.volatile_columns == ("moves.token",)
    assert await solve_tasks(solved, ScriptedDesk({}).desk, SolverState()) == (solved, ())


async def test_a_fault_of_a_tool_is_told_though_the_task_is_solved() -> None:
    parts = dict(draft_of().parts("code"))
    parts["list_plants"] = parts["list_plants"].replace(
        "    rows = db", '    {"Kitchen": 1, None: 1}[room]\n    rows = db'
    )
    script = RIGHT_DUE | conversation(FERN_1, [LIST, ("list_plants", {"room": "Bathroom"})], [MOVE, WATER], "Done.")
    draft, problems, _, _ = await _solve(script, draft_of(code=parts))
    assert set(draft.solutions) == {DUE, FERN}
    assert [(p.stage, p.rule, p.subject) for p in problems] == [("code", "tool_fault", "list_plants")]
    assert "KeyError" in problems[0].message


async def test_a_draft_that_cannot_be_built_asks_nothing() -> None:
    parts = {**draft_of().parts("code"), "water_plant": "def water_plant(db, plant_id: int):\n    return nothing(\n"}
    _, problems, _, desk = await _solve({}, draft_of(code=parts))
    assert [(p.stage, p.rule) for p in problems] == [("code", "source_error")]
    assert desk.asked == {}


async def test_solutions_that_the_audit_objects_to_are_made_anew_with_a_note() -> None:
    draft, _, state, _ = await _solve(RIGHT_DUE | RIGHT_FERN)
    objection = Problem(stage="solution", rule="ungrounded", subject=FERN, message="3 comes from nowhere.")
    opened = state.reopened(draft, [objection])
    assert set(opened.solutions) == {DUE}
    assert set(state.solved) == {DUE}
    second = f"plant_care_1/solution/{FERN}/2"
    solved, _, state, desk = await _solve(conversation(second, [LIST], [MOVE, WATER], "Done."), opened, state)
    assert set(solved.solutions) == {DUE, FERN}
    assert "3 comes from nowhere." in desk.asked[f"{second}/1"][1]["content"]
