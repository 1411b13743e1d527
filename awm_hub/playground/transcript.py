"""What a watched attempt looks like: its events as escaped HTML, one card after the other.

A transcript is filled event by event. Cards are made of the blocks that viewed rollouts are made of, so that a run
looks the same while it happens and when it is looked at again, and one writer makes all texts safe.
"""

from collections.abc import Iterator

from awm_hub.environment import Task
from awm_hub.playground.fragments import OUTCOMES
from awm_hub.playground.markup import Markup, element, joined, line
from awm_hub.playground.watching import Asked, Ended, Event, Judging, Moved, Said
from awm_hub.policy.acting import Action
from awm_hub.safetext import json_text
from awm_hub.trajectory import Verdict
from awm_hub.viewing.document import Block, Data, Label, Prose, Rows, Section, as_text, counted
from awm_hub.viewing.page import html_fragment
from awm_hub.viewing.rollout import result_blocks, result_labels, verdict_section

_OPEN_CHARS = 240
"""A longer result is folded."""
_REASON_CHARS = 400
"""Of a verdict's reasoning at first sight; all of it is in the fold."""
_ENDINGS = {
    "answered": "",
    "max_turns": "No answer came within the messages that were allowed.",
    "format_error": "A broken rule of the format ended it.",
    "environment_fault": "The environment failed.",
    "context_full": "The conversation no longer fits what the model takes.",
    "endpoint_error": "The model's endpoint failed.",
    "stopped": "It ended without an answer.",
}


class Transcript:
    """The cards of one attempt.

    Args:
        task: What is attempted.
        who: Whom or what it is attempted by.
    """

    def __init__(self, task: Task, who: str) -> None:
        self._who = who
        self._cards: list[Markup] = [_card("task", Section(title="Task", blocks=(Prose(text=task.prompt),)))]
        self._status = "Getting ready …"

    def add(self, event: Event) -> None:
        """Add what happened."""
        match event:
            case Asked():
                self._status = f"Message {event.turn}: waiting for {self._who} …"
            case Said():
                self._cards += _said(event.action)
                calls = counted(len(event.action.calls), "call")
                self._status = f"Message {event.turn}: {calls} under way …" if event.action.calls else ""
            case Moved():
                self._cards.append(_moved(event))
            case Judging():
                self._status = "Judging …"
            case Ended():
                self._status = ""
                self._cards.append(_ended(event))

    @property
    def html(self) -> str:
        """The cards so far, and what is being waited for."""
        status = element("p", element("span", class_="awm-dot"), line(self._status), class_="awm-status", role="status")
        return element("div", joined(self._cards), *([status] if self._status else []), class_="awm-transcript")


def _card(kind: str, section: Section) -> Markup:
    return element("article", Markup(html_fragment(section, level=3)), class_=f"awm-turn awm-turn-{kind}")


def _said(action: Action) -> Iterator[Markup]:
    """What was said besides the calls, which are told with their results."""
    blocks: list[Block] = [Prose(label="thought", text=action.thought)] if action.thought else []
    labels = tuple(Label(text=f"breaks rule {v.rule}, {v.name}", tone="bad") for v in action.violations)
    is_answer = not action.calls and not action.lists_tools and action.answer is not None
    said = action.answer if is_answer else (action.message or {}).get("content")
    if said:
        blocks.append(Prose(text=as_text(said)))
    if action.lists_tools:
        blocks.append(Prose(text="(asks for the list of tools)"))
    if is_answer and not said:
        blocks.append(Prose(text="(an empty answer)"))
    if blocks or labels:
        title = "Answer" if is_answer else "Message"
        yield _card("answer" if is_answer else "said", Section(title=title, labels=labels, blocks=tuple(blocks)))


def _moved(event: Moved) -> Markup:
    step = event.move.step
    arguments = (Data(value=step.arguments),) if step.arguments else ()
    result = result_blocks(step.result)
    if step.result.is_ok and len(json_text(step.result.value)) > _OPEN_CHARS:
        result = (Section(title="Result", blocks=(Data(value=step.result.value),), is_folded=True),)
    labels = result_labels(step.result)
    rows: tuple[Block, ...] = ()
    if event.diff:
        labels = (*labels, Label(text=f"{counted(event.diff.rows_count, 'row')} changed"))
        rows = (Rows(diff=event.diff),)
    elif event.diff is None:
        rows = (Prose(text="(which rows it changed is not known)"),)
    title = f"{event.move.number}. {as_text(step.tool)}"
    return _card("call", Section(title=title, labels=labels, blocks=(*arguments, *result, *rows)))


def _ended(event: Ended) -> Markup:
    tone, title = OUTCOMES[event.verdict.outcome] if event.verdict else ("doubtful", "· Not judged")
    reasons = [event.cause or _ENDINGS.get(event.termination, ""), event.next_step]
    if event.judge_error:
        reasons.append(f"No verdict: {event.judge_error}")
    told = [element("p", text) for text in reasons if text]
    why = _why(event.verdict) if event.verdict else ()
    heading = element("h3", title)
    return element("section", heading, *told, *why, class_=f"awm-card awm-outcome awm-{tone}", role="status")


def _why(verdict: Verdict) -> Iterator[Markup]:
    yield element("p", line(verdict.reasoning, _REASON_CHARS))
    section = Markup(html_fragment(verdict_section(verdict), level=4))
    yield element("details", element("summary", "Why this verdict"), section)
