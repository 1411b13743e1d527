"""What the play view shows of a visit, as escaped HTML: the task, the moves, the verdict, and where its MCP URL is."""

from collections.abc import Iterable, Iterator

from awm_hub.canonical import to_json
from awm_hub.environment import Environment, Task
from awm_hub.playground.fragments import OUTCOMES, scenario
from awm_hub.playground.markup import Markup, element, line
from awm_hub.playground.visits import Move, Visit
from awm_hub.trajectory import Outcome, Verdict
from awm_hub.viewing.page import html_fragment
from awm_hub.viewing.rollout import verdict_section

_ARGUMENTS_WIDTH = 120
_TONES = {"ok": "good", "refused": "doubtful", "invalid_call": "bad", "fault": "bad"}
_ENDED = "This attempt has ended. Start over, or go back to one of its calls."
_INVITATION = (" Press ", element("b", "Start"), ": you get a copy of your own.")


def task_card(environment: Environment, task: Task | None, *, is_live: bool) -> Markup:
    """The environment and what there is to do."""
    kind = [" ", _label(task.kind)] if task is not None and task.kind else []
    told = "Roam free: call any tool and see what it does." if task is None else task.prompt
    parts = [element("h2", line(environment.title), *kind), element("p", told, class_="awm-instruction")]
    if not is_live:
        parts.append(element("p", *_INVITATION, class_="awm-soft"))
    parts.append(
        element("details", element("summary", "Where you are, its rules, and the date"), scenario(environment))
    )
    return element("section", *parts, class_="awm-card awm-task")


def moves_list(moves: Iterable[Move], *, is_ended: bool) -> Markup:
    """The calls so far, each with a button that goes back to just after it; `data-to` says how many are kept."""
    found = list(moves)
    if not found:
        return element("p", "No calls yet.", class_="awm-soft")
    rows = (_move(move, is_last=move is found[-1] and not is_ended) for move in found)
    return element("div", element("ol", *rows, class_="awm-moves"), _back(0, "Back to the start"))


def _move(move: Move, *, is_last: bool) -> Markup:
    step = move.step
    result = f"{step.result.type} {step.result.code or ''}".rstrip()
    return element(
        "li",
        element("code", line(step.tool)),
        " ",
        element("code", line(to_json(step.arguments), _ARGUMENTS_WIDTH), class_="awm-soft"),
        " ",
        _label(result, _TONES.get(step.result.type, "")),
        " ",
        element("span", "now", class_="awm-soft") if is_last else _back(move.number, "Back to here"),
    )


def _back(number: int, words: str) -> Markup:
    return element("button", words, type_="button", class_="awm-undo", data_to=number)


def _label(words: str, tone: str = "") -> Markup:
    return element("span", line(words), class_=f"awm-label awm-{tone}" if tone else "awm-label")


def mcp_card(visit: Visit, origin: str) -> Markup:
    """Where an MCP client finds the instance, and a configuration to copy."""
    url = f"{origin}/i/{visit.id}/mcp"
    settings = to_json({"mcpServers": {visit.environment.id: {"type": "http", "url": url}}})
    told = (
        "This instance answers to any MCP client over streamable HTTP, too. Whoever knows the address may call its "
        "tools; it ends with your visit."
    )
    return element("section", element("p", told), *_copied("Address", url), *_copied("Configuration", settings))


def _copied(title: str, words: str) -> Iterator[Markup]:
    yield element("p", title)
    yield element("pre", line(words), class_="awm-copy")
    yield element("button", "Copy", type_="button", class_="awm-undo")


def verdict_card(visit: Visit) -> Markup:
    """The outcome in words that a newcomer understands, and all of the verdict behind a fold."""
    if visit.judge_error is not None:
        return _outcome("doubtful", ["~ Not judged"], visit.judge_error)
    if visit.verdict is not None:
        tone, title = OUTCOMES[visit.verdict.outcome]
        outcome = visit.verdict.outcome
        heading = [title] if outcome is Outcome.COMPLETED else [title, " ", _label(outcome.value)]
        return _outcome(tone, heading, visit.verdict.reasoning, _why(visit.verdict))
    return _outcome("", ["Finished"], "You were roaming: there is no task to judge.") if visit.is_ended else Markup()


def _why(verdict: Verdict) -> Markup:
    found = Markup(html_fragment(verdict_section(verdict), level=4))
    return element("details", element("summary", "Why this verdict"), found)


def _outcome(tone: str, title: Iterable[str], told: str, *more: Markup) -> Markup:
    kind = f"awm-card awm-outcome awm-{tone}" if tone else "awm-card awm-outcome"
    parts = [element("h2", *title), element("p", told), *more, element("p", _ENDED, class_="awm-soft")]
    return element("section", *parts, class_=kind, role="status")
