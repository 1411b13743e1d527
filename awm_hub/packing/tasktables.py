"""`tasks.toml`: one table per task, named by the task's slug.

TOML has no null, so an absent key means null, and a solution whose arguments hold a null is written as JSON text
(`solution = '[{"tool": …}]'`), in which `$1` is no reference. Verifiers are found by name: `signals_<slug>` and
`decide_<slug>` of `verifiers.py`, with the task's `success` and `failure` as criteria. Where that is not enough
(imported rows carry their own code) the key `verifiers` lists them one by one.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awm_hub import schema
from awm_hub.canonical import from_json, to_json
from awm_hub.environment import Call, Task, Verifier
from awm_hub.errors import DataError, SourceError
from awm_hub.packing import analysis, references
from awm_hub.packing.keys import Keys, kind_of, read_text, read_toml

TASK_KEYS = (
    "instruction", "kind", "setup", "answer", "answer_order", "answer_sql", "free", "solution", "success", "failure",
    "verifiers",
)  # fmt: skip
_STEP = 'a step is { tool = "…", arguments = { … } }'
PREFIXES = {"signals": "signals_", "decision": "decide_"}
"""Kind of verifier → how its function's name begins; the rest is the slug."""


@dataclass(frozen=True, kw_only=True)
class TaskTables:
    """What `tasks.toml` holds."""

    tasks: tuple[Task, ...]
    literal: frozenset[str]
    """Slugs of tasks whose solution is JSON text."""
    warnings: tuple[str, ...]


def read_tasks(folder: Path, *, interface: str, verifier_module: str | None) -> TaskTables:
    """Read `tasks.toml` of a source folder.

    Raises:
        SourceError: a key or a value breaks the form, or `verifiers.py` does not fit the tasks.
    """
    path = folder / "tasks.toml"
    tables = read_toml(path)
    functions = _functions(folder, verifier_module)
    tasks, literal, warnings = [], set(), []
    for slug, values in tables.items():
        _check_dots(path, slug, values)
        keys = Keys(path, slug, values, TASK_KEYS)
        task = _task(folder, slug, keys, functions)
        if interface == "functions":
            _check_answer(keys, task)
        if isinstance(keys.value("solution"), str):
            literal.add(slug)
        if not task.verifiers and ("success" in keys or "failure" in keys):
            warnings.append(
                f"[{slug}] success and failure are left out: they belong to a verifier, and it has none; "
                f"write signals_{slug} in verifiers.py"
            )
        tasks.append(task)
    _check_functions(folder, functions, tasks)
    return TaskTables(tasks=tuple(tasks), literal=frozenset(literal), warnings=tuple(warnings))


def _check_dots(path: Path, slug: str, values: Any) -> None:
    """`[a.b]` is a table in a table for TOML, and its author meant a task."""
    for inner, table in values.items() if isinstance(values, dict) else ():
        if isinstance(table, dict) and inner not in TASK_KEYS:
            message = f"{path.parent.name}/{path.name}, [{slug}.{inner}]: the name of a task holds no dot"
            raise SourceError(message, next_step=f"rename it to [{slug}_{inner}]")


def derived_verifiers(slug: str, functions: Sequence[str], success: str, failure: str) -> tuple[Verifier, ...]:
    """The verifiers of a task that are found by the name of their function."""
    return tuple(
        Verifier(kind=kind, function=prefix + slug, success_criteria=success, failure_criteria=failure)
        for kind, prefix in PREFIXES.items()
        if prefix + slug in functions
    )


def _functions(folder: Path, verifier_module: str | None) -> tuple[str, ...]:
    try:
        return analysis.functions(verifier_module or "")
    except analysis.CodeError as error:
        raise SourceError(f"{folder.name}/verifiers.py: {error}", next_step="mend that line") from error


def _task(folder: Path, slug: str, keys: Keys, functions: tuple[str, ...]) -> Task:
    if not schema.SLUG_PATTERN.fullmatch(slug):
        raise SourceError(f"{keys.place}: bad name", next_step="a task's name holds letters, digits and _ only")
    return Task(
        id=f"{folder.name}/{slug}",
        instruction=keys.text("instruction"),
        kind=keys.choice("kind", schema.KINDS, "") if "kind" in keys else None,
        setup=keys.texts("setup"),
        answer=_canonical(keys.json("answer")),
        answer_order=keys.choice("answer_order", schema.ANSWER_ORDERS, "any"),
        answer_sql=keys.optional_text("answer_sql"),
        free=keys.texts("free"),
        solution=_solution(keys),
        verifiers=_verifiers(folder, slug, keys, functions),
    )


def _solution(keys: Keys) -> tuple[Call, ...] | None:
    found = keys.json("solution")
    if isinstance(found, str):
        try:
            found = from_json(found, f"{keys.place}: solution")
        except DataError as error:
            raise keys.error("solution", f"is no JSON: {error.message}", "mend it, or write a list of steps") from error
        keys.check_json("solution", found)
    if found is None:
        return None
    if not isinstance(found, list):
        raise keys.error("solution", "must be a list of steps", f"solution = [{_STEP.removeprefix('a step is ')}]")
    calls = tuple(_call(keys, n, step) for n, step in enumerate(found, 1))
    for number, call in enumerate(calls if isinstance(keys.value("solution"), list) else (), 1):
        if (text := references.misspelt(call.arguments)) is not None:
            raise keys.error("solution", f"step {number} ({call.tool}): {text!r} is no reference", references.SYNTAX)
    return calls


def _call(keys: Keys, number: int, step: Any) -> Call:
    if not isinstance(step, dict):
        raise keys.error("solution", f"step {number} is {kind_of(step)}", _STEP)
    for key in step.keys() - {"tool", "arguments"}:
        close = difflib.get_close_matches(key, ("tool", "arguments"), n=1)
        raise keys.error(
            "solution", f"step {number} has the unknown key {key!r}", f"did you mean {close[0]!r}?" if close else _STEP
        )
    if "tool" not in step:
        raise keys.error("solution", f"step {number} names no tool", _STEP)
    tool, arguments = step["tool"], step.get("arguments", {})
    if not isinstance(tool, str):
        raise keys.error("solution", f"step {number}: tool is {kind_of(tool)}, not a text", _STEP)
    if not isinstance(arguments, dict):
        raise keys.error("solution", f"step {number}: arguments is {kind_of(arguments)}, not a table", _STEP)
    return Call(tool=tool, arguments=_canonical(arguments))


def _canonical(value: Any) -> Any:
    """The value as a row gives it back, keys sorted: the order shows in prompts."""
    return from_json(to_json(value))


def _verifiers(folder: Path, slug: str, keys: Keys, functions: tuple[str, ...]) -> tuple[Verifier, ...]:
    success, failure = keys.text("success", ""), keys.text("failure", "")
    listed = keys.value("verifiers")
    if listed is None:
        return derived_verifiers(slug, functions, success, failure)
    if not isinstance(listed, list):
        raise keys.error("verifiers", "must be a list of tables", f"[[{slug}.verifiers]]")
    return tuple(_listed(folder, f"{slug}.verifiers", v, success, failure) for v in listed)


def _listed(folder: Path, table: str, values: Any, success: str, failure: str) -> Verifier:
    keys = Keys(folder / "tasks.toml", table, values, ("kind", "function", "file", "success", "failure"))
    file = keys.optional_text("file")
    if file is not None and not (file.startswith("verifiers/") and ".." not in file and "\\" not in file):
        raise keys.error("file", f"is {file!r}", 'give a file of the folder: file = "verifiers/….py"')
    function = keys.text("function")
    if not schema.FUNCTION_PATTERN.fullmatch(function):
        raise keys.error("function", f"is {function!r}, no name of a function", "letters, digits and _ only")
    return Verifier(
        kind=keys.choice("kind", schema.VERIFIER_KINDS, ""),
        function=function,
        code=None if file is None else read_text(folder / file),
        success_criteria=keys.text("success", success),
        failure_criteria=keys.text("failure", failure),
    )


def _check_functions(folder: Path, functions: tuple[str, ...], tasks: Sequence[Task]) -> None:
    """Every verifier of `verifiers.py` belongs to a task, and every one that is named is there."""
    named = {v.function for t in tasks for v in t.verifiers if v.code is None}
    slugs = [t.slug for t in tasks]
    for function in functions:
        slug = next((function.removeprefix(p) for p in PREFIXES.values() if function.startswith(p)), None)
        if slug is not None and slug not in slugs and function not in named:
            close = difflib.get_close_matches(slug, slugs, n=1)
            step = f"did you mean {function.removesuffix(slug)}{close[0]}?" if close else "add the task, or rename it"
            raise SourceError(f"{folder.name}/verifiers.py: {function} belongs to no task", next_step=step)
        if function in named and len(function) > 64:
            message = f"{folder.name}/verifiers.py: {function} is longer than 64 characters"
            raise SourceError(message, next_step="shorten the task's name")
    for missing in sorted(named - set(functions)):
        message = f"{folder.name}/verifiers.py: there is no function {missing}"
        raise SourceError(message, next_step="define it, or mend the name in tasks.toml")


def _check_answer(keys: Keys, task: Task) -> None:
    if task.kind == "change" and task.answer is not None:
        raise keys.error("answer", "is set, but the kind is change", 'set kind = "both", or drop the answer')
    if task.answer is not None:
        _check_answer_form(keys, task.answer)
    if task.answer is not None and task.answer_sql is None:
        step = "add answer_sql: one SELECT on the database after the solution that gives the answer"
        raise keys.error("answer_sql", "is missing: nothing would verify the answer", step)
    if task.answer is None and task.answer_sql is not None:
        raise keys.error("answer", "is missing, and answer_sql is set", "add the answer, or drop answer_sql")
    if task.kind in ("query", "both") and task.answer is None:
        raise keys.error("answer", f"is missing: a task of kind {task.kind} asks for one", 'or set kind = "change"')


def _check_answer_form(keys: Keys, answer: Any) -> None:
    """A number, a text, a list of these or a flat object."""
    parts = answer if isinstance(answer, list) else list(answer.values()) if isinstance(answer, dict) else [answer]
    for part in parts:
        if not isinstance(part, str | int | float):
            step = "an answer is a number, a text, a list of these or a flat table"
            raise keys.error("answer", f"holds {kind_of(part)}", step)
