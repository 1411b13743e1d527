"""Whether calls end right, by code alone.

The calls run twice in fresh instances, the second time later and with another seed, as packing does it. The ending is
right when the task's signals find nothing wrong, the answer that was given is what `answer_sql` finds there, and the
changes are of the task's kind. Every disagreement is an objection in words, for an arbiter and for whoever has to mend.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub.environment import Call, Environment, Task, answer_form
from awm_hub.errors import LoadError, RecordError, SealError, SourceError, WorkerError
from awm_hub.judging.answers import NoAnswer, given_answer, is_same_answer
from awm_hub.packing import solving
from awm_hub.runtime import jobs
from awm_hub.synthesis.building import steady
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.signals import run_signals, stray_change
from awm_hub.trajectory import StateDiff

_MOST_SHOWN = 300


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What code says of calls and an answer."""

    objections: tuple[str, ...]
    """Empty where everything agrees."""
    answer: Any = None
    """What `answer_sql` gives, in the form that is asked for."""
    changes: StateDiff | None = None
    """None where the calls did not run to their end."""
    needs_references: bool = False
    """The calls run, but not with another seed: they name what chance has given."""
    flaws: tuple[Problem, ...] = ()
    """What is wrong with the verifier although it agrees."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """The answer that is compared: an agent's last message, or the value of a solution that is kept."""

    message: str | None = None
    value: Any = None

    def value_like(self, expected: Any) -> Any:
        """The value, read in the form of the expected one."""
        return self.value if self.message is None else given_answer(self.message, expected)


async def settle(
    draft: Draft,
    environment: Environment,
    slug: str,
    calls: Sequence[Call],
    given: Given,
    *,
    is_literal: bool = True,
    trust_remote_code: bool = False,
) -> Settled:
    """Run calls and judge their ending.

    Raises:
        SealError: this machine cannot seal, and the code is not trusted.
    """
    task = dataclasses.replace(environment.task(slug), solution=tuple(calls))
    options: dict[str, Any] = {"is_literal": is_literal, "trust_remote_code": trust_remote_code}
    try:
        run = await solving.solve(environment, task, **options)
    except SealError:
        raise
    except (SourceError, LoadError, WorkerError) as error:
        return Settled(objections=(f"the calls do not run again: {steady(error.message)}",))
    moved = dataclasses.replace(environment, clock=environment.clock + solving.LATER)
    try:
        later = await solving.solve_later(moved.with_hash(environment.content_hash), task, **options)
        volatile = await solving.volatile_columns(run, later, trust_remote_code=trust_remote_code)
    except SealError:
        raise
    except (SourceError, LoadError, WorkerError) as error:
        told = f"the calls do not depend on the data alone: {steady(error.message)}"
        return Settled(objections=(told,), changes=run.changes, needs_references=is_literal)
    return await _Ending(draft, environment, task, run, volatile, trust_remote_code).judged(given)


@dataclass(frozen=True)
class _Ending:
    """Where calls led."""

    draft: Draft
    environment: Environment
    task: Task
    run: solving.Run
    volatile: frozenset[str]
    is_trusted: bool

    async def judged(self, given: Given) -> Settled:
        """Signals, answer and kind."""
        image, trust = self.environment.database, self.is_trusted
        hidden = tuple(sorted(self.volatile))
        changes = await jobs.state_diff(image, self.run.image, volatile=hidden, trust_remote_code=trust)
        said = await self._signals(self.run.image, changes)
        objections = [f"the verifier fails: {said}"] if isinstance(said, str) else [f"verifier: {p}" for p in said]
        try:
            solving.check_kind(self.task, solving.effective_changes(self.run.changes, self.volatile))
        except SourceError as error:
            objections.append(error.message)
        answer, objection = await self._answered(given)
        objections += [objection] if objection else []
        flaws = () if objections else await self._flaws(hidden, changes)
        return Settled(objections=tuple(objections), answer=answer, changes=changes, flaws=flaws)

    async def _signals(self, final: bytes, changes: StateDiff) -> tuple[str, ...] | str:
        """The problems, or why there are none."""
        said = await run_signals(
            self.draft,
            self.task.slug,
            initial=self.environment.database,
            final=final,
            changes=changes,
            calls_count=len(self.run.calls),
            trust_remote_code=self.is_trusted,
        )
        return said.failure if said.problems is None else said.problems

    async def _answered(self, given: Given) -> tuple[Any, str | None]:
        """What `answer_sql` gives, and what is wrong with it or with the answer."""
        task = self.task
        if task.answer_sql is None:
            return None, None
        try:
            rows = await jobs.query(
                self.run.image,
                task.answer_sql,
                clock=self.environment.clock,
                calls_count=len(self.run.calls),
                trust_remote_code=self.is_trusted,
            )
        except SealError:
            raise
        except (RecordError, WorkerError) as error:
            return None, f"answer_sql fails on the ending: {error.__cause__ or error.message}"
        value = _formed(solving.shaped(rows, task.answer), task.answer)
        wanted = answer_form(task.answer)
        if answer_form(value) != wanted:
            return value, f"answer_sql gives {_shown(value)} on the ending, which has not the form asked for ({wanted})"
        found = given.value_like(value)
        if isinstance(found, NoAnswer):
            return value, f"the answer cannot be read: {found.reason}; answer_sql gives {_shown(value)}"
        if not is_same_answer(value, found, task.answer_order):
            return value, f"the answer is {_shown(found)}, but answer_sql gives {_shown(value)} on the ending"
        return value, None

    async def _flaws(self, hidden: tuple[str, ...], changes: StateDiff) -> tuple[Problem, ...]:
        """Whether the verifier sees a change besides the right ones."""
        clock, trust = self.environment.clock, self.is_trusted
        stray = await stray_change(self.run.image, clock, made=changes, trust_remote_code=trust)
        if stray is None or self.task.kind == "query":  # for queries, the gate of `verification` has looked
            return ()
        image = self.environment.database
        both = await jobs.state_diff(image, stray.image, volatile=hidden, trust_remote_code=trust)
        said = await self._signals(stray.image, both)
        if said and not isinstance(said, str):
            return ()
        slug, what = self.task.slug, f"fails ({said})" if said else "finds nothing wrong"
        told = f"signals_{slug} {what} where the task is done and {stray.told}: any further change is a problem"
        return (Problem(stage="verification", rule="blind_to_damage", subject=slug, message=told),)


def _formed(value: Any, example: Any) -> Any:
    """The value with numbers and the order of keys as the example has them.

    SQLite gives 12 or 12.0 as it happens, and columns come in the order of the query.
    """
    if isinstance(example, list) and isinstance(value, list) and example:
        return [_formed(item, example[0]) for item in value]
    if isinstance(example, dict) and isinstance(value, dict):
        ordered = [*(key for key in example if key in value), *(key for key in value if key not in example)]
        return {key: _formed(value[key], example.get(key)) for key in ordered}
    if type(example) is float and type(value) is int:
        return float(value)
    return int(value) if type(example) is int and type(value) is float and value.is_integer() else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"
