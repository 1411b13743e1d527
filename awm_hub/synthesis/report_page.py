"""The figures of a run for reading: a page of Markdown, and a table for the terminal.

Names and messages come from models: they are escaped, so that a page shows them and does nothing else.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from awm_hub.card.markdown import table, text
from awm_hub.safetext import clean_line

if TYPE_CHECKING:
    from awm_hub.synthesis.figures import EnvironmentFigures, Figures, StageFigures

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]*", re.ASCII)
"""Names that can stand in a code span as they are."""
_MESSAGE, _NAME, _SHOWN_PROBLEMS, _SHOWN_NAMES = 240, 80, 8, 12
_NONE = "–"


def page(figures: "Figures") -> str:
    """The report as Markdown."""
    sections = (
        _opening(figures),
        _stages(figures),
        _solving(figures),
        _answers(figures),
        _environments(figures),
        _failures(figures),
        _unreadable(figures),
        _pool(figures),
    )
    return "\n".join(line for section in sections for line in section)


def stage_lines(figures: "Figures") -> list[str]:
    """A short table of the stages for the terminal."""
    head = ("stage", "reached", "first try", "at last", "attempts", "asked later", "tokens", "$ per 100", "paper")
    rows = [head, *(_short(stage) for stage in figures.stages)]
    total, paper = figures.total, _usd(figures.paper.cost_per_100_usd)
    rows.append(("total", "", "", "", "", "", f"{total.tokens:,}", _usd(figures.cost_per_100_usd), paper))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)
    return [clean_line(line) for line in lines]


def _short(stage: "StageFigures") -> tuple[str, ...]:
    return (
        stage.stage,
        str(stage.reached),
        _share(stage.first_success),
        _share(stage.final_success),
        _mean(stage.attempts),
        str(stage.asked_by_later),
        f"{stage.prompt_tokens + stage.completion_tokens:,}",
        _usd(stage.cost_per_100_usd),
        _usd(stage.paper.cost_per_100_usd),
    )


def _opening(figures: "Figures") -> Iterator[str]:
    counts = ", ".join(f"{figures.count(state)} {state}" for state in ("accepted", "rejected", "unfinished"))
    total = figures.total
    yield "# Synthesis report"
    yield ""
    yield f"{len(figures.environments)} environments: {counts}."
    tokens = f"{total.prompt_tokens:,} tokens of prompts and {total.completion_tokens:,} of answers"
    yield f"{total.requests:,} requests, {tokens}, ${_usd(total.known_usd)}."
    yield ""


def _stages(figures: "Figures") -> Iterator[str]:
    yield "## Stages"
    yield ""
    head = (
        "stage",
        "reached",
        "first attempt",
        "without error",
        "paper",
        "at last",
        "attempts",
        "paper",
        "asked by later gates",
    )
    rows = [_stage_row(stage) for stage in figures.stages]
    total, paper = figures.total, _usd(figures.paper.cost_per_100_usd)
    tokens = (f"{total.prompt_tokens:,}", f"{total.completion_tokens:,}")
    rows.append(("total", *[""] * 8, *tokens, _usd(figures.cost_per_100_usd), paper))
    yield table((*head, "prompt tokens", "answer tokens", "$ per 100", "paper"), rows)
    yield ""
    yield (
        "*First attempt*: the share of environments where the stage's own gate sent nothing back, not even a warning; "
        "*without error*: where it sent back warnings at most, as the paper counts. *At last*: the share that was not "
        "given up for want of attempts. *Asked later*: corrections that a later gate asked for. `solution` is counted "
        "by task: attempts that the verifier agreed with. *$ per 100* is for 100 accepted environments, and holds what "
        "was spent on all others. `scenario` holds the pool too."
    )
    yield ""


def _stage_row(stage: "StageFigures") -> tuple[str, ...]:
    return (
        f"`{stage.stage}`",
        f"{stage.reached:,}",
        _share(stage.first_success),
        _share(stage.first_without_error),
        _share(stage.paper.success),
        _share(stage.final_success),
        _mean(stage.attempts),
        _mean(stage.paper.attempts),
        f"{stage.asked_by_later:,}",
        f"{stage.prompt_tokens:,}",
        f"{stage.completion_tokens:,}",
        _usd(stage.cost_per_100_usd),
        _usd(stage.paper.cost_per_100_usd),
    )


def _solving(figures: "Figures") -> Iterator[str]:
    told = figures.solving
    if not told.tasks:
        return
    yield "## Attempts at the tasks"
    yield ""
    yield f"- {told.tasks:,} tasks were attempted, {told.attempts / told.tasks:.2f} times each"
    yield f"- {told.agreed_first:,} agreed with the verifier at the first attempt, {told.agreed:,} at the last"
    blamed = ", ".join(f"{_name(stage)} {count}" for stage, count in told.at_fault.items())
    yield f"- {told.arbiter_requests:,} questions to the arbiter" + (f", who blamed: {blamed}" if blamed else "")
    if told.open:
        yield f"- {told.open:,} attempts wait for an answer"
    yield ""


def _answers(figures: "Figures") -> Iterator[str]:
    told = figures.answers
    yield "## Who answered"
    yield ""
    rows = [(_name(model), f"{count:,}") for model, count in told.models.items()]
    yield table(("model", "answers"), rows) if rows else "Nobody so far."
    yield ""
    sources = ", ".join(f"{count:,} {_name(source)}" for source, count in told.sources.items())
    yield f"- source: {sources or _NONE}"
    yield f"- tokens: as the endpoint counted them in {told.counted:,} answers, estimated in {told.estimated:,}"
    for count, what in (
        (told.unpriced, "answers without a known cost"),
        (told.open, "requests without an answer"),
        (len(told.unreadable), "answers that could not be read"),
    ):
        if count:
            yield f"- {what}: {count:,}"
    if told.reworded:
        yield f"- given to an earlier wording: {len(told.reworded):,}, {_names(told.reworded)}"
    yield ""


def _environments(figures: "Figures") -> Iterator[str]:
    if not figures.environments:
        return
    yield "## Environments"
    yield ""
    head = ("environment", "state", "attempts by stage", "requests", "tokens", "$", "problems left")
    yield table(head, (_environment_row(e) for e in figures.environments), texts=3)
    yield ""


def _environment_row(told: "EnvironmentFigures") -> tuple[str, ...]:
    return (
        _name(told.id),
        told.state,
        ", ".join(f"{_name(stage)} {count}" for stage, count in told.attempts.items()),
        f"{told.requests:,}",
        f"{told.prompt_tokens + told.completion_tokens:,}",
        _usd(told.cost_usd),
        f"{len(told.problems):,}",
    )


def _failures(figures: "Figures") -> Iterator[str]:
    rejected = [e for e in figures.environments if e.state == "rejected"]
    if not rejected:
        return
    yield "## Why environments were rejected"
    yield ""
    rows = (
        (f"{_name(f.stage)} {_name(f.rule)}", _names(f.environments), text(f.example, _MESSAGE), f"{f.problems:,}")
        for f in figures.failures
    )
    yield table(("rule", "environments", "for example", "problems"), rows, texts=3)
    yield ""
    for environment in rejected:
        yield from _rejected(environment)
    yield "`awm-hub synthesize -o DIR --explain ENVIRONMENT` tells the whole story of one."
    yield ""


def _rejected(told: "EnvironmentFigures") -> Iterator[str]:
    at = f", given up at {_name(told.exhausted)}" if told.exhausted else ""
    yield f"### {_name(told.id)}{at}"
    yield ""
    for problem in told.problems[:_SHOWN_PROBLEMS]:
        place = f"{_name(problem.rule)} {_name(problem.subject)}" if problem.subject else _name(problem.rule)
        kind = "" if problem.severity == "error" else f" ({problem.severity})"
        yield f"- {_name(problem.stage)} {place}{kind}: {text(problem.message, _MESSAGE)}"
    if not told.problems:
        yield "- no problem is recorded"
    if len(told.problems) > _SHOWN_PROBLEMS:
        yield f"- and {len(told.problems) - _SHOWN_PROBLEMS} more"
    yield ""


def _unreadable(figures: "Figures") -> Iterator[str]:
    if not figures.answers.unreadable:
        return
    yield "## Answers that could not be read"
    yield ""
    rows = ((_name(key), text(why, _MESSAGE)) for key, why in figures.answers.unreadable.items())
    yield table(("request", "why"), rows, texts=2)
    yield ""


def _pool(figures: "Figures") -> Iterator[str]:
    pool = figures.pool
    if pool is None:
        return
    yield "## Scenarios"
    yield ""
    invented = sum(s.origin == "invented" for s in pool.scenarios)
    yield (
        f"{len(pool.scenarios):,} scenarios, {invented:,} of them invented in {pool.rounds:,} rounds; "
        f"{len(pool.dropped):,} names were dropped."
    )
    if pool.is_stalled:
        full = f" Full categories: {', '.join(map(_name, pool.full))}." if pool.full else ""
        yield f"The pool stalled below its target.{full}"
    yield ""
    rows = [(text(s.name, _NAME), _name(s.id), _name(s.category), s.origin, s.suitability) for s in pool.scenarios]
    if rows:
        yield table(("scenario", "environment", "category", "origin", "suitability"), rows, texts=5)
        yield ""
    if pool.dropped:
        dropped = ((text(d.name, _NAME), text(d.reason, _MESSAGE)) for d in pool.dropped)
        yield table(("dropped", "why"), dropped, texts=2)
        yield ""
    for note in pool.notes:
        yield f"- an answer could not be read: {text(note, _MESSAGE)}"
    if pool.notes:
        yield ""
    yield from _diversity(figures)


def _diversity(figures: "Figures") -> Iterator[str]:
    told = figures.diversity
    if told is None:
        return
    yield f"How diverse the pool was as it grew, by {text(told.embedder, _NAME)}:"
    yield ""
    rows = (
        (f"{p.size:,}", *map(_cosine, (p.distance_mean, p.nearest_mean, p.nearest_max)), f"{p.categories}")
        for p in told.points
    )
    yield table(("scenarios", "mean distance", "nearest, mean", "nearest, most", "categories"), rows, texts=0)
    yield ""


def _name(name: str) -> str:
    """A name as code where it is a plain one, else as an escaped text."""
    plain = len(name) <= _NAME and _PLAIN.fullmatch(name)
    return f"`{name}`" if plain else text(name, _NAME)


def _names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(map(_name, names[:_SHOWN_NAMES])) + rest


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.1f} %"


def _mean(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"


def _usd(value: float | None) -> str:
    return _NONE if value is None else f"{value:,.2f}"


def _cosine(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"
