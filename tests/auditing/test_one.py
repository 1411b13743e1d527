"""One environment's audit: nothing is invented, and each planted fault is found by its rule."""

import dataclasses

import pytest
from auditing.desk import COUNT, PAINT, SEED, TOGETHER, deciding, desk, faulty

from awm_hub.auditing import AuditedEnvironment, audit_one
from awm_hub.environment import Call, Environment, SeedTable, Task

COMPLETE = 'def decide(initial, final, changes):\n    return {"result": "complete"}\n'
BLUE = (
    "def decide(initial, final, changes):\n"
    "    row = final.execute('SELECT colour FROM boxes WHERE id = 1').fetchone()\n"
    "    return {'result': 'complete' if row['colour'] == 'blue' else 'others'}\n"
)


def rules(result: AuditedEnvironment) -> set[tuple[str, str]]:
    return {(f.rule, f.subject) for f in result.findings}


async def found(**changes: object) -> set[tuple[str, str]]:
    return rules(await audit_one(await desk(**changes)))  # type: ignore[arg-type]


async def test_a_sound_environment_has_no_finding_and_a_full_quality() -> None:
    environment = await desk()
    result = await audit_one(environment)
    assert result.findings == ()
    quality = result.quality
    assert (quality.tools_tried, quality.tool_faults, quality.deterministic, quality.hidden_state) == (
        4,
        0,
        True,
        False,
    )
    assert (quality.schema_errors, quality.seed_errors, quality.foreign_key_violations) == (0, 0, 0)
    assert quality.audited_hash == environment.content_hash
    for task in quality.tasks:
        assert task.noop_rejected is True
        assert task.solution_passes is True
        assert task.equivalents_accepted == task.equivalents_tried
        assert task.mutants_rejected == task.mutants_tried
    assert result.coverage.share is not None
    assert result.coverage.share > 0.9
    assert AuditedEnvironment.from_dict(result.to_dict()) == result


async def test_the_notes_environment_has_no_error(notes_environment: Environment) -> None:
    result = await audit_one(notes_environment)
    assert result.count("error") == 0
    # two endings of this task are right, and the mutant makes the other one
    assert [(a.task, a.name) for a in result.survivors] == [
        ("one_bulb_note", "step 2 (finish_note): note_id, one more")
    ]


@pytest.mark.parametrize("planted", TOGETHER, ids=" ".join)
async def test_each_fault_of_a_tool_is_found(planted: tuple[str, ...]) -> None:
    seen = await found(code=faulty(planted), tasks=())
    assert set(planted) <= {name for name, _ in seen}


async def test_a_tool_that_is_said_to_read_and_writes_is_found() -> None:
    environment = await desk(writes=False, tasks=())
    result = await audit_one(environment)
    assert ("false_effect", "paint_box") in rules(result)
    assert result.quality.false_effects == ("move_box", "paint_box")


async def test_rows_that_do_not_load_are_counted_and_named() -> None:
    broken = SeedTable(table="owners", inserts=("INSERT INTO owners (id, name) VALUES (9, 'it\\'s')",))
    result = await audit_one(await desk(seed=(*SEED, broken)))
    assert ("seed_error", "owners") in rules(result)
    assert result.quality.seed_errors == 1


async def test_a_row_that_is_not_what_it_says_is_found() -> None:
    environment = await desk(tasks=())
    other = SeedTable(table="owners", inserts=("INSERT INTO owners (id, name) VALUES (9, 'Di')",))
    claims = dataclasses.replace(environment, seed=(*SEED, other), tools=environment.tools[1:])
    assert {rule for rule, _ in rules(await audit_one(claims))} >= {"image_differs", "hash_differs", "toolset_differs"}


async def test_a_decision_that_is_always_content_is_found() -> None:
    result = await audit_one(await desk(tasks=(deciding(dataclasses.replace(PAINT, kind=None), COMPLETE),)))
    assert {rule for rule, _ in rules(result)} >= {"noop_passes", "mutants_below_goal", "mutant_survives"}
    (task,) = result.quality.tasks
    assert (task.noop_rejected, task.solution_passes) == (False, True)


async def test_a_decision_that_overlooks_damage_lets_mutants_survive() -> None:
    other = dataclasses.replace(
        PAINT,
        id="desk/move",
        instruction="Ada, owner 1, moves box 3.",
        solution=(_call("move_box", box_id=3, owner_id=1),),
    )
    result = await audit_one(await desk(tasks=(deciding(PAINT, BLUE), other)))
    assert ("paint", "extra write: move_box") in [(a.task, a.name) for a in result.survivors]
    assert result.rejected == ()


async def test_a_verifier_that_takes_its_process_along_does_not_spoil_what_is_asked_next() -> None:
    dying = (
        "def decide(initial, final, changes):\n"
        "    rows = changes['boxes'].changed\n"
        "    if not rows:\n"
        "        __import__('os')._exit(1)\n"
        "    return {'result': 'complete' if rows[0].after['colour'] == 'blue' and len(changes.tables) == 1"
        " and len(rows) == 1 and rows[0].key['id'] == 1 else 'others'}\n"
    )
    result = await audit_one(await desk(tasks=(deciding(PAINT, dying),)))
    assert rules(result) == {("verifier_fails", "paint")}
    (task,) = result.quality.tasks
    assert (task.solution_passes, task.noop_rejected) == (True, True)
    assert task.equivalents_accepted == task.equivalents_tried
    assert task.mutants_rejected == task.mutants_tried


def _named(slug: str, task: Task, **changes: object) -> Task:
    return dataclasses.replace(task, id=f"desk/{slug}", **changes)  # type: ignore[arg-type]


async def test_each_fault_of_a_task_is_found() -> None:
    bare = dataclasses.replace(PAINT, solution=None, kind=None)
    wanted = {
        "no_verifier": bare,
        "verifier_fails": deciding(PAINT, "def decide(initial, final, changes):\n    return 1 / 0\n"),
        "solution_fails": dataclasses.replace(PAINT, solution=(_call("paint_box", box_id=99, colour="blue"),)),
        "answer_differs": dataclasses.replace(COUNT, answer_sql="SELECT count(*) FROM boxes"),
        "ungrounded": dataclasses.replace(PAINT, instruction="Paint the box with the tools blue."),
        "answer_unseen": dataclasses.replace(COUNT, answer="cellar", answer_sql="SELECT 'cellar'"),
        "seed_satisfies": deciding(bare, BLUE.replace("'blue'", "'red'")),
        "noop_passes": deciding(bare, COMPLETE),
    }
    seen = await found(tasks=tuple(_named(rule, task) for rule, task in wanted.items()))
    assert {(rule, rule) for rule in wanted} <= seen
    # content with empty tables too: that is no fault of the seed
    assert ("seed_satisfies", "noop_passes") not in seen


def _call(tool: str, **arguments: object) -> Call:
    return Call(tool=tool, arguments=dict(arguments))
