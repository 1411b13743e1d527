"""What a model says of scenarios: judgements of those that it is given, and inventions of its own.

Judgements: can the data of an application be made up, as records in a database (paper §1)? Whatever an answer leaves
out or gets wrong is asked once more. Inventions: new scenarios by name, with an outline. What is out of form is left
out, with the reason; nothing that stands in an answer raises.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from awm_hub.inference import Reply
from awm_hub.safetext import clean_line
from awm_hub.schema import CATEGORIES
from awm_hub.synthesis import products
from awm_hub.synthesis.problems import AnswerError
from awm_hub.synthesis.prompting import fill
from awm_hub.synthesis.seeds import Seed, complaint_about, key_of, one_line

BATCH = 20
"""Names in a request for their suitability."""
_MAX_REASON = 300
_SUITABILITIES = ("high", "medium", "low")
_SYSTEM = "You judge and invent scenarios for training agents that use tools. You answer with one JSON object."


class Ask(Protocol):
    """Asks a model, or gives the answer that is known already."""

    async def __call__(self, key: str, messages: list[dict[str, Any]], *, stage: str, environment: str) -> Reply:
        """The reply to a request, which is known by its key."""
        ...


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """A name that did not become a scenario."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the classifier says of one scenario."""

    suitability: str
    reason: str
    category: str


@dataclass(frozen=True, kw_only=True)
class Invention:
    """What came of one request for new scenarios."""

    found: tuple[Seed, ...] = ()
    judged: Mapping[str, Judgement] = field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()


async def invent(prompt: str, number: int, batch: int, ask: Ask) -> Invention:
    """Ask for new scenarios with request `number`, and have them judged as batch `batch`."""
    key = f"scenarios/invent/{number}"
    reply = await ask(key, _messages(prompt), stage="scenario", environment="")
    try:
        found, dropped = _read_invented(reply.content or "")
    except AnswerError as error:
        return Invention(notes=(f"{key}: {clean_line(str(error), _MAX_REASON)}",))
    judged = await judge(found, batch, ask) if found else {}
    return Invention(found=tuple(found), judged=judged, dropped=tuple(dropped))


async def judge(seeds: Sequence[Seed], batch: int, ask: Ask) -> dict[str, Judgement]:
    """What the classifier says of each, by the key of its name; those are missing on which it said nothing usable."""
    judged: dict[str, Judgement] = {}
    complaint = ""
    for number in (2 * batch - 1, 2 * batch):
        left = [seed for seed in seeds if key_of(seed.name) not in judged]
        lines = "\n".join(_line(seed) for seed in left)
        prompt = fill("suitability", scenarios=lines, categories=", ".join(CATEGORIES))
        messages = _messages(prompt + complaint)
        reply = await ask(f"scenarios/suitability/{number}", messages, stage="scenario", environment="")
        found, problems = _read_judgements(reply.content or "", left)
        judged |= found
        if not problems:
            break
        told = "\n".join(f"- {problem}" for problem in problems)
        complaint = f"\n\nAn earlier answer could not be used, since:\n{told}"
    return judged


def _read_judgements(text: str, seeds: Sequence[Seed]) -> tuple[dict[str, Judgement], list[str]]:
    """Judgements by the key of the name, and what is wrong with those that are missing."""
    try:
        answer = {key_of(name): value for name, value in _entries(text).items()}
    except AnswerError as error:
        return {}, [clean_line(str(error), _MAX_REASON)]
    found, problems = dict[str, Judgement](), []
    for seed in seeds:
        told = answer.get(key_of(seed.name))
        value = told if isinstance(told, dict) else {}
        suitability, category = _word(value.get("suitability")), _word(value.get("category"))
        if suitability not in _SUITABILITIES:
            problems.append(f"{seed.name}: no suitability that is one of {', '.join(_SUITABILITIES)}")
        elif category not in CATEGORIES:
            problems.append(f"{seed.name}: no category that is one of the list")
        else:
            reason = clean_line(one_line(str(value.get("reason") or "")), _MAX_REASON)
            found[key_of(seed.name)] = Judgement(suitability=suitability, reason=reason, category=category)
    return found, problems


def _read_invented(text: str) -> tuple[list[Seed], list[Dropped]]:
    """Scenarios that are in form, at most a batch of them, and those that are not."""
    found, dropped = dict[str, Seed](), []
    for given, value in list(_entries(text).items())[:BATCH]:
        name = one_line(given)
        told = value if isinstance(value, dict) else {}
        outline = one_line(told["outline"]) if isinstance(told.get("outline"), str) else ""
        if reason := complaint_about(name, outline) or _objection(name, outline, told.get("category"), found):
            dropped.append(Dropped(name=clean_line(name, 80), reason=reason))
        else:
            found[key_of(name)] = Seed(name=name, outline=outline)
    return list(found.values()), dropped


def _objection(name: str, outline: str, category: Any, found: Collection[str]) -> str:
    """What a person may write in a name or leave out, but a model may not."""
    if ".." in name or name[0] in ".~-" or any(sign in name for sign in "/\\<>{}"):
        return "the name looks like a path or like markup"
    if not outline:
        return "it has no outline"
    if _word(category) not in CATEGORIES:
        return "its category is none of the list"
    return "the name is in the answer twice" if key_of(name) in found else ""


def _line(seed: Seed) -> str:
    known = {"name": seed.name, **({"outline": seed.outline} if seed.outline else {})}
    return json.dumps(known, ensure_ascii=False)


def _messages(prompt: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": prompt}]


def _entries(text: str) -> dict[str, Any]:
    """The object of an answer, name → object; one around it, as some models write, is taken off."""
    found = products.read_object(text)
    if len(found) == 1:
        inner = next(iter(found.values()))
        if isinstance(inner, dict) and inner and all(isinstance(value, dict) for value in inner.values()):
            found = inner
    if not any(isinstance(value, dict) for value in found.values()):
        raise AnswerError("an object with names as keys and objects as values is expected, complete to its end")
    return found


def _word(value: Any) -> str:
    return "_".join(re.split(r"[\s_-]+", value.strip().lower())) if isinstance(value, str) else ""
