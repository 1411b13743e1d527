"""The second stage: what the user asks. Tables and tools are made for these tasks, as in the paper (§1).

The gate looks at what can be seen before there is a database: number, names, kinds, lengths, and words that only make
sense on a screen or inside a table.
"""

import difflib
import itertools
import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

from awm_hub import schema
from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.products import Parts
from awm_hub.synthesis.prompting import clock_text, fill
from awm_hub.synthesis.stages.base import Stage
from awm_hub.synthesis.stages.reporting import reported, unstorable

KEYS = ("kind", "instruction")
_SLUG_CHARS = 40
_INSTRUCTION_CHARS = (60, 1200)
_ALIKE = 0.9
"""Similarity from which two instructions are one."""
_MOST_COMPARED = 30
_SMALLEST_MIX = 3
"""Tasks from which on both kinds are wanted."""
_SCREEN = re.compile(
    r"\b(?:click\w*|log(?:ged|ging)?[ -]?(?:in|into|out)|sign(?:ed|ing)? (?:in|out)|drop-?down|scroll\w*|checkbox\w*"
    r"|web ?page|navigate)\b",
    re.IGNORECASE,
)
_ID = re.compile(r"\b(?:[a-z]+_)?id(?:s|'s)?\s*(?:no\.?|number|of|is|[#:=])*\s*#?\d+", re.IGNORECASE)


def prompt(draft: Draft) -> str:
    """The instruction for a draft."""
    count = draft.sizes.tasks
    queries, both = count // 5, count * 3 // 10
    return fill(
        "task",
        tasks=str(count),
        clock=clock_text(draft.clock),
        queries=str(queries),
        changes=str(count - queries - both),
        both=str(both),
    )


def render(parts: Parts) -> str:
    """The product in the form of an answer."""
    return products.fenced("json", products.write_records(parts))


async def check(draft: Draft) -> tuple[Problem, ...]:
    """The gate: number, names, kinds and wording."""
    broken = unstorable("task", draft.parts("task"))
    return reported(broken or _problems(draft.tasks, draft.sizes.tasks))


STAGE = Stage(name="task", prompt=prompt, shows=("scenario",), read=products.read_records, render=render, check=check)


def _problem(rule: str, subject: str, message: str, severity: str = "error") -> Problem:
    return Problem(stage="task", rule=rule, subject=subject, message=message, severity=severity)


def _problems(tasks: Mapping[str, Any], wanted: int) -> Iterator[Problem]:
    if len(tasks) != wanted:
        step = "add some" if len(tasks) < wanted else "name those that go under remove"
        yield _problem("task_count", "", f"there are {len(tasks)} tasks; exactly {wanted} are wanted: {step}")
    for slug, told in tasks.items():
        yield from _of_slug(slug)
        yield from _of_task(slug, told)
    whole = {slug: told for slug, told in tasks.items() if isinstance(told, dict)}
    if wanted >= _SMALLEST_MIX:
        yield from _of_mix({str(told.get("kind")) for told in whole.values()})
    yield from _alike({s: t["instruction"] for s, t in whole.items() if isinstance(t.get("instruction"), str)})


def _of_slug(slug: str) -> Iterator[Problem]:
    is_name = bool(schema.SLUG_PATTERN.fullmatch(slug)) and slug.isidentifier() and slug == slug.lower()
    if not is_name or keyword.iskeyword(slug) or len(slug) > _SLUG_CHARS:
        form = f"lower-case letters, digits and _, not first a digit, at most {_SLUG_CHARS} characters"
        yield _problem("slug", slug[:100], f"is no slug ({form}): remove it, and give the task under another one")


def _of_task(slug: str, told: Any) -> Iterator[Problem]:
    if not isinstance(told, dict):
        yield _problem("wrong_type", slug, "must be an object with kind and instruction")
        return
    if unknown := sorted(told.keys() - set(KEYS)):
        yield _problem("unknown_key", slug, f"holds {', '.join(unknown)[:200]}; only kind and instruction are wanted")
    if told.get("kind") not in schema.KINDS:
        yield _problem("kind", slug, f"kind must be one of {', '.join(schema.KINDS)}")
    instruction, (least, most) = told.get("instruction"), _INSTRUCTION_CHARS
    if not isinstance(instruction, str):
        yield _problem("wrong_type", slug, "instruction must be a text")
    elif not least <= len(instruction.strip()) <= most:
        found = len(instruction.strip())
        yield _problem("instruction_length", slug, f"instruction has {found} characters; {least} to {most} are wanted")
    else:
        yield from _of_wording(slug, instruction)


def _of_wording(slug: str, instruction: str) -> Iterator[Problem]:
    if found := _SCREEN.search(instruction):
        message = f"says {found[0]!r}: agents have tools and no screen, and are logged in; say what is wanted instead"
        yield _problem("screen_words", slug, message, "warning")
    if found := _ID.search(instruction):
        message = f"says {found[0]!r}: users do not know internal ids; name the thing by its name, code or date"
        yield _problem("internal_id", slug, message, "warning")


def _of_mix(kinds: set[str]) -> Iterator[Problem]:
    if "query" not in kinds:
        yield _problem("kinds_mix", "", "no task is a query")
    if not kinds & {"change", "both"}:
        yield _problem("kinds_mix", "", "no task changes anything: change or both")


def _alike(instructions: Mapping[str, str]) -> Iterator[Problem]:
    texts = {
        s: " ".join(t.casefold().split())[:1200] for s, t in itertools.islice(instructions.items(), _MOST_COMPARED)
    }
    for (one, first), (other, second) in itertools.combinations(texts.items(), 2):
        matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
        if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE:
            yield _problem("alike", other, f"asks nearly the same as {one}: write another task in its place")
