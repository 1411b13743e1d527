"""How gates report: sorted, without repetitions, and no more of it than a model can mend at once.

The same product gives the same problems in the same order, on any machine, since requests and kept verdicts are made of
them. What cannot be stored as UTF-8 is found here as well, before a product goes anywhere else.
"""

from collections.abc import Iterable

from awm_hub.synthesis.problems import SEVERITIES, Problem
from awm_hub.synthesis.products import Parts

MOST = 12
"""Problems that one gate reports."""


def reported(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Errors first, each once; beyond `MOST`, a last one says how many more there are."""
    ordered = sorted(dict.fromkeys(problems), key=_rank)
    shown, rest = ordered[:MOST], ordered[MOST:]
    if rest:
        more = f"{len(rest)} more problems of these kinds are not shown"
        shown.append(
            Problem(stage=rest[0].stage, rule="more_problems", subject="", message=more, severity=rest[0].severity)
        )
    return tuple(shown)


def unstorable(stage: str, parts: Parts) -> list[Problem]:
    """Parts whose text no file and no database can hold."""
    return [
        Problem(stage=stage, rule="broken_text", subject=_storable(name), message=f"{what}: leave it out")
        for name, text in parts.items()
        if (what := _broken(name + text))
    ]


def _broken(text: str) -> str | None:
    if "\0" in text or "\\u0000" in text:
        return "the text holds a NUL character"
    if _storable(text) != text:
        return "the text holds half of a surrogate pair, which is no character"
    return None


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _rank(problem: Problem) -> tuple[int, str, str, str, str]:
    return (
        SEVERITIES.index(problem.severity),
        problem.stage,
        problem.rule,
        problem.subject,
        problem.message,
    )
