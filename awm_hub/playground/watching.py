"""An agent at work in a visit, told as it happens.

The loop is that of every rollout (`awm_hub.rollouts.attempts`), so what is watched here is what would be measured
elsewhere, format rules and all. It plays on the visit's own instance, and a policy that stands before the real one says
what is going on: whom is asked, what was said, which calls were made and which rows they changed. The same policy ends
the attempt when somebody stops it, when time is up, and when the visitor has left; what there is then is judged too.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any

from awm_hub.errors import AwmHubError, SandboxError
from awm_hub.playground.visits import Move, Visit
from awm_hub.policy import Policy
from awm_hub.policy.acting import Action, Message, View
from awm_hub.rollouts.attempts import attempt_of
from awm_hub.rollouts.policies import check_policy
from awm_hub.trajectory import StateDiff, Trajectory, Verdict

MAX_TURNS = 20
"""Assistant messages of a watched attempt at most (paper §5)."""
TIME_LIMIT_S = 300.0
SCRIPTED_PACE_S = 0.8
"""A turn of a policy that does not think takes so long, for people to follow."""
_LOOK_S = 1.0
"""How often a model that is being waited for is given up, if there is a reason."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The policy is asked for its next action."""

    turn: int
    """From 1."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """The policy's action."""

    turn: int
    action: Action


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A call was made, by the policy or by whoever else knows the instance."""

    move: Move
    diff: StateDiff | None
    """Rows that it changed; None where that cannot be found out."""


@dataclass(frozen=True, kw_only=True)
class Judging:
    """The attempt is over, and a verdict is being reached."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Nothing comes after it."""

    termination: str
    """As trajectories have it."""
    cause: str = ""
    """Why it ended without an answer, where it is known."""
    next_step: str = ""
    verdict: Verdict | None = None
    judge_error: str | None = None
    trajectory: Trajectory | None = None
    """None where not even a record is left."""


Event = Asked | Said | Moved | Judging | Ended


class Interrupted(AwmHubError):
    """The attempt was ended from outside; `by` says by what: `visitor`, `time` or `leaving`."""

    def __init__(self, by: str) -> None:
        super().__init__(_CAUSES[by])
        self.by = by


_CAUSES = {
    "visitor": "It was stopped.",
    "time": "The time for one attempt was up.",
    "leaving": "The instance was closed.",
}


class Watch:
    """One attempt, watched.

    Args:
        visit: Where it is made; a fresh one, with a task.
        policy: What attempts it.
        stopping: Set by whoever stops it.
        max_turns: Assistant messages at most.
        time_limit_s: For the whole attempt.
        pace_s: Least time for a turn.

    Raises:
        UsageError: the policy is none.
    """

    def __init__(
        self,
        visit: Visit,
        policy: Policy,
        *,
        stopping: asyncio.Event | None = None,
        max_turns: int = MAX_TURNS,
        time_limit_s: float = TIME_LIMIT_S,
        pace_s: float = 0.0,
    ) -> None:
        check_policy(policy)
        self._visit, self._max_turns = visit, max_turns
        self._happened: asyncio.Queue[Event] = asyncio.Queue()
        self._stopping = stopping or asyncio.Event()
        self._policy = _Told(
            policy, visit, self._happened, self._stopping, ends_s=time.monotonic() + time_limit_s, pace_s=pace_s
        )

    def stop(self) -> None:
        """End the attempt soon; it is judged as it stands."""
        self._stopping.set()

    async def events(self) -> AsyncGenerator[Event, None]:
        """What happens, until `Ended`. Whoever stops listening ends the attempt.

        Raises:
            UsageError: the visit has no task.
            EpisodeError: its episode is over.
        """
        playing = asyncio.create_task(self._play())
        try:
            while True:
                event = await _next(self._happened, playing)
                if event is None:
                    playing.result()
                    return
                yield event
        finally:
            playing.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await playing

    async def _play(self) -> None:
        trajectory, error = await attempt_of(self._visit.instance, self._policy, max_turns=self._max_turns)
        with contextlib.suppress(SandboxError):  # the instance is gone, and with it what is not yet told
            await self._policy.tell_moves()
        if isinstance(error, Interrupted):
            usage = {name: value for name, value in trajectory.usage.items() if name != "error"}
            trajectory = replace(trajectory, usage={**usage, "stopped_by": error.by})
        cut_short = trajectory.termination == "endpoint_error" or "error" in trajectory.usage
        self._happened.put_nowait(await self._ending(trajectory, error, is_judged=not cut_short))

    async def _ending(self, trajectory: Trajectory, error: Exception | None, *, is_judged: bool) -> Ended:
        """The end, with the verdict; nothing is concluded from an attempt that the policy or its endpoint failed."""
        judge_error = None
        if is_judged and self._visit.is_open:
            self._happened.put_nowait(Judging())
            try:
                await self._visit.submit(self._visit.answer)
                judge_error = self._visit.judge_error
            except AwmHubError as failed:
                judge_error = failed.message
        verdict = self._visit.verdict
        if verdict is not None:
            trajectory = replace(trajectory, verdicts=(verdict,))
        known = error if isinstance(error, AwmHubError) else None
        return Ended(
            termination=trajectory.termination,
            cause=known.message if known else type(error).__name__ if error else "",
            next_step=known.next_step if known else "",
            verdict=verdict,
            judge_error=judge_error,
            trajectory=trajectory,
        )


class _Told:
    """A policy that says what is going on, and ends the attempt when it is to end."""

    def __init__(
        self,
        policy: Policy,
        visit: Visit,
        happened: "asyncio.Queue[Event]",
        stopping: asyncio.Event,
        *,
        ends_s: float,
        pace_s: float,
    ) -> None:
        self._policy, self._visit, self._happened, self._stopping = policy, visit, happened, stopping
        self._ends_s, self._pace_s = ends_s, pace_s
        self._told_moves = len(visit.moves)

    @property
    def is_strict(self) -> bool:
        """As the policy."""
        return self._policy.is_strict

    @property
    def uses_meta_tools(self) -> bool:
        """As the policy."""
        return self._policy.uses_meta_tools

    def describe(self) -> dict[str, Any]:
        """As the policy."""
        return self._policy.describe()

    def transcript(self, view: View) -> tuple[Message, ...]:
        """As the policy."""
        return self._policy.transcript(view)

    async def act(self, view: View) -> Action:
        """The policy's action.

        Raises:
            Interrupted: the attempt is to end.
        """
        await self.tell_moves()
        turn = len(view.turns) + 1
        self._happened.put_nowait(Asked(turn=turn))
        action: Action = await self._unless_ended(self._paced(view))
        self._happened.put_nowait(Said(turn=turn, action=action))
        return action

    async def tell_moves(self) -> None:
        """Tell the calls that were made since the last time."""
        for move in self._visit.moves[self._told_moves :]:
            self._told_moves = move.number
            self._happened.put_nowait(Moved(move=move, diff=await self._changes(move.number)))

    async def _changes(self, number: int) -> StateDiff | None:
        try:
            return await self._visit.changes(number)
        except (AwmHubError, IndexError):  # a database that cannot be read; a visitor who went back meanwhile
            return None

    async def _paced(self, view: View) -> Action:
        action, _ = await asyncio.gather(self._policy.act(view), asyncio.sleep(self._pace_s))
        return action

    async def _unless_ended(self, asking: Any) -> Any:
        """What comes of asking, or the end."""
        asked, stopped = asyncio.ensure_future(asking), asyncio.ensure_future(self._stopping.wait())
        try:
            while True:
                self._check()
                self._visit.touch()
                left_s = max(0.0, self._ends_s - time.monotonic())
                await asyncio.wait({asked, stopped}, timeout=min(_LOOK_S, left_s), return_when=asyncio.FIRST_COMPLETED)
                if asked.done():
                    return asked.result()
        finally:
            for one in (asked, stopped):
                one.cancel()
            await asyncio.gather(asked, stopped, return_exceptions=True)

    def _check(self) -> None:
        if self._stopping.is_set():
            raise Interrupted("visitor")
        if time.monotonic() >= self._ends_s:
            raise Interrupted("time")
        if not self._visit.is_open:
            raise Interrupted("leaving")


async def _next(happened: "asyncio.Queue[Event]", playing: "asyncio.Task[None]") -> Event | None:
    """The next event; None when there is nothing left and nobody to make more."""
    if not happened.empty():
        return happened.get_nowait()
    getting = asyncio.ensure_future(happened.get())
    try:
        await asyncio.wait({getting, playing}, return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return getting.result()
        return happened.get_nowait() if not happened.empty() else None
    finally:
        getting.cancel()
