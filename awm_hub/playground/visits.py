"""Visits: the live instances of the visitors of a playground.

A visitor has an instance for each slot of the page: one to play on, two while runs are compared. Whoever uses it, the
form, an agent, or an MCP client at `/i/{id}/mcp`, calls the same tools on the same database, and the instance itself
keeps the record. From that record come the moves that the page lists. What a move changed, and the state to go back to,
is found out when somebody asks: states that were not kept are made again by replay, which is exact.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from awm_hub.environment import Call, Environment, Task
from awm_hub.errors import JudgeError
from awm_hub.judging import judge_async
from awm_hub.runtime import jobs, pages
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.launching import launch
from awm_hub.runtime.states import Snapshot
from awm_hub.serving.instances import Instances, Lease, LiveInstance
from awm_hub.trajectory import StateDiff, Step, Trajectory, Verdict

_OWNER = "visitor"


@dataclass(frozen=True, kw_only=True)
class Move:
    """One call and its result."""

    number: int
    """From 1."""
    step: Step


class Visit:
    """One visitor's instance.

    Args:
        lease: Of the instance.
        initial: The image that the episode begins with.
    """

    def __init__(self, lease: Lease, initial: bytes) -> None:
        assert isinstance(lease.instance, Instance)
        self._lease, self._initial = lease, initial
        self.instance: Instance = lease.instance
        """What plays; what is called on it is part of the visit."""
        self.id = lease.id
        self.environment: Environment = lease.environment
        self.verdict: Verdict | None = None
        self.judge_error: str | None = None
        """Why there is no verdict on an answer that was submitted."""
        self._states: list[Snapshot] = []
        """After as many moves as their position says."""
        self._changes: dict[int, StateDiff] = {}
        self._epoch = 0
        self._looking = asyncio.Lock()

    @property
    def task(self) -> Task | None:
        """What there is to do; None where the visitor roams."""
        return self.instance.task

    @property
    def seed(self) -> int:
        """Of the instance's randomness."""
        return self.instance.seed

    @property
    def is_open(self) -> bool:
        """Whether the instance is there."""
        return not self.instance.is_closed

    @property
    def is_ended(self) -> bool:
        """Whether an answer was submitted."""
        return self.instance.is_ended

    @property
    def answer(self) -> str | None:
        """The submitted answer."""
        return self.instance.answer

    @property
    def version(self) -> int:
        """Rises with everything that happens to the instance, whoever does it."""
        return self._epoch + len(self.instance.steps) + self.is_ended

    @property
    def moves(self) -> tuple[Move, ...]:
        """What was called since the beginning."""
        return tuple(Move(number=n, step=step) for n, step in enumerate(self.instance.steps, 1))

    def touch(self) -> None:
        """Note that somebody looks at it."""
        self._lease.touch()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Move:
        """Call a tool.

        Raises:
            EpisodeError: the episode has ended, or the instance is closed.
        """
        self._lease.touch()
        await self._keep_state()
        await self._lease.call(tool, dict(arguments))
        await self._keep_state()
        return self.moves[-1]

    async def changes(self, number: int) -> StateDiff:
        """The rows that a move changed.

        Args:
            number: Of the move.

        Raises:
            IndexError: there is no such move.
        """
        if not 1 <= number <= len(self.instance.steps):
            raise IndexError(number)
        if number not in self._changes:
            before, after = [await self._image(n) for n in (number - 1, number)]
            self._changes[number] = await self._compared(before, after)
        return self._changes[number]

    async def picture(self, *, since_beginning: bool, max_rows: int = 200) -> tuple[dict[str, Any], StateDiff]:
        """The tables as they are, and the rows that the last move changed; both read in one fork.

        Args:
            since_beginning: All moves instead of the last.
            max_rows: Of a table.
        """
        number = len(self.instance.steps)
        image = await self.instance.image()
        async with jobs.forked(trust_remote_code=self._is_trusted) as fork:
            tables = await jobs.dump(image, max_rows=max_rows, fork=fork)
            if since_beginning:
                return tables, await jobs.state_diff(self._initial, image, fork=fork)
            if number and number not in self._changes:
                before, after = [await self._image(n) for n in (number - 1, number)]
                self._changes[number] = await jobs.state_diff(before, after, fork=fork)
        return tables, self._changes.get(number, StateDiff())

    async def undo(self, to: int) -> None:
        """Go back to where so many moves were made.

        Args:
            to: Moves that are kept.

        Raises:
            IndexError: there were fewer.
        """
        made = len(self.instance.steps)
        if not 0 <= to <= made:
            raise IndexError(to)
        state = await self._state(to)
        await self.instance.restore(state)
        self._begin_anew(made - to + 2)
        del self._states[to + 1 :]
        self._changes = {n: diff for n, diff in self._changes.items() if n <= to}

    async def submit(self, answer: str | None) -> Verdict | None:
        """End the episode with an answer; judged where there is a task.

        Returns:
            The verdict; None without a task, and where judging fails, which `judge_error` tells.

        Raises:
            EpisodeError: it has ended with another answer.
        """
        async with self._lease.judging:
            await self._lease.submit(answer)
            if self.task is not None and self.verdict is None:
                with self._telling():
                    self.verdict = await judge_async(await self.trajectory(), environment=self.environment)
        return self.verdict

    async def trajectory(self) -> Trajectory:
        """The record of the episode, with the verdict where there is one."""
        found = await self.instance.trajectory()
        return found if self.verdict is None else replace(found, verdicts=(self.verdict,))

    def hint(self) -> Call | None:
        """The next call of the reference solution, after those of its calls that were made in their order.

        None where there is no solution, or nothing of it is left but the answer.
        """
        left = list(self.task.solution or ()) if self.task else []
        for step in self.instance.steps:
            if left and step.result.is_ok and (step.tool, dict(step.arguments)) == (left[0].tool, left[0].arguments):
                del left[0]
        return left[0] if left else None

    @property
    def _is_trusted(self) -> bool:
        return self.instance.tier == "process"

    def _begin_anew(self, lost: int) -> None:
        self._epoch += lost
        self.verdict = self.judge_error = None

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Note why there is no verdict."""
        try:
            yield
        except JudgeError as error:
            self.judge_error = error.message

    async def _image(self, number: int) -> bytes:
        return pages.apply(self._initial, (await self._state(number)).delta)

    async def _compared(self, before: bytes, after: bytes) -> StateDiff:
        return await jobs.state_diff(before, after, trust_remote_code=self._is_trusted)

    async def _keep_state(self) -> Snapshot:
        """The state as it is, kept where it is the next one."""
        now = await self.instance.snapshot()
        if len(now.steps) == len(self._states):
            self._states.append(now)
        return now

    async def _state(self, number: int) -> Snapshot:
        """The state after so many moves; those that nobody kept are made again on a copy."""
        async with self._looking:
            if number >= len(self._states):
                now = await self._keep_state()
                if number >= len(self._states):
                    await self._replay(now)
            return self._states[number]

    async def _replay(self, now: Snapshot) -> None:
        """Make the states up to the present again from the last that was kept, or from the beginning."""
        twin = await self.instance.fork()
        try:
            if self._states:
                await twin.restore(self._states[-1])
            else:
                await twin.reset()
                self._states.append(await twin.snapshot())
            for step in now.steps[len(self._states) - 1 : -1]:
                await twin.call_tool(step.tool, step.arguments)
                self._states.append(await twin.snapshot())
        finally:
            await twin.close()
        self._states.append(now)


class Visits:
    """All visits of a playground.

    Args:
        capacity: Live instances at most.
        idle_timeout_s: Instances that nobody used for so long are closed.
        trust_remote_code: Run code without a seal where this machine has none.
    """

    def __init__(self, *, capacity: int, idle_timeout_s: float, trust_remote_code: bool = False) -> None:
        self._is_trusted = trust_remote_code
        self.instances = Instances({}, launch=self._launch, capacity=capacity, idle_timeout_s=idle_timeout_s)
        """Where the MCP URLs find them."""
        self._visits: dict[tuple[str, str], Visit] = {}
        self._opening: dict[tuple[str, str], asyncio.Lock] = {}

    def __len__(self) -> int:
        return len(self.instances)

    async def open(
        self, visitor: str, slot: str, environment: Environment, *, task: str | None = None, seed: int = 0
    ) -> Visit:
        """Open an instance in a slot of a visitor's page; what the slot held is closed.

        Raises:
            UnknownNameError: there is no such task.
            ServerFullError: all places are taken.
            LoadError: the environment's code does not load.
            SealError: this machine cannot seal, and the code is not trusted.
        """
        async with self._opening.setdefault((visitor, slot), asyncio.Lock()):
            await self._close(visitor, slot)
            lease = await self.instances.open_environment(environment, task=task, seed=seed, opened_by=_OWNER)
            try:
                visit = Visit(lease, await _instance(lease).image())
            except BaseException:
                await self.instances.close(lease)
                raise
            self._visits[visitor, slot] = visit
            return visit

    def get(self, visitor: str, slot: str) -> Visit | None:
        """What a slot holds; None where it holds nothing, or where it was closed since nobody used it."""
        found = self._visits.get((visitor, slot))
        if found is None or not found.is_open:
            self._visits.pop((visitor, slot), None)
            return None
        found.touch()
        return found

    async def leave(self, visitor: str) -> None:
        """Close everything of a visitor."""
        for owner, slot in [key for key in self._opening if key[0] == visitor]:
            async with self._opening[owner, slot]:
                await self._close(owner, slot)
            self._opening.pop((owner, slot), None)

    async def _close(self, visitor: str, slot: str) -> None:
        found = self._visits.pop((visitor, slot), None)
        if found is not None:
            await self.instances.close(found._lease)

    async def _launch(self, environment: Environment, *, task: str | None, seed: int) -> LiveInstance:
        return await launch(environment, task=task, seed=seed, trust_remote_code=self._is_trusted)


def _instance(lease: Lease) -> Instance:
    assert isinstance(lease.instance, Instance)
    return lease.instance
