"""The first stage: what the system is, who uses it, and the rules that make its tasks hard.

The gate looks at form alone: whether a scenario is worth building was decided when it came into the pool
(`awm_hub.synthesis.scenarios`), and whether its rules can be checked shows in the stages after it.
"""

import difflib
import json
from collections.abc import Iterator
from typing import Any

from awm_hub import schema
from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.products import Answer, Parts
from awm_hub.synthesis.prompting import clock_text, fill
from awm_hub.synthesis.stages.base import Stage
from awm_hub.synthesis.stages.reporting import reported, unstorable

KEYS = ("title", "description", "categories", "rules")
_TITLE_CHARS = 60
_DESCRIPTION_CHARS = (200, 1500)
_MOST_CATEGORIES = 6
_FEWEST_RULES = 3


def prompt(draft: Draft) -> str:
    """The instruction for a draft."""
    return fill(
        "scenario",
        name=draft.name,
        outline=draft.outline or "nothing else; make of it what serves tasks best",
        clock=clock_text(draft.clock),
        tables=str(draft.sizes.tables),
        categories=", ".join(schema.CATEGORIES),
    )


def read(text: str) -> Answer:
    """Take an answer apart; rules that are given as a list become the text of its lines.

    Raises:
        AnswerError: there is no JSON object in it.
    """
    answer = products.read_records(text)
    rules = json.loads(answer.parts.get("rules", "null"))
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        return answer
    lines = "\n".join(f"- {rule.strip().removeprefix('- ')}" for rule in rules)
    return Answer(parts={**answer.parts, "rules": json.dumps(lines, ensure_ascii=False)}, removed=answer.removed)


def render(parts: Parts) -> str:
    """The product in the form of an answer."""
    return products.fenced("json", products.write_records(parts))


async def check(draft: Draft) -> tuple[Problem, ...]:
    """The gate: keys, types and lengths."""
    broken = unstorable("scenario", draft.parts("scenario"))
    return reported(broken or _problems(draft.scenario))


STAGE = Stage(name="scenario", prompt=prompt, shows=(), read=read, render=render, check=check)


def _problem(rule: str, subject: str, message: str, severity: str = "error") -> Problem:
    return Problem(stage="scenario", rule=rule, subject=subject, message=message, severity=severity)


def _problems(told: dict[str, Any]) -> Iterator[Problem]:
    for key in KEYS:
        if key not in told:
            yield _problem("missing_key", key, f"the scenario has no {key}")
    for key in told.keys() - set(KEYS):
        yield _problem("unknown_key", key, f"there is no such key: name it under remove; known are {', '.join(KEYS)}")
    checks = {"title": _of_title, "description": _of_description, "categories": _of_categories, "rules": _of_rules}
    for key, of_value in checks.items():
        if key in told:
            yield from of_value(told[key])


def _of_title(title: Any) -> Iterator[Problem]:
    if not isinstance(title, str):
        yield _problem("wrong_type", "title", "must be a text")
    elif not 3 <= len(title.strip()) <= _TITLE_CHARS or "\n" in title:
        found = f"has {len(title.strip())} characters" if "\n" not in title else "has several lines"
        yield _problem("title_length", "title", f"{found}; one line of 3 to {_TITLE_CHARS} is wanted")


def _of_description(text: Any) -> Iterator[Problem]:
    least, most = _DESCRIPTION_CHARS
    if not isinstance(text, str):
        yield _problem("wrong_type", "description", "must be a text")
    elif not least <= len(text.strip()) <= most:
        found = len(text.strip())
        yield _problem("description_length", "description", f"has {found} characters; {least} to {most} are wanted")


def _of_categories(found: Any) -> Iterator[Problem]:
    if not isinstance(found, list) or not all(isinstance(category, str) for category in found):
        yield _problem("wrong_type", "categories", "must be a list of texts")
        return
    if not 1 <= len(found) <= _MOST_CATEGORIES:
        yield _problem("categories_count", "categories", f"holds {len(found)}; 1 to {_MOST_CATEGORIES} are wanted")
    for category in found:
        if category not in schema.CATEGORIES:
            close = difflib.get_close_matches(category[:100], schema.CATEGORIES, n=1)
            step = f"did you mean {close[0]!r}?" if close else "choose from the list of the instruction"
            yield _problem("unknown_category", "categories", f"{category[:100]!r} is none of the list; {step}")


def _of_rules(rules: Any) -> Iterator[Problem]:
    if not isinstance(rules, str):
        yield _problem("wrong_type", "rules", "must be one text of lines that begin with '- '")
        return
    count = sum(line.startswith("- ") and len(line) > 10 for line in rules.splitlines())
    if count == 0:
        yield _problem("no_rules", "rules", "holds no line that begins with '- ' and says a rule")
    elif count < _FEWEST_RULES:
        yield _problem("few_rules", "rules", f"holds {count}; {_FEWEST_RULES} to 6 are wanted", "warning")
