"""The solver's right attempts as examples to learn from.

An attempt was made before its environment was finished. It is run again on the finished one, with the answers that the
store has for it, so that its record names that environment and holds what an agent sees there. An attempt that was told
why an earlier one had failed is no example: no agent is told such things.
"""

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.history import Window
from awm_hub.policy import ChatPolicy
from awm_hub.rollouts.attempts import attempt_of
from awm_hub.synthesis.asking import Desk, DeskEndpoint
from awm_hub.synthesis.solving import MAX_TURNS, SolverState
from awm_hub.trajectory import Trajectory


async def final_rollouts(environment: Environment, desk: Desk, state: SolverState) -> tuple[Trajectory, ...]:
    """The attempts that the solutions are from, made again on the finished environment; not judged.

    Args:
        environment: Finished.
        desk: Has the answers; an attempt that would need others is left out.
        state: Of the environment's solver.
    """
    found = []
    for slug, solved in state.solved.items():
        if solved.is_noted or slug not in {task.slug for task in environment.tasks}:
            continue
        prefix = f"{environment.id}/solution/{slug}/{solved.attempt}"
        endpoint = DeskEndpoint(desk, prefix, environment=environment.id, stage="solution")
        policy = ChatPolicy(endpoint, protocol="native", is_strict=False, window=Window())
        async with await aio.launch(environment, task=slug, seed=0) as instance:
            trajectory, error = await attempt_of(instance, policy, max_turns=MAX_TURNS)
        if error is None:
            found.append(trajectory)
    return tuple(found)
