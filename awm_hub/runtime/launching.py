"""Launching: from an environment to a live instance.

The sandbox tier is chosen, a task's setup statements are applied to the image, and a worker with room takes the
instance. The same launch can be awaited or entered.
"""

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any

from awm_hub import hub
from awm_hub.environment import Environment
from awm_hub.errors import UsageError
from awm_hub.runtime import jobs
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.limits import Limits, Options
from awm_hub.runtime.tiers import choose_tier
from awm_hub.runtime.workers import Hosting, Workers, current_workers


class Launching:
    """A launch under way: `await` it for the instance, or use it in `async with`, which closes the instance."""

    def __init__(self, work: Coroutine[Any, Any, Instance]) -> None:
        self._work = work
        self._instance: Instance | None = None

    def __await__(self) -> Generator[Any, None, Instance]:
        return self._work.__await__()

    async def __aenter__(self) -> Instance:
        self._instance = await self._work
        return self._instance

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._instance is not None:
            await self._instance.close()


def launch(
    environment: Environment,
    *,
    task: str | None = None,
    seed: int = 0,
    trust_remote_code: bool = False,
    limits: Limits | None = None,
    options: Options | None = None,
    revision: str | None = None,
    workers: Workers | None = None,
) -> Launching:
    """Make an environment live.

    Args:
        environment: The environment.
        task: Id or last part of the id of one of its tasks; its setup statements are applied.
        seed: Seeds Python's and SQL's randomness.
        trust_remote_code: Run without a seal where this machine cannot seal a process.
        limits: What calls may use.
        options: Deviations from strict behaviour, recorded in the trajectory.
        revision: Dataset revision to record in the trajectory; default: the one that the environment was read from.
        workers: Where to host it; default: the workers of the running loop.

    Raises:
        UsageError: an argument is not what it should be.
        UnknownNameError: there is no such task.
        CapacityError: the workers have no room.
        SealError: this machine cannot seal, and the code is not trusted.
        LoadError: the code does not load, or a setup statement fails.
    """
    _check_arguments(environment, task, seed)
    limits, options = limits or Limits(), options or Options()
    return Launching(_launch(environment, task, seed, trust_remote_code, limits, options, revision, workers))


def _check_arguments(environment: Any, task: Any, seed: Any) -> None:
    if not isinstance(environment, Environment):
        raise UsageError(
            f"launch takes an Environment, not {type(environment).__name__}", next_step="awm_hub.load()['an id']"
        )
    if not isinstance(task, str | None):
        raise UsageError(f"a task is named by its id, not by a {type(task).__name__}", next_step="task=task.id")
    if not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise UsageError(f"the seed {seed!r} is not an integer of 64 bits", next_step="choose a smaller one")


async def _launch(
    environment: Environment,
    task: str | None,
    seed: int,
    trust_remote_code: bool,
    limits: Limits,
    options: Options,
    revision: str | None,
    workers: Workers | None,
) -> Instance:
    chosen = environment.task(task) if task is not None else None
    tier = await choose_tier(options.tier, trust_remote_code=trust_remote_code, environment=environment)
    image = environment.database
    if chosen is not None and chosen.setup:
        image = await jobs.prepare_image(image, chosen.setup, environment.clock, trust_remote_code=tier == "process")
    if revision is None:
        revision = hub.revision_of(environment)
    hosting = Hosting(environment=environment, limits=limits, options=options, tier=tier)
    hosts = workers if workers is not None else current_workers()
    instance = Instance(hosting, hosts, task=chosen, seed=seed, image=image, revision=revision)
    try:
        await instance.reset()
    except BaseException:
        await instance.close()
        raise
    return instance
