"""Any interleaving of what can be done with instances gives what doing it to each of them alone would give.

Operations are drawn at random and performed on a few instances that share workers, in a pool, with workers killed at
any moment. Two models say what must come out: the oracle (the same calls told to a fresh instance, one after another),
and, for the plain functions, a table of notes in pure Python.
"""

import asyncio
import contextlib
import datetime as dt
import random
import signal
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledgers import INTERFACES, at, make_ledger
from oracle import Told, check, ending

from awm_hub.environment import Environment
from awm_hub.errors import EpisodeError
from awm_hub.runtime import Snapshot
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.pool import LocalPool, PoolCall
from awm_hub.trajectory import ToolResult

SLOTS = 3
Operation = tuple[str, int, Any]
_texts = st.sampled_from(["a", "b", "ä\u2028z", ""])
_notes = st.integers(0, 6)
_common = [
    st.tuples(st.just("add"), st.fixed_dictionaries({"text": _texts})),
    st.tuples(st.just("edit"), st.fixed_dictionaries({"note_id": _notes, "text": _texts})),
    st.tuples(st.just("remove"), st.fixed_dictionaries({"note_id": _notes})),
    st.tuples(st.sampled_from(["list_notes", "draw"]), st.just({})),
    st.tuples(st.just("make_table"), st.fixed_dictionaries({"name": st.sampled_from(["t", "u"])})),
    st.tuples(st.sampled_from(["add", "edit", "nope"]), st.just({"text": 5})),
]
CALLS = {
    "functions": st.one_of(
        *_common,
        st.tuples(st.sampled_from(["refuse", "fail", "scratch"]), st.fixed_dictionaries({"text": _texts})),
        st.tuples(st.just("as_tuples"), st.just({})),
        st.tuples(st.just("upsert"), st.fixed_dictionaries({"note_id": _notes})),
    ),
    "fastapi": st.one_of(
        *_common,
        st.tuples(st.just("list_visits"), st.just({})),
        st.tuples(
            st.sampled_from(["due", "weekday"]),
            st.fixed_dictionaries({"day": st.sampled_from(["2026-03-09", "no day"])}),
        ),
        st.tuples(st.just("leak"), st.fixed_dictionaries({"text": _texts, "commits": st.integers(0, 2)})),
        st.tuples(
            st.just("fail"), st.fixed_dictionaries({"text": _texts, "how": st.sampled_from([0, 404, 409, 422, 500])})
        ),
    ),
}


def operations(interface: str) -> st.SearchStrategy[list[Operation]]:
    """Sequences of operations: what, on which slot, with what."""
    slot, call = st.integers(0, SLOTS - 1), CALLS[interface]
    one = st.one_of(
        st.tuples(st.just("call"), slot, call),
        st.tuples(st.just("call"), slot, call),
        st.tuples(st.just("batch"), slot, st.lists(st.tuples(slot, call), min_size=1, max_size=8)),
        st.tuples(st.just("together"), slot, st.lists(st.tuples(slot, call), min_size=1, max_size=5)),
        st.tuples(st.just("restore"), slot, st.integers(0, 3)),
        st.tuples(st.just("fork"), slot, slot),
        st.tuples(st.sampled_from(["reset", "snapshot", "close", "cancel", "submit"]), slot, call),
        st.tuples(st.sampled_from(["kill", "stop", "drop", "check"]), slot, st.none()),
    )
    return st.lists(one, min_size=3, max_size=25)


@dataclass
class Notes:
    """The notes of one instance, as a dictionary."""

    texts: dict[int, str] = field(default_factory=lambda: {1: "first", 2: "second"})
    made_at: dict[int, dt.datetime] = field(default_factory=lambda: {1: at(0), 2: at(0)})

    def call(self, tool: str, arguments: Any, count: int, seed: int) -> Any:
        """What a call of a known kind must answer; None where this model does not know."""
        if tool == "list_notes":
            return [{"id": i, "text": self.texts[i], "made_at": str(self.made_at[i])} for i in sorted(self.texts)]
        if tool == "add":
            note_id = max(self.texts, default=0) + 1
            self.texts[note_id], self.made_at[note_id] = arguments["text"], at(count)
            key = uuid.UUID(bytes=random.Random(f"{seed}:{count}").randbytes(16), version=4)
            return {"id": note_id, "made_at": str(at(count)), "key": str(key), "at": at(count).isoformat()}
        if tool == "edit":
            self.texts[arguments["note_id"]] = arguments["text"]
            return arguments["note_id"]
        if tool == "remove":
            del self.texts[arguments["note_id"]]
            return arguments["note_id"]
        if tool == "upsert":
            note_id = arguments["note_id"]
            if note_id in self.texts:
                return [0, 0, 0]
            self.texts[note_id], self.made_at[note_id] = "maybe", at(count)
            return [1, note_id, note_id]
        if tool == "as_tuples":
            return [self.texts[i] for i in sorted(self.texts)]
        return None


@dataclass
class Slot:
    """An instance and what must be true of it."""

    instance: Instance
    episode: list[Told] = field(default_factory=list)

    def tell(self, tool: str, arguments: Any, result: ToolResult) -> None:
        self.episode.append(Told(tool, arguments, result))


class Play:
    """Performs operations, and keeps the models."""

    def __init__(self, environment: Environment, pool: LocalPool, oracles: LocalPool) -> None:
        self.environment, self.pool, self.oracles = environment, pool, oracles
        self.slots: list[Slot] = []
        self.snapshots: list[tuple[int, Snapshot, list[Told]]] = []

    async def run(self, sequence: list[Operation]) -> None:
        self.slots = [Slot(await self.acquire(n)) for n in range(SLOTS)]
        try:
            for what, slot, detail in sequence:
                await getattr(self, what)(self.slots[slot], detail)
            for slot in self.slots:
                await self.check(slot, None)
        finally:
            await self.pool.release([slot.instance for slot in self.slots])

    async def acquire(self, seed: int) -> Instance:
        return await self.pool.acquire(self.environment, seed=seed)

    async def call(self, slot: Slot, detail: Any) -> None:
        slot.tell(*detail, await slot.instance.call_tool(*detail))

    async def batch(self, _slot: Slot, detail: Any) -> None:
        """Many calls at once."""
        calls = [PoolCall(instance=self.slots[n].instance, tool=t, arguments=a) for n, (t, a) in detail]
        for (n, call), result in zip(detail, await self.pool.call(calls), strict=True):
            self.slots[n].tell(*call, result)

    async def together(self, _slot: Slot, detail: Any) -> None:
        """Single calls that run at the same time; those on one instance keep their order."""
        work = [self.slots[n].instance.call_tool(*call) for n, call in detail]
        for (n, call), result in zip(detail, await asyncio.gather(*work), strict=True):
            self.slots[n].tell(*call, result)

    async def cancel(self, slot: Slot, detail: Any) -> None:
        """A call that its caller gives up; it takes place all the same."""
        work = asyncio.ensure_future(slot.instance.call_tool(*detail))
        await asyncio.sleep(0)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        await slot.instance.image()
        slot.tell(*detail, slot.instance.steps[-1].result)

    async def reset(self, slot: Slot, _detail: Any) -> None:
        await slot.instance.reset()
        slot.episode = []

    async def submit(self, slot: Slot, _detail: Any) -> None:
        """The episode ends, another one begins."""
        await slot.instance.submit("done")
        with pytest.raises(EpisodeError):
            await slot.instance.call_tool("list_notes")
        await self.check(slot, None)
        await self.reset(slot, None)

    async def snapshot(self, slot: Slot, _detail: Any) -> None:
        self.snapshots.append((slot.instance.seed, await slot.instance.snapshot(), list(slot.episode)))

    async def restore(self, slot: Slot, detail: Any) -> None:
        """Go to any snapshot taken so far, of whichever instance with this seed."""
        if snapshots := [s for seed, *s in self.snapshots if seed == slot.instance.seed]:
            snapshot, episode = snapshots[detail % len(snapshots)]
            await slot.instance.restore(snapshot)
            slot.episode = list(episode)

    async def fork(self, slot: Slot, detail: Any) -> None:
        """The fork takes the place of another instance, or of its origin."""
        twin = Slot(await slot.instance.fork(), list(slot.episode))
        await self.pool.release([self.slots[detail].instance])
        self.slots[detail] = twin

    async def close(self, slot: Slot, _detail: Any) -> None:
        seed = slot.instance.seed
        await slot.instance.close()
        with pytest.raises(EpisodeError):
            await slot.instance.reset()
        slot.instance, slot.episode = await self.acquire(seed), []

    async def kill(self, slot: Slot, _detail: Any) -> None:
        """The process ends, and nobody tells the host."""
        process = slot.instance._residence.worker._process
        if process is not None and not process.is_dead:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process._handle, signal.SIGKILL)

    async def stop(self, slot: Slot, _detail: Any) -> None:
        """The process ends, and the host knows it."""
        slot.instance._residence.worker.stop()

    async def drop(self, slot: Slot, _detail: Any) -> None:
        """The connection to the process ends."""
        process = slot.instance._residence.worker._process
        if process is not None:
            process._transport.abort()

    async def check(self, slot: Slot, _detail: Any) -> None:
        assert [(s.tool, s.arguments, ending(s.result)) for s in slot.instance.steps] == [
            (t.tool, t.arguments, ending(t.result)) for t in slot.episode
        ]
        if self.environment.interface == "functions":
            check_against_notes(slot)
        await check(slot.instance, slot.episode, self.oracles)


def check_against_notes(slot: Slot) -> None:
    """Compare results with what the dictionary of notes says."""
    notes, count = Notes(), 0
    for told in slot.episode:
        count += told.result.type != "invalid_call"
        if told.result.is_ok:
            expected = notes.call(told.tool, told.arguments, count, slot.instance.seed)
            assert expected in (None, told.result.value)
        elif told.result.code == "not_found":
            assert told.arguments["note_id"] not in notes.texts
        else:
            assert told.result.code in KNOWN_ENDINGS[told.tool], told


KNOWN_ENDINGS = {
    "add": {"invalid", "invalid_arguments", "worker_died"},
    "nope": {"unknown_tool", "worker_died"},
    "refuse": {"failed_precondition", "worker_died"},
    "fail": {"KeyError", "worker_died"},
    "edit": {"invalid_arguments", "worker_died"},
} | {tool: {"worker_died"} for tool in ("remove", "list_notes", "draw", "make_table", "scratch", "as_tuples", "upsert")}


@contextlib.asynccontextmanager
async def pools() -> AsyncIterator[tuple[LocalPool, LocalPool]]:
    async with LocalPool(workers_per_environment=2) as pool, LocalPool() as oracles:
        yield pool, oracles


def play(interface: str, examples: int) -> None:
    """Draw that many sequences and perform them, all in one pool."""
    with asyncio.Runner() as runner:
        environment = runner.run(make_ledger(interface))
        stack = contextlib.AsyncExitStack()
        pool, oracles = runner.run(stack.enter_async_context(pools()))

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        @given(operations(interface))
        def perform(sequence: list[Operation]) -> None:
            runner.run(Play(environment, pool, oracles).run(sequence))

        try:
            perform()
            assert pool.usage.instances == oracles.usage.instances == 0
        finally:
            runner.run(stack.aclose())


@pytest.mark.parametrize("interface", INTERFACES)
def test_any_interleaving_equals_the_sequential_model(interface: str) -> None:
    play(interface, {"functions": 70, "fastapi": 24}[interface])


@pytest.mark.slow
@pytest.mark.parametrize("interface", INTERFACES)
def test_many_more_interleavings_equal_the_sequential_model(interface: str) -> None:
    play(interface, {"functions": 1500, "fastapi": 400}[interface])
