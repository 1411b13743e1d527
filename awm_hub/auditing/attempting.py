"""Attempts at one task, carried out and decided: equivalents must pass, mutants must not.

Attempts come from `awm_hub.variants`. Those with the same calls share a run, those that begin like the solution go on
from a snapshot of it, and endings that are the same bytes share what was found out about them: an environment has a few
hundred attempts, and reading two databases is most of the work. An ending is compared in one sealed fork and verified
in another, so that no comparison runs where code of the row has run. Verdicts that are rewards (`awm_hub.judge`) take a
fork each instead; a test compares the two.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from awm_hub import aio
from awm_hub.auditing.case import Case
from awm_hub.canonical import to_json
from awm_hub.environment import Call, Task
from awm_hub.errors import LoadError
from awm_hub.judging.answers import answer_matches
from awm_hub.runtime import jobs
from awm_hub.runtime.states import Snapshot
from awm_hub.trajectory import StateDiff, Step
from awm_hub.variants import Attempt

_RESULTS = ("complete", "partial", "others")
_INEXACT = ("nondeterministic", "instances_mix", "restore_inexact", "reset_inexact", "hidden_state")
"""Where one of these was found, a snapshot may not be the state that the calls lead to."""
_LEAST_SHARED = 2
"""Calls that a restored state has to save: restoring costs as much as one."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Where a series of calls led."""

    image: bytes = field(repr=False)
    steps: tuple[Step, ...]
    calls_count: int
    is_cut: bool
    """It ended at a fault of the environment."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What the decision says of an ending and an answer."""

    is_complete: bool
    reason: str
    is_same_ending: bool | None
    """Whether the changes are the solution's; None without a solution."""
    signals: str | None
    """Canonical JSON of what the signals are."""


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What is known of one image, whatever the answer."""

    is_equal: bool | None
    differences: tuple[str, ...]
    changes: StateDiff
    signals: str | None


class Bench:
    """One task set up for attempts: the initial database, the solution's ending, an instance and two forks."""

    def __init__(
        self,
        case: Case,
        task: Task,
        instance: aio.Instance | None,
        initial: bytes,
        reading: jobs.Fork,
        verifying: jobs.Fork | None,
    ) -> None:
        self.case, self.task, self.initial = case, task, initial
        self._live, self._reading, self._verifying = instance, reading, verifying
        self._runs: dict[str, Ending] = {}
        self._begun: list[tuple[str, Snapshot]] = []
        """The solution's calls as keys, each with the state after it."""
        self._found: dict[tuple[bytes, int], _Found] = {}
        self.expected: Ending | None = None
        """The solution's ending, once it has run."""

    async def run(self, calls: Sequence[Call]) -> Ending:
        """Carry calls out from the task's beginning; the same calls are carried out once."""
        key = _key(calls)
        if key not in self._runs:
            untouched = Ending(image=self.initial, steps=(), calls_count=0, is_cut=False)
            self._runs[key] = await self._carry_out(calls) if calls else untouched
        return self._runs[key]

    @property
    def _instance(self) -> aio.Instance:
        assert self._live is not None, "a task without a solution has no attempts"
        return self._live

    async def _carry_out(self, calls: Sequence[Call]) -> Ending:
        is_solution = not self._begun and calls and tuple(calls) == tuple(self.task.solution or ())
        keeps = is_solution and not any(map(self.case.has, _INEXACT))
        is_cut = False
        for call in calls[await self._begin(calls) :]:
            result = await self.case.call(self._instance, call.tool, call.arguments)
            if result.type == "fault":
                is_cut = True
                break
            if keeps:
                self._begun.append((_key([call]), await self._instance.snapshot()))
        done = self._instance.steps
        reached = sum(step.result.type != "invalid_call" for step in done)
        image = await self._instance.image()
        return Ending(image=image, steps=done, calls_count=reached, is_cut=is_cut)

    async def _begin(self, calls: Sequence[Call]) -> int:
        """Go to the task's beginning, or to where the solution was after its calls that these begin with, if several.

        Returns:
            How many of the calls that leaves behind.
        """
        shared = 0
        for call, (key, _) in zip(calls, self._begun, strict=False):
            if _key([call]) != key:
                break
            shared += 1
        if shared < _LEAST_SHARED:
            await self._instance.reset()
            return 0
        await self._instance.restore(self._begun[shared - 1][1])
        for step in self._instance.steps:
            self.case.hear(step.tool, step.arguments, step.result)
        return shared

    async def decide(self, ending: Ending, answer: str | None) -> Decided:
        """Whether an ending with an answer completes the task; it does not where a verifier fails, which is noted."""
        found = await self.look_at(ending)
        is_right, reason = await self._decision(ending, found, answer)
        barred = self._barred(found.changes) if is_right else None
        if is_right and barred is None and not self.is_answered(answer):
            barred = "the answer is not the expected one"
        return Decided(
            is_complete=is_right and barred is None,
            reason=barred or reason,
            is_same_ending=found.is_equal,
            signals=found.signals,
        )

    async def _decision(self, ending: Ending, found: _Found, answer: str | None) -> tuple[bool, str]:
        """What is said of the database: by the decision function, else by comparison with the solution."""
        if self.task.verifier("decision") is None:
            return found.is_equal is True, "; ".join(found.differences) or "the changes are the solution's"
        try:
            decision = await self._verify("decision", ending, found.changes, answer)
        except jobs.VerifierError as error:
            return False, self._failed(error.message)
        if not isinstance(decision, dict) or decision.get("result") not in _RESULTS:
            return False, self._failed(f"the decision is none of {', '.join(_RESULTS)}: {str(decision)[:200]}")
        return decision["result"] == "complete", str(decision.get("reasons") or decision["result"])

    def _failed(self, message: str) -> str:
        if not self.case.has("verifier_fails", self.task.slug):
            self.case.note("verifier_fails", self.task.slug, message)
        return message

    async def is_vacuous(self, answer: str | None) -> bool:
        """Whether the decision is complete even where every table is empty: it asks for nothing then."""
        created = [table.name for table in self.case.environment.tables if table.name in self.case.seed.tables]
        others = [name for name in self.case.seed.tables if name not in created]
        statements = [f'DELETE FROM "{name}"' for name in (*others, *reversed(created))]
        clock = self.case.environment.clock
        try:
            empty = await jobs.prepare_image(self.initial, statements, clock, trust_remote_code=self.case.is_trusted)
            ending = Ending(image=empty, steps=(), calls_count=0, is_cut=False)
            found = await self._verify("decision", ending, StateDiff(), answer, initial=empty)
        except (LoadError, jobs.VerifierError):
            return False
        return isinstance(found, dict) and found.get("result") == "complete"

    def _barred(self, changes: StateDiff) -> str | None:
        kind = self.task.kind
        if changes and kind == "query":
            return "something was changed, though the task only asks"
        if not changes and kind in ("change", "both"):
            return "nothing was changed, though the task asks for a change"
        return None

    def is_answered(self, answer: str | None) -> bool:
        """Whether an answer is the expected one, or none is asked for."""
        task = self.task
        return task.answer is None or answer_matches(task.answer, task.answer_order, answer)

    async def look_at(self, ending: Ending) -> _Found:
        """What is known of an ending whatever the answer; the same ending is looked at once."""
        key = (ending.image, ending.calls_count)
        if key not in self._found:
            self._found[key] = await self._find_out(ending)
        return self._found[key]

    async def _find_out(self, ending: Ending) -> _Found:
        volatile = self.case.environment.volatile_columns
        equal: bool | None = None
        differences: tuple[str, ...] = ()
        if self.expected is not None:
            compared = await jobs.compare_endings(
                self.initial,
                self.expected.image,
                ending.image,
                volatile=volatile,
                free=self.task.free,
                kind=self.task.kind,
                fork=self._reading,
            )
            equal, differences, changes = compared.equal, compared.differences, compared.changes
        elif ending.image == self.initial:
            changes = StateDiff()
        else:
            changes = await jobs.state_diff(self.initial, ending.image, volatile=volatile, fork=self._reading)
        signals = None
        if self.task.verifier("signals"):
            try:
                signals = to_json(await self._verify("signals", ending, changes, None))
            except jobs.VerifierError as error:
                self._failed(error.message)
        return _Found(is_equal=equal, differences=differences, changes=changes, signals=signals)

    async def _verify(
        self, kind: str, ending: Ending, changes: StateDiff, answer: str | None, *, initial: bytes | None = None
    ) -> Any:
        verifier = self.task.verifier(kind)
        assert verifier is not None
        code = verifier.code if verifier.code is not None else self.case.environment.verifier_module
        given: dict[str, Any] = {
            "code": code or "",
            "function": verifier.function,
            "initial": self.initial if initial is None else initial,
            "final": ending.image,
            "changes": changes,
            "answer": answer,
            "clock": self.case.environment.clock,
            "calls_count": ending.calls_count,
        }
        if self._verifying is not None:
            try:
                return await jobs.verify(**given, fork=self._verifying)
            except jobs.VerifierError:
                self._verifying = None  # it may be the fork that is broken, by this verifier or by one before
        return await jobs.verify(**given, trust_remote_code=self.case.is_trusted)


@contextlib.asynccontextmanager
async def open_bench(case: Case, task: Task) -> AsyncIterator[Bench]:
    """A bench for one task, for as long as the block lasts.

    Raises:
        LoadError: a setup statement of the task fails.
    """
    trust = case.is_trusted
    e = case.environment
    async with contextlib.AsyncExitStack() as stack:
        instance: aio.Instance | None = None
        verifying: jobs.Fork | None = None
        if task.solution is not None:
            instance = await stack.enter_async_context(await case.launch(task=task.id))
        if task.verifiers:
            verifying = await stack.enter_async_context(jobs.forked(trust_remote_code=trust))
        reading = case.reading
        if reading is None:
            reading = await stack.enter_async_context(jobs.forked(trust_remote_code=trust))
        initial = await jobs.prepare_image(e.database, task.setup, e.clock, trust_remote_code=trust)
        yield Bench(case, task, instance, initial, reading, verifying)


def _key(calls: Iterable[Call]) -> str:
    return to_json([[call.tool, call.arguments] for call in calls])


def crossed(task: Task, calls: Iterable[Call], answer: str | None) -> list[Attempt]:
    """Mutants of the held-out kind: two values exchanged, within a call or between two calls of one tool.

    Those who write verifiers are not shown them, so that their share says how well verifiers do on what nobody
    prepared them for.
    """
    plain, found = list(calls), []
    for at, call in enumerate(plain):
        for name, other in _pairs(call):
            swapped = {**call.arguments, name: call.arguments[other], other: call.arguments[name]}
            one = Call(tool=call.tool, arguments=swapped)
            found.append(("within", [*plain[:at], one, *plain[at + 1 :]]))
        for later in range(at + 1, len(plain)):
            if plain[later].tool == call.tool:
                found += [("between", series) for series in _exchanged(plain, at, later)]
    return [
        Attempt(kind="mutant", name=f"crossed {n}: {how}", calls=tuple(series), answer=answer, should_pass=False)
        for n, (how, series) in enumerate(found, 1)
    ]


def _pairs(call: Call) -> list[tuple[str, str]]:
    names = list(call.arguments)
    values = call.arguments
    return [
        (one, other)
        for at, one in enumerate(names)
        for other in names[at + 1 :]
        if type(values[one]) is type(values[other])
        and isinstance(values[one], str | int)
        and values[one] != values[other]
    ]


def _exchanged(calls: list[Call], at: int, later: int) -> Iterable[list[Call]]:
    """The calls with the value of one argument exchanged between two calls of one tool."""
    one, other = calls[at], calls[later]
    shared = [n for n in one.arguments if n in other.arguments and one.arguments[n] != other.arguments[n]]
    if len(shared) < 2:  # a single difference exchanged is the same two calls in another order
        return
    for name in shared:
        first = Call(tool=one.tool, arguments={**one.arguments, name: other.arguments[name]})
        second = Call(tool=other.tool, arguments={**other.arguments, name: one.arguments[name]})
        yield [*calls[:at], first, *calls[at + 1 : later], second, *calls[later + 1 :]]
