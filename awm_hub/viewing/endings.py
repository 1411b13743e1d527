"""What ended a rollout, and where it broke the rules of the format.

Assistant messages are counted from 1 here, as calls are. A stored violation counts them from 0, and where the rollout
as a whole breaks a rule (rule 5), it holds their number instead.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from awm_hub.policy.rules import NO_SUCCESSFUL_CALL, SERVER_ERROR
from awm_hub.reward import turns_count
from awm_hub.trajectory import Step, Trajectory
from awm_hub.viewing.document import Block, Cell, Data, Grid, Label, Prose, Section, as_text, counted

_QUOTED = 3
"""Broken messages that are quoted beside the table of rules; the conversation has all."""
_CAUSES = {
    "max_turns": "No answer came within the {turns} that were allowed.",
    "context_full": "The conversation no longer fits what the model takes.",
    "endpoint_error": "The endpoint of the model failed.",
    "environment_fault": "The environment failed.",
    "stopped": "It was left without an answer.",
}

Violation = Mapping[str, Any]


def ending_labels(trajectory: Trajectory) -> tuple[Label, ...]:
    """The broken rule that ended a rollout, and how many were broken where that is more."""
    violations = trajectory.violations
    ended: tuple[Label, ...] = ()
    if _is_ended_by_rule(trajectory):
        last = violations[-1].get("turn")
        first = next(v for v in violations if v.get("turn") == last)
        rule = f"rule {as_text(first.get('rule'))}, {as_text(first.get('name'))}"
        ended = (Label(text=f"ended at message {_number(first)} by {rule}", tone="bad"),)
    if len(violations) > len(ended):
        return (*ended, Label(text=counted(len(violations), "broken rule"), tone="bad"))
    return ended


def ending_section(trajectory: Trajectory) -> Iterator[Section]:
    """Why a rollout ended, where it did not with an answer or a broken rule."""
    cause = _CAUSES.get(as_text(trajectory.termination))
    if cause is None or _is_ended_by_rule(trajectory):
        return
    blocks: list[Block] = [Prose(text=cause.format(turns=counted(turns_count(trajectory), "message")))]
    error = trajectory.usage.get("error")
    if error is not None:
        parts = (error.get("type"), error.get("message")) if isinstance(error, Mapping) else (error,)
        blocks.append(Prose(label="error", text=": ".join(as_text(part) for part in parts if part)))
    yield Section(title="Why it ended", labels=(Label(text=as_text(trajectory.termination)),), blocks=tuple(blocks))


def rules_section(trajectory: Trajectory) -> Iterator[Section]:
    """The broken rules, and under them what the model wrote in the last messages that broke one."""
    if not trajectory.violations:
        return
    columns = ("message", "rule", "name", "what")
    rows = tuple(
        tuple(Cell(text=text) for text in (_place(v), *(as_text(v.get(n, "")) for n in ("rule", "name", "message"))))
        for v in trajectory.violations
    )
    grid = Grid(label="Broken rules", columns=columns, rows=rows, is_titled=False)
    yield Section(title="Broken rules", blocks=(grid, *_quotes(trajectory)))


def rule_labels(violations: list[Violation]) -> tuple[Label, ...]:
    """The badges of broken rules."""
    return tuple(Label(text=f"breaks rule {as_text(v.get('rule'))}", tone="bad") for v in violations)


def broken_at_message(trajectory: Trajectory, turn: int) -> list[Violation]:
    """The rules that an assistant message breaks, or its calls; messages from 0."""
    return [v for v in trajectory.violations if v.get("turn") == turn and not _is_of_whole(v)]


def broken_at_steps(trajectory: Trajectory) -> dict[int, list[Violation]]:
    """The rules that calls break, by the position of the step: their violations repeat the result's message."""
    found: dict[int, list[Violation]] = {}
    left = [step for step in enumerate(trajectory.steps) if step[1].result.type in ("fault", "invalid_call")]
    for violation in trajectory.violations:
        match = next((n for n, step in left if _told(step, violation) == violation.get("message")), None)
        if match is not None:
            found.setdefault(match, []).append(violation)
            left = [step for step in left if step[0] > match]
    return found


def message_blocks(message: Mapping[str, Any]) -> Iterator[Block]:
    """A chat message: thoughts that the endpoint gave apart, the text, the calls, and whatever else it holds."""
    thought = message.get("reasoning_content") or message.get("reasoning")
    if thought:
        yield Prose(label="thought", text=as_text(thought))
    content = message.get("content")
    if content:
        yield Prose(text=content) if isinstance(content, str) else Data(value=content)
    known = ("role", "content", "reasoning_content", "reasoning")
    rest = {k: v for k, v in message.items() if k not in known and v is not None}
    calls = rest.pop("tool_calls", None)
    if calls:
        yield Data(label="calls", value=calls)
    if rest:
        yield Data(label="more", value=rest)
    if not (thought or content or calls or rest):
        yield Prose(text="(the message is empty)")


def _is_ended_by_rule(trajectory: Trajectory) -> bool:
    """Whether a broken rule ended it; an environment that failed outside a call breaks none."""
    if not trajectory.violations:
        return False
    is_fault = trajectory.termination == "environment_fault" and "error" not in trajectory.usage
    return trajectory.termination == "format_error" or (is_fault and trajectory.violations[-1]["rule"] == SERVER_ERROR)


def _is_of_whole(violation: Violation) -> bool:
    return violation.get("rule") == NO_SUCCESSFUL_CALL


def _number(violation: Violation) -> str:
    """The message of a violation, from 1; the last one where the whole rollout breaks the rule."""
    turn = violation.get("turn")
    return str(turn + (not _is_of_whole(violation))) if isinstance(turn, int) else as_text(turn)


def _place(violation: Violation) -> str:
    return "all" if _is_of_whole(violation) else _number(violation)


def _told(step: Step, violation: Violation) -> str:
    code = f"{step.result.code}: " if violation.get("rule") == SERVER_ERROR else ""
    return f"{step.tool}: {code}{step.result.message}"


def _quotes(trajectory: Trajectory) -> Iterator[Section]:
    """The last messages that break a rule, as the model wrote them."""
    said = [m for m in trajectory.messages if m.get("role") == "assistant"]
    broken = [turn for turn in range(len(said)) if broken_at_message(trajectory, turn)]
    for turn in broken[-_QUOTED:]:
        labels = rule_labels(broken_at_message(trajectory, turn))
        title = f"Message {turn + 1}, as the model wrote it"
        yield Section(title=title, labels=labels, blocks=tuple(message_blocks(said[turn])))
