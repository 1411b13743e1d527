"""The last gate: a draft packed and audited, and each finding with the stage that can mend it."""

import json
from pathlib import Path
from typing import Any

import pytest
from synthesis.drafting import draft_of, facts

from awm_hub.auditing.findings import Attempted, AuditedEnvironment, Counts, finding
from awm_hub.environment import Provenance, Quality
from awm_hub.synthesis.building import blamed
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.final import audit_draft, problems_of
from awm_hub.synthesis.problems import Problem, errors

DUE, FERN = "due_today", "move_and_water_the_fern"
LIST: dict[str, Any] = {"tool": "list_plants", "arguments": {}}
MOVE = {"tool": "move_plant", "arguments": {"plant_id": 3, "room": "Kitchen"}}
WATER = {"tool": "water_plant", "arguments": {"plant_id": 3}}
SOLUTIONS: dict[str, Any] = {
    DUE: {
        "solution": [{"tool": "list_plants", "arguments": {"only_due": True}}],
        "answer": ["Monstera", "Fern"],
    },
    FERN: {"solution": [LIST, MOVE, WATER], "answer": None},
}


def _draft(solutions: dict[str, Any] | None = None, **changes: Any) -> Draft:
    parts = {slug: json.dumps(part) for slug, part in {**SOLUTIONS, **(solutions or {})}.items()}
    return draft_of(solution=parts, **changes)


async def _problems(draft: Draft, folder: Path) -> tuple[Problem, ...]:
    return (await audit_draft(draft, folder, Provenance()))[2]


async def test_a_right_draft_is_accepted_and_its_origin_kept(tmp_path: Path) -> None:
    environment, audited, problems = await audit_draft(_draft(), tmp_path, Provenance(generator="scripted"))
    assert environment is not None
    assert audited is not None
    assert errors(problems) == ()
    assert environment.provenance.generator == "scripted"
    assert audited.content_hash == environment.content_hash
    assert all(task.solution_passes and task.noop_rejected for task in audited.quality.tasks)
    assert (tmp_path / "plant_care_1" / "tasks.toml").is_file()


async def test_the_same_draft_gives_the_same_problems(tmp_path: Path) -> None:
    parts = {**draft_of().parts("code")}
    parts["_plant"] = parts["_plant"].replace('raise LookupError(f"', 'raise KeyError(f"')
    draft = _draft(code=parts)
    first = await _problems(draft, tmp_path / "one")
    assert first == await _problems(draft, tmp_path / "two")
    assert ("code", "fuzz_fault", "water_plant") in [(p.stage, p.rule, p.subject) for p in first]


async def test_mistakes_that_signals_accept_are_named(tmp_path: Path) -> None:
    parts = dict(draft_of().parts("verification"))
    parts[f"signals_{FERN}"] = parts[f"signals_{FERN}"].replace('if change["key"] != {"id": 3} or ', "if ")
    parts[f"signals_{FERN}"] = parts[f"signals_{FERN}"].replace('"room": "Kitchen"', '"room": change["after"]["room"]')
    problems = await _problems(_draft(verification=parts), tmp_path)
    accepted = [p for p in problems if p.rule == "signals_accept_mistake"]
    assert [(p.stage, p.subject) for p in accepted] == [("verification", FERN)]
    assert f"signals_{FERN} finds nothing wrong with " in accepted[0].message
    assert "plants" in accepted[0].message
    assert "crossed" not in accepted[0].message


async def test_signals_that_ask_for_free_texts_are_too_narrow(tmp_path: Path) -> None:
    parts = dict(draft_of().parts("verification"))
    parts[f"task:{FERN}"] = json.dumps({**facts()[FERN], "free": ["plants.room"]})
    problems = await _problems(_draft(verification=parts), tmp_path)
    assert ("verification", "signals_reject_right", FERN) in [(p.stage, p.rule, p.subject) for p in problems]


def test_mutants_that_a_decision_accepts_are_named_and_those_held_out_are_counted() -> None:
    survivors = tuple(Attempted(task=FERN, name=f"mutant {n}", reason="complete") for n in range(14))
    audited = AuditedEnvironment(
        id="plant_care_1",
        content_hash="0" * 64,
        findings=(
            finding("mutants_below_goal", "", "26 of 44 are rejected"),
            *(finding("mutant_survives", FERN, f"{a.name}: {a.reason}") for a in survivors),
            finding("literal_unknown", FERN, "the sample data does not hold 'x'"),
        ),
        survivors=survivors,
        held_out=Counts(right=6, tried=10),
        quality=Quality(),
    )
    survived, below = problems_of(audited)
    assert (survived.stage, survived.rule, survived.subject, survived.severity) == (
        "verification",
        "mutant_survives",
        FERN,
        "warning",
    )
    assert survived.message.startswith(
        f"in task {FERN} these attempts with a mistake are accepted: mutant 0 (complete); mutant 1 (complete); "
    )
    assert survived.message.endswith("mutant 11 (complete); and 2 more; let the decision check it")
    assert below.message == (
        f"of the attempts with a mistake, 26 of 44 are rejected. Accepted: 14 in {FERN}; of a kind that is not shown, "
        "4 of 10. mend the decisions of the survivors"
    )


@pytest.mark.parametrize(
    ("stage", "name", "text", "blame"),
    [
        ("database", "table extra", "CREATE TABLE extra (id INTEGER REFERENCES);", ("database", "table extra")),
        (
            "sample_data",
            "waterings",
            "INSERT INTO waterings (plant_id, watered_on) VALUES (77, '2026-02-16');",
            ("sample_data", "waterings"),
        ),
        ("code", "move_plant", "def move_plant(db, plant_id: int) -> dict:\n    return {}", ("code", "move_plant")),
        ("code", "water_plant", "def water_plant(db, plant_id: int) -> dict:\n    1 / 0", ("code", "water_plant")),
        ("verification", "_more", "def more(db):\n    return 1", ("verification", "")),
        ("solution", FERN, json.dumps({"solution": [LIST]}), ("solution", FERN)),
        ("solution", FERN, json.dumps({"solution": [{"tool": "sing", "arguments": {}}]}), ("solution", FERN)),
        ("task", DUE, json.dumps({"kind": "query", "instruction": ""}), ("task", DUE)),
    ],
)
async def test_what_keeps_a_draft_from_being_packed_is_for_the_stage_that_wrote_it(
    stage: str, name: str, text: str, blame: tuple[str, str], tmp_path: Path
) -> None:
    draft = _draft()
    environment, audited, problems = await audit_draft(
        draft.having(stage, {**draft.parts(stage), name: text}), tmp_path, Provenance()
    )
    assert (environment, audited) == (None, None)
    assert [p.rule for p in problems] == ["source_error"]
    assert (problems[0].stage, problems[0].subject) in (blame, (blame[0], ""))


async def test_texts_that_no_file_can_hold_are_a_problem_of_their_stage(tmp_path: Path) -> None:
    draft = _draft()
    parts = {**draft.parts("task"), DUE: json.dumps({"kind": "query", "instruction": "\ud800"}, ensure_ascii=False)}
    problems = await _problems(draft.having("task", parts), tmp_path)
    assert [(p.stage, p.rule) for p in problems] == [("task", "unreadable_text")]


@pytest.mark.parametrize(
    ("message", "blame"),
    [
        ("plant_care_1/tasks.toml, [due_today]: answer is missing: a task of kind …", ("verification", DUE)),
        ("plant_care_1/tasks.toml, [due_today]: kind is 'look'", ("task", DUE)),
        ("plant_care_1/tasks.toml, [due_today]: answer_sql gives 3, not 4", ("verification", DUE)),
        (f"plant_care_1/{FERN}: verifier signals_x failed: no", ("verification", FERN)),
        (
            f"task plant_care_1/{FERN}, step 2: water_plant(plant_id=3) is fault ValueError in tools.py: …",
            ("code", "water_plant"),
        ),
        (f"7 seconds later and with another seed, task plant_care_1/{FERN}, step 2: …", ("solution", FERN)),
        ("plant_care_1/tools.py, line 3: move_plant(room): the parameter has no description", ("code", "move_plant")),
        ("plant_care_1/seed.sql, line 3: plants: UNIQUE constraint failed", ("sample_data", "plants")),
        ("plant_care_1/scenario.toml: categories holds 'x'", ("scenario", "categories")),
    ],
)
def test_messages_of_packing_are_blamed_by_file_and_key(message: str, blame: tuple[str, str]) -> None:
    assert blamed(message, _draft()) == blame
