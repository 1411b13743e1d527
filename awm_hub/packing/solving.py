"""Reference solutions, run to find out what they do.

A solution is run step by step in a live instance, as an agent would. That gives its literal arguments (`references`),
the changes it makes, and the tools whose calls wrote. It is run a second time with the clock 7 seconds later and with
another seed: columns that differ between the two endings are volatile, since they depend on the moment or on chance
and not on what was done.
"""

import dataclasses
import datetime as dt
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub import aio
from awm_hub.canonical import to_json
from awm_hub.environment import Call, Environment, Task
from awm_hub.errors import AwmHubError, LoadError, SourceError
from awm_hub.judging.answers import is_same_answer
from awm_hub.packing import references
from awm_hub.runtime import jobs
from awm_hub.trajectory import StateDiff, ToolResult

LATER = dt.timedelta(seconds=7)
"""How much later the second run of every solution starts."""

_DIFFERENTLY = "7 seconds later and with another seed"
_LATER_STEP = (
    "let nothing that the solution does depend on the very second or on chance, and refer to what a step made as $1.id"
)
_LINKS = """
SELECT m.name AS child, f."from" AS link, f."table" AS parent,
       coalesce(f."to", (SELECT p.name FROM pragma_table_info(f."table") p WHERE p.pk = 1)) AS target
FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f WHERE m.type = 'table'"""

RESULTS = ("complete", "partial", "others")
"""What a decision function may find."""

ALL_ROWS = 2**31


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a task's solution."""

    task_id: str
    calls: tuple[Call, ...]
    """With literal arguments."""
    image: bytes
    """The database after it."""
    changes: StateDiff
    writing_tools: frozenset[str]
    """Tools of which a call changed the database."""


async def solve(
    environment: Environment, task: Task, *, is_literal: bool, seed: int = 0, trust_remote_code: bool = False
) -> Run:
    """Run a task's solution in a new instance.

    Args:
        environment: Where the task belongs.
        task: A task with a solution.
        is_literal: Its arguments hold no references.
        seed: Seeds the instance's randomness.
        trust_remote_code: Run without a seal where this machine has none.

    Raises:
        SourceError: a step names no tool or an absent part of a result, or its call was not `ok`.
    """
    results: list[Any] = []
    calls: list[Call] = []
    writing = set()
    await _check_setup(environment, task, trust_remote_code)
    async with await _launched(environment, task, seed, trust_remote_code) as instance:
        before = await instance.image()
        for call in task.solution or ():
            call = call if is_literal else _resolved(task, call, results)
            _check_tool(environment, task, call, len(calls) + 1)
            result = await instance.call_tool(call.tool, call.arguments)
            if not result.is_ok:
                raise _failed(task, call, len(calls) + 1, result)
            after = await instance.image()
            if after != before:
                writing.add(call.tool)
            before = after
            results.append(result.value)
            calls.append(call)
        changes = await instance.diff()
    return Run(task_id=task.id, calls=tuple(calls), image=before, changes=changes, writing_tools=frozenset(writing))


async def _launched(environment: Environment, task: Task, seed: int, trust_remote_code: bool) -> aio.Instance:
    return await aio.launch(environment, task=task.slug, seed=seed, trust_remote_code=trust_remote_code)


async def solve_later(
    environment: Environment, task: Task, *, is_literal: bool, seed: int = 1, trust_remote_code: bool = False
) -> Run:
    """Run a solution in an environment whose clock is `LATER`, with another seed, and say so where it fails.

    Raises:
        SourceError: a step fails then.
    """
    try:
        return await solve(environment, task, is_literal=is_literal, seed=seed, trust_remote_code=trust_remote_code)
    except SourceError as error:
        raise SourceError(f"{_DIFFERENTLY}, {error.message}", next_step=_LATER_STEP) from error


async def volatile_columns(one: Run, other: Run, *, trust_remote_code: bool = False) -> frozenset[str]:
    """The columns (`table.column`) in which two endings of one solution differ.

    A foreign key to such a column is none itself: it is compared by the row that it leads to.

    Raises:
        SourceError: they differ in more than values.
    """
    before = await jobs.dump(one.image, max_rows=ALL_ROWS, trust_remote_code=trust_remote_code)
    after = await jobs.dump(other.image, max_rows=ALL_ROWS, trust_remote_code=trust_remote_code)
    found = frozenset(_differing(one.task_id, before, after))
    if not found:
        return found
    moment = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    links = await jobs.query(one.image, _LINKS, clock=moment, trust_remote_code=trust_remote_code)
    lower = {name.lower() for name in found}
    linking = {f"{r['child']}.{r['link']}".lower() for r in links if f"{r['parent']}.{r['target']}".lower() in lower}
    return frozenset(name for name in found if name.lower() not in linking)


def effective_changes(changes: StateDiff, volatile: Iterable[str]) -> StateDiff:
    """The changes without rows in which nothing but volatile columns differs."""
    ignored = set(volatile)
    kept = {}
    for name, table in changes.tables.items():
        changed = tuple(
            c
            for c in table.changed
            if any(c.before[k] != v and f"{name}.{k}" not in ignored for k, v in c.after.items())
        )
        if changed or table.added or table.removed:
            kept[name] = dataclasses.replace(table, changed=changed)
    return StateDiff(kept)


def check_kind(task: Task, changes: StateDiff) -> None:
    """Compare the task's kind with what its solution changed.

    Raises:
        SourceError: a `query` changes something, or a `change` or `both` nothing.
    """
    if task.kind == "query" and changes:
        step = 'set kind = "both", or let the solution only read'
        raise SourceError(f"task {task.id} is a query, but its solution changes {_tables(changes)}", next_step=step)
    if task.kind in ("change", "both") and not changes:
        step = 'set kind = "query", or add the step that changes something'
        raise SourceError(f"task {task.id} is of kind {task.kind}, but its solution changes nothing", next_step=step)


async def check_answer(environment: Environment, task: Task, run: Run, *, trust_remote_code: bool = False) -> Any:
    """Run `answer_sql` on the ending and compare what it gives with the answer.

    Returns:
        What it gives, in the shape of the answer; None where there is no `answer_sql`.

    Raises:
        SourceError: it fails, or gives something else.
    """
    if task.answer_sql is None:
        return None
    place = f"{environment.id}/tasks.toml, [{task.slug}]: answer_sql"
    try:
        rows = await jobs.query(
            run.image,
            task.answer_sql,
            clock=environment.clock,
            calls_count=len(run.calls),
            trust_remote_code=trust_remote_code,
        )
    except jobs.ImageError as error:
        raise SourceError(f"{place} fails: {_reason(error)}", next_step="mend the query") from error
    given = shaped(rows, task.answer)
    if not is_same_answer(task.answer, given, task.answer_order):
        step = "mend the answer, the query or the solution"
        raise SourceError(f"{place} gives {given!r}, not {task.answer!r}", next_step=step)
    return given


def _reason(error: AwmHubError) -> str:
    """What SQLite said, without the frame around it."""
    return getattr(error.__cause__, "message", "") or error.message


async def _check_setup(environment: Environment, task: Task, trust_remote_code: bool) -> None:
    try:
        await jobs.prepare_image(
            environment.database, task.setup, environment.clock, trust_remote_code=trust_remote_code
        )
    except LoadError as error:
        place = f"{environment.id}/tasks.toml, [{task.slug}]: setup"
        raise SourceError(f"{place} fails: {_reason(error)}", next_step="mend its statements") from error


def _resolved(task: Task, call: Call, results: Sequence[Any]) -> Call:
    try:
        return dataclasses.replace(call, arguments=references.resolve(call.arguments, results))
    except references.PartError as error:
        message = f"task {task.id}, step {len(results) + 1} ({call.tool}): {error}"
        raise SourceError(message, next_step=references.SYNTAX) from error


def _check_tool(environment: Environment, task: Task, call: Call, number: int) -> None:
    names = [t.name for t in environment.tools]
    if call.tool not in names:
        close = difflib.get_close_matches(call.tool, names, n=1)
        step = f"did you mean {close[0]!r}?" if close else f"tools: {', '.join(names)}"
        raise SourceError(f"task {task.id}, step {number}: there is no tool {call.tool!r}", next_step=step)


def _failed(task: Task, call: Call, number: int, result: ToolResult) -> SourceError:
    is_said = not result.code or result.message.startswith(result.code)
    what = result.type if is_said else f"{result.type} {result.code}"
    where = " in tools.py" if result.type == "fault" else ""
    message = f"task {task.id}, step {number}: {call.tool}({_shown(call.arguments)}) is {what}{where}: {result.message}"
    return SourceError(message, next_step="mend this step of the solution, or the tool")


def _shown(arguments: Mapping[str, Any]) -> str:
    text = ", ".join(f"{k}={v!r}" for k, v in arguments.items())
    return text if len(text) <= 200 else text[:199] + "…"


def _tables(changes: StateDiff) -> str:
    return ", ".join(sorted(changes.tables))


def _differing(task_id: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name, table in before.items():
        one, other = table["rows"], after[name]["rows"]
        if len(one) != len(other):
            message = f"{_DIFFERENTLY}, the solution of {task_id} leaves {len(other)} rows in {name}, not {len(one)}"
            raise SourceError(message, next_step=_LATER_STEP)
        for at in _differing_columns(one, other):
            yield f"{name}.{table['columns'][at]}"


def _differing_columns(one: Sequence[Sequence[Any]], other: Sequence[Sequence[Any]]) -> Sequence[int]:
    """Positions of columns that differ, whatever the order of the rows: a random key changes that."""
    every = range(len(one[0]) if one else 0)
    moved = [at for at in every if _sorted([r[at]] for r in one) != _sorted([r[at]] for r in other)]
    same = [at for at in every if at not in moved]
    if _sorted([r[at] for at in same] for r in one) == _sorted([r[at] for at in same] for r in other):
        return moved
    return [at for at in every if [r[at] for r in one] != [r[at] for r in other]]


def _sorted(rows: Iterable[Sequence[Any]]) -> list[str]:
    return sorted(to_json(list(row)) for row in rows)


def shaped(rows: Sequence[Mapping[str, Any]], answer: Any) -> Any:
    """What a query gave, in the shape of the answer: one value, one column, or one row."""
    table = [list(row.values()) for row in rows]
    if isinstance(answer, list):
        items = [row[0] if len(row) == 1 else row for row in table]
        return _typed_items(items, answer)
    if isinstance(answer, dict):
        return {k: _typed(v, answer.get(k)) for k, v in rows[0].items()} if len(rows) == 1 else table
    return _typed(table[0][0], answer) if len(table) == 1 and len(table[0]) == 1 else table


def _typed_items(items: Sequence[Any], answer: Sequence[Any]) -> list[Any]:
    return [_typed(item, answer[0]) for item in items] if answer else list(items)


def _typed(value: Any, answer: Any) -> Any:
    """SQLite has no booleans: 0 and 1 stand for them where the answer is one."""
    return bool(value) if isinstance(answer, bool) and value in (0, 1) else value


async def check_verifiers(environment: Environment, task: Task, run: Run, *, trust_remote_code: bool = False) -> None:
    """Run a task's verifiers on its solution, and its decision on doing nothing.

    Raises:
        SourceError: a verifier fails, or a decision does not tell the solution from doing nothing.
    """
    clock, trust = environment.clock, trust_remote_code
    initial = await jobs.prepare_image(environment.database, task.setup, clock, trust_remote_code=trust)
    changes = await jobs.state_diff(initial, run.image, volatile=environment.volatile_columns, trust_remote_code=trust)
    answer = None if task.answer is None else to_json(task.answer)
    for verifier in task.verifiers:
        endings = [("the solution", run.image, changes, answer, len(run.calls))]
        if verifier.kind == "decision" and task.kind != "query":
            endings.append(("doing nothing", initial, StateDiff(), answer, 0))
        for what, image, difference, given, calls_count in endings:
            try:
                found = await jobs.verify(
                    code=verifier.code or environment.verifier_module or "",
                    function=verifier.function,
                    initial=initial,
                    final=image,
                    changes=difference,
                    answer=given,
                    clock=clock,
                    calls_count=calls_count,
                    trust_remote_code=trust,
                )
            except jobs.VerifierError as error:
                raise SourceError(f"{task.id}: {error.message}", next_step=f"mend it; it ran on {what}") from error
            if verifier.kind == "decision":
                _check_decision(task, verifier.function, found, what)


def _check_decision(task: Task, function: str, found: Any, what: str) -> None:
    result = found.get("result") if isinstance(found, dict) else None
    if result not in RESULTS:
        shown = to_json(found)
        message = f"{task.id}: {function} returns {shown if len(shown) <= 200 else shown[:199] + '…'} on {what}"
        words = ", ".join(f'"{word}"' for word in RESULTS)
        raise SourceError(message, next_step=f'return {{"result": one of {words}, "reasons": [texts]}}')
    if (result == "complete") != (what == "the solution"):
        message = f"{task.id}: {function} finds {what} {result!r}"
        raise SourceError(
            message, next_step="it must find the solution 'complete', and nothing else than right endings"
        )
