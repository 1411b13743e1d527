"""The audit's quick decisions are those of the judge."""

from dataclasses import replace

from awm_hub import aio
from awm_hub.auditing.attempting import crossed, open_bench
from awm_hub.auditing.foundations import open_case
from awm_hub.environment import Call, Environment, Task
from awm_hub.trajectory import Outcome
from awm_hub.variants import attempts_at
from awm_hub.variants.attempts import right_answer
from awm_hub.variants.performing import carry_out

KINDS = ("solution", "equivalent", "noop", "mutant", "wrong_answer", "sibling")


async def test_every_attempt_is_decided_as_the_judge_decides_it(notes_environment: Environment) -> None:
    case = await open_case(notes_environment, trust_remote_code=False)
    compared = 0
    for task in notes_environment.tasks:
        attempts = attempts_at(notes_environment, task, kinds=KINDS)[::4]
        async with open_bench(case, task) as bench, aio.launch(notes_environment, task=task.id) as instance:
            bench.expected = await bench.run(task.solution or ())
            for attempt in attempts:
                decided = await bench.decide(await bench.run(attempt.calls), attempt.answer)
                verdict = await aio.judge(await carry_out(instance, attempt))
                assert decided.is_complete == (verdict.outcome is Outcome.COMPLETED), attempt.name
                compared += 1
    case.workers.stop()
    assert compared > 20


def test_values_are_exchanged_within_a_call_and_between_calls_of_one_tool() -> None:
    def move(box: int, owner: int) -> Call:
        return Call(tool="move", arguments={"box": box, "owner": owner, "note": "n"})

    task = Task(id="desk/t", instruction="", solution=(move(1, 2), move(3, 4)))
    made = crossed(task, task.solution or (), None)
    arguments = [[(c.arguments["box"], c.arguments["owner"]) for c in a.calls] for a in made]
    assert arguments == [[(2, 1), (3, 4)], [(3, 2), (1, 4)], [(1, 4), (3, 2)], [(1, 2), (4, 3)]]
    assert {(a.kind, a.should_pass) for a in made} == {("mutant", False)}


def test_a_single_difference_exchanged_is_only_another_order() -> None:
    calls = tuple(Call(tool="renew", arguments={"loan_id": n}) for n in (1, 2))
    task = replace(Task(id="desk/t", instruction=""), solution=calls)
    assert crossed(task, calls, right_answer(task)) == []
