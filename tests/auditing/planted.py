"""Bugs planted into copies of an environment's tools, to measure the audit itself.

Plants are made by rule, wherever the rule applies, and taken evenly from the whole module: nobody chose those that an
audit finds. A copy counts as found where its audit has a finding that the audit of the original does not have.
"""

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass

from awm_hub.auditing import filtering, foundations, lasting, owning, probing, ranging
from awm_hub.auditing.case import Case, Probe
from awm_hub.auditing.tasks import audit_task
from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError
from awm_hub.runtime import jobs

KINDS = ("a filter ignored", "a wrong owner check", "an off-by-one")


@dataclass(frozen=True)
class Plant:
    """One bug."""

    kind: str
    line: int
    code: str
    """The whole module with it."""
    shown: str


_FILTER = re.compile(r"\((?:\?\d+|:\w+) (?:IS NULL|= '') OR ((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")
_OWNER = re.compile(
    r"\b(?:[a-z]\.)?(?:customer|member|technician|site|supplier|unit|title|room|event|loan)_id = \?(?!\d)"
)
_OFF = re.compile(r"(?<![<>=!-])(<=|>=|<|>)(?![=>])(?= )")
_LIMITED = re.compile(r"LIMIT (\?\d|:limit)|\[:limit\]")


def plants(code: str, kind: str) -> Iterator[Plant]:
    """Every plant of a kind, in the order of the module."""
    if kind == KINDS[0]:
        for found in _FILTER.finditer(code):
            yield _plant(kind, code, found.start(1), found.end(1), "1")
    elif kind == KINDS[1]:
        for found in _OWNER.finditer(code):
            yield _plant(kind, code, found.start(), found.end(), "? IS NOT NULL")
    else:
        turned = {"<=": "<", "<": "<=", ">=": ">", ">": ">="}
        spots = [(f.start(1), f.end(1), turned[f[1]]) for f in _OFF.finditer(code)]
        for found in _LIMITED.finditer(code):
            spots.append((found.start(), found.end(), "[: limit + 1]" if found[1] is None else f"{found[0]} + 1"))
        for start, end, text in sorted(spots):
            yield _plant(kind, code, start, end, text)


def _plant(kind: str, code: str, start: int, end: int, text: str) -> Plant:
    line = code.count("\n", 0, start) + 1
    shown = code.splitlines()[line - 1].strip()
    return Plant(kind, line, code[:start] + text + code[end:], shown)


def evenly(found: list[Plant], most: int) -> list[Plant]:
    """At most so many, spread over all."""
    return [found[at * len(found) // most] for at in range(most)] if len(found) > most else found


async def copy_with(environment: Environment, code: str) -> Environment:
    """A copy with other code and a hash of its own."""
    copy = dataclasses.replace(environment, code=code, quality=None)
    return copy.with_hash(await jobs.logical_hash(environment.database))


@dataclass(frozen=True)
class Seen:
    """What an audit sees of the tools: findings by rule and subject, and what they answered."""

    findings: frozenset[tuple[str, str]]
    fingerprints: dict[str, str]


async def look(environment: Environment, clean: Seen | None = None) -> Seen:
    """Audit the tools, and tasks without attempts, which judge verifiers; with `clean`, until something is new."""
    case = await foundations.open_case(environment, trust_remote_code=False)
    try:
        probes = await probing.probe_tools(case)
        checks = [
            lambda: _ranges(case, probes),
            lambda: filtering.check_answers(case),
            lambda: lasting.check_links(case, probes),
            *(lambda task=task: audit_task(case, task, has_attempts=False) for task in environment.tasks),
        ]
        owning.check_rows(case, probes)
        for check in checks:
            if clean is None or not _found(case) - clean.findings:
                await check()
    except AwmHubError as error:
        case.note("does_not_load", "", error.message)
    finally:
        case.workers.stop()
    return Seen(_found(case), case.fingerprints())


async def _ranges(case: Case, probes: list[Probe]) -> None:
    await ranging.check_ranges(case, probes, await probing.probe_oddly(case, probes))


def _found(case: Case) -> frozenset[tuple[str, str]]:
    return frozenset((f.rule, f.subject) for f in case.findings)
