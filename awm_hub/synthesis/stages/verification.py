"""The seventh stage: what the right ending of each task is, in prose and in code.

Verification is written from the tasks and the sample data without seeing a solution, so that it is an independent check
of the attempts that come after it. Its product has two kinds of parts: the facts of a task (`task:<slug>`, JSON), and
the definitions of `verifiers.py`, among them `signals_<slug>` of every task.

The gate runs all of it on the untouched database. Queries have their right answer there already; a `change` must not
be found done; and a query's verifier is shown a database from which a row is gone, which it must object to.
"""

import difflib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from awm_hub import schema
from awm_hub.errors import LoadError, RecordError, SealError, SourceError, WorkerError
from awm_hub.judging.answers import is_same_answer
from awm_hub.packing import Source, modules
from awm_hub.packing.solving import shaped
from awm_hub.runtime import jobs
from awm_hub.synthesis import building, products
from awm_hub.synthesis.drafts import TASK, Draft
from awm_hub.synthesis.problems import AnswerError, Problem
from awm_hub.synthesis.products import Answer, Parts
from awm_hub.synthesis.prompting import fill
from awm_hub.synthesis.signals import Signals, run_signals, stray_change
from awm_hub.synthesis.stages.base import Stage
from awm_hub.synthesis.stages.reporting import reported, unstorable

_KEYS = ("success", "failure", "answer", "answer_order", "answer_sql", "free")
_PYTHON, _JSON = ("python", "py", "python3"), ("json", "jsonc", "json5")
_OPENED = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*([A-Za-z0-9]+)[ \t]*$", re.MULTILINE)
_INT64 = range(-(2**63), 2**63)
_MOST_STOPPED = 2
"""Functions that may overrun their deadline before the gate stops running the others."""


def read(text: str) -> Answer:
    """The facts and the definitions of an answer; names of either may be removed.

    Raises:
        AnswerError: there is neither, or a block cannot be read.
    """
    said = text.rpartition("</think>")[2]
    bare = products.blocks_of(said, ("",))
    python = [*products.blocks_of(said, _PYTHON), *(body for body in bare if not body.lstrip().startswith("{"))]
    records = [*products.blocks_of(said, _JSON), *(body for body in bare if body.lstrip().startswith("{"))]
    _check_closed(said)
    if not records and not python and said.lstrip().startswith("{"):
        records = [said]
    facts: dict[str, str] = {}
    removed: list[str] = []
    for body in records:
        found = products.read_records(body)
        facts |= {TASK + name.removeprefix(TASK): value for name, value in found.parts.items()}
        removed += [given for name in found.removed for given in (name, TASK + name.removeprefix(TASK))]
    parts = facts | (products.python_parts("\n\n".join(python), said) if python else {})
    gone = tuple(name for name in dict.fromkeys(removed) if name not in parts)
    if not parts and not gone:
        raise AnswerError("a ```json block with the facts and a ```python block with the functions are expected")
    return Answer(parts=parts, removed=gone)


def _check_closed(said: str) -> None:
    """A block that was opened and never closed was cut off, and half a module is worse than none."""
    for languages in (_PYTHON, _JSON):
        opened = [name for name in _OPENED.findall(said) if name.lower() in languages]
        if len(opened) > len(products.blocks_of(said, languages)):
            raise AnswerError(f"a block that opens with ```{opened[-1]} has no end: the answer was cut off")


def render(parts: Parts) -> str:
    """Both blocks, as they are answered."""
    facts = {name.removeprefix(TASK): text for name, text in parts.items() if name.startswith(TASK)}
    functions = {name: text for name, text in parts.items() if not name.startswith(TASK)}
    blocks = [products.fenced("json", products.write_records(facts))] if facts else []
    blocks += [products.fenced("python", products.write_python(functions))] if functions else []
    return "\n\n".join(blocks)


async def check(draft: Draft) -> tuple[Problem, ...]:
    """The gate."""
    if broken_texts := unstorable("verification", draft.parts("verification")):
        return reported(broken_texts)
    with tempfile.TemporaryDirectory() as folder:
        source, problems = building.read(_without_facts(draft), Path(folder))
    if source is None:
        return problems
    image, problems = await _image(source)
    if image is None:
        return problems
    tables = await jobs.dump(image, max_rows=0)
    columns = {f"{name}.{column}".lower() for name, table in tables.items() for column in table["columns"]}
    found = [*_strangers(draft), *_module_problems(source, draft)]
    broken = set()
    for slug in draft.tasks:
        wrong = list(_fact_problems(draft, slug, columns))
        broken |= {slug} if wrong else set()
        found += wrong
    found += [p for slug in draft.tasks if slug not in broken for p in await _answer_problems(draft, slug, image)]
    found += await _signal_problems(draft, image)
    return reported(found)


STAGE = Stage(
    name="verification",
    prompt=lambda draft: fill("verification"),
    shows=("scenario", "task", "database", "sample_data", "toolset"),
    read=read,
    render=render,
    check=check,
)


def _problem(rule: str, subject: str, message: str) -> Problem:
    return Problem(stage="verification", rule=rule, subject=subject, message=building.steady(message))


def _without_facts(draft: Draft) -> Draft:
    """The draft with the functions alone: a wrong fact must not keep them from being looked at."""
    functions = {name: text for name, text in draft.parts("verification").items() if not name.startswith(TASK)}
    tasks = {slug: json.dumps({**told, "kind": "change"}, ensure_ascii=False) for slug, told in draft.tasks.items()}
    return draft.having("verification", functions).having("task", tasks).having("solution", {})


async def _image(source: Source) -> tuple[bytes | None, tuple[Problem, ...]]:
    """The untouched database."""
    request = jobs.BuildRequest(
        interface=source.interface,
        code=None,
        clock=source.clock,
        tables=source.tables,
        further_ddl=source.further_ddl,
        seed=source.seed,
        strict=False,
    )
    try:
        return (await jobs.build(request)).image, ()
    except SealError:
        raise
    except (LoadError, WorkerError, RecordError) as error:
        told = Problem(stage="database", rule="unreadable_database", subject="", message=error.message)
        return None, (told,)


def _strangers(draft: Draft) -> Iterator[Problem]:
    """Facts of tasks that are not there."""
    for slug in draft.facts:
        if slug not in draft.tasks:
            close = difflib.get_close_matches(slug, draft.tasks, n=1)
            hint = f"did you mean {close[0]}? If not, " if close else ""
            told = f'there is no task {slug}; {hint}remove its facts with {{"remove": ["{slug}"]}}'
            yield _problem("unknown_task", slug, told)


def _module_problems(source: Source, draft: Draft) -> Iterator[Problem]:
    """What packing refuses in `verifiers.py`, and functions that are missing."""
    try:
        modules.check_verifiers(source)
    except SourceError as error:
        yield building.source_problem(error, draft)
    for slug in draft.tasks:
        if f"signals_{slug}" not in draft.parts("verification"):
            told = f"signals_{slug}(initial, final, changes) is missing in the Python block"
            yield _problem("no_signals", slug, told)


def _fact_problems(draft: Draft, slug: str, columns: set[str]) -> Iterator[Problem]:
    """What is wrong with the form of a task's facts."""
    facts, kind = draft.facts.get(slug), draft.tasks[slug].get("kind")
    if not isinstance(facts, dict):
        what = "has no facts" if facts is None else "has facts that are no object"
        yield _problem("no_facts", slug, f"task {slug} {what}: give them under this key in the JSON block")
        return
    for message in (*_form_problems(facts, columns), *_kind_problems(facts, kind)):
        yield _problem("wrong_facts", slug, message)


def _form_problems(facts: Mapping[str, Any], columns: set[str]) -> Iterator[str]:
    for key in facts:
        if key not in _KEYS:
            close = difflib.get_close_matches(key, _KEYS, n=1)
            yield f"unknown key {key!r}; {f'did you mean {close[0]!r}?' if close else 'known: ' + ', '.join(_KEYS)}"
    for key in ("success", "failure"):
        if not isinstance(facts.get(key), str) or not facts[key].strip():
            yield f"{key!r} is no text; say in it what the {'right' if key == 'success' else 'wrong'} endings are"
    order = facts.get("answer_order")
    if order is not None and order not in schema.ANSWER_ORDERS:
        yield f"answer_order is {order!r}, not one of {', '.join(schema.ANSWER_ORDERS)}"
    free = facts.get("free")
    if free is not None and not (isinstance(free, list) and all(isinstance(name, str) for name in free)):
        yield "free is no list of texts"
        return
    for name in free or ():
        if name.lower() not in columns:
            close = difflib.get_close_matches(name.lower(), sorted(columns), n=1)
            yield f"free names {name!r}, which is no column{f'; did you mean {close[0]!r}?' if close else ''}"


def _kind_problems(facts: Mapping[str, Any], kind: Any) -> Iterator[str]:
    answer, sql = facts.get("answer"), facts.get("answer_sql")
    if kind == "change":
        if answer is not None or sql is not None:
            yield "the task is of kind change and asks for no answer: leave answer and answer_sql out"
        return
    if answer is None:
        yield f"the task is of kind {kind}: give its answer"
    elif wrong := _wrong_answer(answer):
        yield f"the answer {_shown(answer)} {wrong}; an answer is a number, a text, a list or a flat object of these"
    if not isinstance(sql, str) or not sql.strip():
        yield f"the task is of kind {kind}: give answer_sql, one SELECT that gives the answer"


def _wrong_answer(answer: Any) -> str | None:
    """What is wrong with the form of an answer."""
    if isinstance(answer, str | list | dict) and not answer:
        return "is empty"
    parts = answer if isinstance(answer, list) else list(answer.values()) if isinstance(answer, dict) else [answer]
    for part in parts:
        if not isinstance(part, str | int | float):
            return f"holds {_shown(part)}"
        if isinstance(part, str) and not part.strip():
            return "holds an empty text"
        if isinstance(part, int) and part not in _INT64:
            return "holds an integer beyond 64 bits"
    return None


async def _answer_problems(draft: Draft, slug: str, image: bytes) -> list[Problem]:
    """What `answer_sql` gives on the untouched database."""
    facts, kind = draft.facts[slug], draft.tasks[slug]["kind"]
    if kind == "change":
        return []
    try:
        rows = await jobs.query(image, facts["answer_sql"], clock=draft.clock)
    except SealError:
        raise
    except (RecordError, WorkerError) as error:
        cause = error.__cause__
        return [_problem("answer_sql_fails", slug, f"answer_sql fails: {cause or error.message}")]
    given = shaped(rows, facts["answer"])
    if kind == "query" and not is_same_answer(facts["answer"], given, facts.get("answer_order") or "any"):
        told = (
            f"on the sample data answer_sql gives {_shown(given)}, but answer is {_shown(facts['answer'])}: work out "
            "which is right by the instruction, and mend the other"
        )
        return [_problem("answer_differs", slug, told)]
    return []


async def _signal_problems(draft: Draft, image: bytes) -> list[Problem]:
    """What the functions say of the untouched database, and of one from which a row is gone."""
    found: list[Problem] = []
    stopped, stray = 0, await stray_change(image, draft.clock)
    slugs = [slug for slug in draft.tasks if f"signals_{slug}" in draft.parts("verification")]
    for number, slug in enumerate(slugs):
        if stopped >= _MOST_STOPPED:
            told = f"the functions of {len(slugs) - number} further tasks were not run, as others overran the deadline"
            return [*found, _problem("signals_fail", "", told)]
        said = await run_signals(draft, slug, initial=image, final=image)
        stopped += said.is_stopped
        found += _objections(draft, slug, said)
        if draft.tasks[slug]["kind"] == "query" and said.problems == () and stray is not None:
            said = await run_signals(draft, slug, initial=image, final=stray.image, changes=stray.changes)
            if said.problems == () or said.failure:
                found.append(_blind(slug, stray.told, said))
    return found


def _objections(draft: Draft, slug: str, said: Signals) -> Iterator[Problem]:
    if said.failure:
        yield _problem("signals_fail", slug, f"signals_{slug} on the untouched database: {said.failure}")
    elif draft.tasks[slug]["kind"] == "query":
        if said.problems:
            told = f"signals_{slug} objects to the untouched database, which is right for a query: {said.told}"
            yield _problem("noop_rejected", slug, told)
    elif not said.problems:
        told = (
            f"signals_{slug} finds nothing wrong with the untouched database. Either it accepts that nothing is done, "
            "or the sample data already are as the task wants them"
        )
        yield _problem("noop_passes", slug, told)


def _blind(slug: str, change: str, said: Signals) -> Problem:
    if said.failure:
        return _problem("signals_fail", slug, f"signals_{slug}, where {change}: {said.failure}")
    told = f"signals_{slug} finds nothing wrong where {change}: in a query any change is a problem"
    return _problem("blind_to_damage", slug, told)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:299] + "…"
