"""Judging an attempt of a run: a verdict, or why there is none. A judge that fails gives no reward."""

from dataclasses import replace

from awm_hub.environment import Environment
from awm_hub.errors import JudgeError, RemoteError, UsageError, WorkerError
from awm_hub.judging import JUDGES, Judge, judge_async
from awm_hub.rollouts import recording
from awm_hub.rollouts.store import Rollout


def judge_name(judge: str | Judge | None) -> str | None:
    """What a plan calls a judge.

    Raises:
        UsageError: there is no judge of this name.
    """
    if isinstance(judge, str) and judge not in JUDGES:
        raise UsageError(f"no judge named {judge!r}", next_step=f"choose one of {', '.join(JUDGES)}, or none")
    return judge if isinstance(judge, str | None) else judge.name


async def with_verdict(rollout: Rollout, *, environment: Environment | None, judge: str | Judge | None) -> Rollout:
    """A rollout with a further verdict, or with why there is none; as it is where nothing can be concluded from it."""
    if judge is None or rollout.is_cut_short:
        return rollout
    try:
        verdict = await judge_async(rollout.trajectory, environment=environment, judge=judge)
    except (JudgeError, RemoteError, WorkerError) as error:
        told = {"judge": str(judge_name(judge)), "type": type(error).__name__, "message": recording.text(error)}
        return replace(rollout, judge_error=told)
    verdicts = (*rollout.trajectory.verdicts, verdict)
    return replace(rollout, trajectory=replace(rollout.trajectory, verdicts=verdicts), judge_error=None)
