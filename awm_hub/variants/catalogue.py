"""All attempts at one task, in the order of `KINDS`."""

from collections.abc import Collection, Sequence

from awm_hub.environment import Environment, Task
from awm_hub.errors import UsageError
from awm_hub.trajectory import Step
from awm_hub.variants.attempts import KINDS, Attempt
from awm_hub.variants.equivalents import equivalents
from awm_hub.variants.injections import injections
from awm_hub.variants.mutants import mutants, noops, sibling_solutions
from awm_hub.variants.replies import wrong_answers


def attempts_at(
    environment: Environment, task: Task, *, kinds: Collection[str] = KINDS, solved: Sequence[Step] = ()
) -> tuple[Attempt, ...]:
    """Everything that can be made of a task's solution.

    Args:
        environment: Where the task belongs.
        task: A task with a solution.
        kinds: Which of `KINDS` to make.
        solved: Steps of the solution as it ran, where known; more mutants can be made with them.

    Raises:
        UsageError: the task has no solution, or there is no such kind.
    """
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise UsageError(f"no kind of attempt named {unknown[0]!r}", next_step=f"choose from {', '.join(KINDS)}")
    if task.solution is None:
        raise UsageError(f"task {task.id} has no solution to make attempts of", next_step="choose a task with one")
    made = [
        *equivalents(environment, task),
        *noops(task),
        *mutants(environment, task, solved),
        *wrong_answers(environment, task),
        *sibling_solutions(environment, task),
        *injections(environment, task),
    ]
    return tuple(attempt for attempt in made if attempt.kind in kinds)
