"""What the play view shows of a visit, as escaped HTML: the task, the moves, the verdict, and where its MCP URL is."""

from collections.abc import Iterable
from html import escape

from awm_hub.canonical import to_json
from awm_hub.environment import Environment, Task
from awm_hub.playground.markup import text
from awm_hub.playground.visits import Move, Visit
from awm_hub.safetext import clean_line

_ARGUMENTS_WIDTH = 120
_TONES = {"ok": "good", "refused": "doubtful", "invalid_call": "bad", "fault": "bad"}


def line(value: object, width: int | None = None) -> str:
    """Untrusted text for a page, as one line."""
    return escape(clean_line(str(value), width))


def task_card(environment: Environment, task: Task | None, *, is_live: bool) -> str:
    """The environment and what there is to do."""
    told = "Roam free: call any tool and see what it does." if task is None else task.prompt
    kind = "" if task is None else f'<span class="awm-label">{line(task.kind)}</span>'
    state = "" if is_live else '<p class="awm-soft">Press <b>Start</b>: you get a copy of your own.</p>'
    head = f"<h2>{line(environment.title)} {kind}</h2>"
    return f'<section class="awm-card awm-task">{head}<p class="awm-instruction">{text(told)}</p>{state}</section>'


def moves_list(moves: Iterable[Move], *, is_ended: bool) -> str:
    """The calls so far, each with a button that goes back to just after it; `data-to` says how many are kept."""
    found = list(moves)
    if not found:
        return '<p class="awm-soft">No calls yet.</p>'
    rows = "".join(_move(move, is_last=move is found[-1] and not is_ended) for move in found)
    begin = '<button type="button" class="awm-undo" data-to="0">Back to the start</button>'
    return f'<ol class="awm-moves">{rows}</ol>{begin}'


def _move(move: Move, *, is_last: bool) -> str:
    step = move.step
    arguments = line(to_json(step.arguments), _ARGUMENTS_WIDTH)
    code = f" {line(step.result.code)}" if step.result.code else ""
    tone = _TONES.get(step.result.type, "")
    back = (
        '<span class="awm-soft">now</span>'
        if is_last
        else f'<button type="button" class="awm-undo" data-to="{move.number}">Back to here</button>'
    )
    return (
        f"<li><code>{line(step.tool)}</code> <code class='awm-soft'>{arguments}</code> "
        f'<span class="awm-label awm-{tone}">{line(step.result.type)}{code}</span> {back}</li>'
    )


def mcp_card(visit: Visit, origin: str) -> str:
    """Where an MCP client finds the instance, and a configuration to copy."""
    url = f"{origin}/i/{visit.id}/mcp"
    name = visit.environment.id
    settings = to_json({"mcpServers": {name: {"type": "http", "url": url}}})
    return (
        '<section class="awm-card"><p>This instance answers to any MCP client over streamable HTTP, too. Whoever knows '
        "the address may call its tools; it ends with your visit.</p>"
        f'<p>Address</p><pre class="awm-copy">{line(url)}</pre>'
        f'<p>Configuration</p><pre class="awm-copy">{line(settings)}</pre></section>'
    )


def verdict_head(visit: Visit) -> str:
    """The outcome in words that a newcomer understands."""
    if visit.judge_error is not None:
        return _outcome("doubtful", "Not judged", visit.judge_error)
    if visit.verdict is None:
        return _outcome("", "Finished", "You were roaming: there is no task to judge.") if visit.is_ended else ""
    outcome = visit.verdict.outcome.value
    tone = {"COMPLETED": "good", "PARTIALLY_COMPLETED": "doubtful"}.get(outcome, "bad")
    return _outcome(tone, outcome, visit.verdict.reasoning)


def _outcome(tone: str, title: str, told: str) -> str:
    mark = {"good": "✓", "doubtful": "~", "bad": "✗"}.get(tone, "·")
    return (
        f'<section class="awm-card awm-outcome awm-{tone}" role="status"><h2>{mark} {line(title)}</h2>'
        f"<p>{text(told)}</p></section>"
    )
