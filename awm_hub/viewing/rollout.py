"""One rollout as a document: what was asked, each step with its result and rows, the answer, and the verdicts."""

from collections.abc import Iterator, Mapping
from typing import Any

from awm_hub.environment import Environment
from awm_hub.errors import UnknownNameError
from awm_hub.reward import hybrid_reward
from awm_hub.trajectory import StateDiff, Step, ToolResult, Trajectory, Verdict
from awm_hub.viewing.changes import RowChanges
from awm_hub.viewing.document import (
    Block,
    Data,
    Document,
    Facts,
    Label,
    Prose,
    Rows,
    Section,
    as_text,
    counted,
    facts,
    label,
    rounded,
)
from awm_hub.viewing.endings import (
    Violation,
    broken_at_message,
    broken_at_steps,
    ending_labels,
    ending_section,
    message_blocks,
    rule_labels,
    rules_section,
)

_ROLLOUT_FACTS = ("seed", "tier", "clock", "termination")
_ONLY_WHOLE = (
    "Which call changed which row is not known: repeating the calls does not lead to this database, "
    "or a call of them ran out of time."
)
_USAGE_NAMES = {
    "turns": "messages",
    "prompt_tokens": "prompt tokens",
    "completion_tokens": "completion tokens",
    "cost_usd": "cost in USD",
    "policy_seconds": "policy seconds",
    "replaced_characters": "characters replaced in",
}


def rollout_document(
    trajectory: Trajectory,
    *,
    name: str = "",
    changes: RowChanges | None = None,
    environment: Environment | None = None,
    judge_error: Mapping[str, Any] | None = None,
) -> Document:
    """What there is to see of one rollout.

    Args:
        trajectory: What was done.
        name: Id of the rollout in its run.
        changes: The rows it changed, see `row_changes`; without them, those of its last verdict are shown.
        environment: Where it was done, for the task's text; default: the one the trajectory holds.
        judge_error: Why a judge found no verdict.
    """
    environment = environment or trajectory.environment
    task = as_text(trajectory.task_id or trajectory.environment_id)
    return Document(
        title=name or task,
        labels=(*_outcomes(trajectory), *ending_labels(trajectory)),
        blocks=(
            _overview(trajectory, task),
            *_instruction(trajectory, environment),
            *_steps(trajectory, changes),
            *ending_section(trajectory),
            *rules_section(trajectory),
            *_answer(trajectory),
            *_ending(trajectory, changes),
            *(verdict_section(v) for v in trajectory.verdicts),
            *_judge_error(judge_error),
            *_usage(trajectory),
            *_conversation(trajectory),
        ),
    )


def result_blocks(result: ToolResult) -> tuple[Block, ...]:
    """What a call came to, by its type."""
    if result.is_ok:
        return (Data(label="result", value=result.value),)
    return (Prose(label="refusal" if result.type == "refused" else "error", text=as_text(result.message)),)


def result_labels(result: ToolResult) -> tuple[Label, ...]:
    """Type and code of a result."""
    code = () if result.code is None else (Label(text=as_text(result.code)),)
    return (label(result.type), *code)


def verdict_section(verdict: Verdict) -> Section:
    """A verdict with its evidence; the rows are told elsewhere."""
    evidence = verdict.evidence
    known = {
        "answer": {True: "matches", False: "does not match"}.get(evidence.answer_matches),  # type: ignore[arg-type]
        "rows changed": evidence.diff.rows_count,
    }
    parts = (("Decision", evidence.decision), ("Signals", evidence.signals), ("Usage", verdict.usage or None))
    return Section(
        title=f"Verdict by {as_text(verdict.judge)}",
        labels=(label(verdict.outcome.value),),
        blocks=(
            Prose(text=as_text(verdict.reasoning)),
            facts(known),
            *(Section(title=n, blocks=(Data(value=v),), is_folded=True) for n, v in parts if v is not None),
        ),
    )


def _outcomes(trajectory: Trajectory) -> tuple[Label, ...]:
    found = dict.fromkeys(v.outcome.value for v in trajectory.verdicts)
    return tuple(label(outcome) for outcome in found) or (Label(text="not judged"),)


def _overview(trajectory: Trajectory, task: str) -> Facts:
    policy = trajectory.policy
    return facts(
        {
            "environment": trajectory.environment_id,
            "task": task,
            "policy": policy_name(policy),
            **{name: getattr(trajectory, name) for name in _ROLLOUT_FACTS},
            "steps": len(trajectory.steps),
            "reward": rounded(latest_reward(trajectory)),
            "revision": trajectory.revision,
        }
    )


def latest_reward(trajectory: Trajectory) -> float | None:
    """Eq. 1 with the paper's numbers over the latest verdict."""
    return hybrid_reward(trajectory, trajectory.verdicts[-1] if trajectory.verdicts else None).total


def policy_name(policy: Any) -> str:
    """How a policy is named in a line: by its model, else its kind."""
    if not isinstance(policy, Mapping):
        return as_text(policy)
    return as_text(policy.get("model") or policy.get("kind") or "")


def _instruction(trajectory: Trajectory, environment: Environment | None) -> Iterator[Section]:
    if environment is None or trajectory.task_id is None:
        return
    try:
        task = environment.task(trajectory.task_id)
    except UnknownNameError:
        return
    yield Section(title="Task", blocks=(Prose(text=task.prompt),))
    if environment.rules.strip():
        yield Section(title="Rules", blocks=(Prose(text=environment.rules.strip()),), is_folded=True)


def _steps(trajectory: Trajectory, changes: RowChanges | None) -> Iterator[Section]:
    by_step = changes.steps if changes is not None else ()
    broken = broken_at_steps(trajectory)
    for position, step in enumerate(trajectory.steps):
        diff = by_step[position] if by_step else StateDiff()
        yield _step(position + 1, step, diff, broken.get(position, []))
    if not trajectory.steps:
        yield Section(title="No call was made")


def _step(number: int, step: Step, diff: StateDiff, broken: list[Violation]) -> Section:
    thought = (Prose(label="thought", text=as_text(step.thought)),) if step.thought else ()
    arguments = (Data(label="arguments", value=step.arguments),) if step.arguments else ()
    rows = (Rows(label="rows changed", diff=diff),) if diff else ()
    return Section(
        title=f"{number}. {as_text(step.tool)}",
        labels=(*result_labels(step.result), *rule_labels(broken)),
        blocks=(*thought, *arguments, *result_blocks(step.result), *rows),
    )


def _answer(trajectory: Trajectory) -> Iterator[Section]:
    if trajectory.answer is not None:
        yield Section(title="Answer", blocks=(Prose(text=as_text(trajectory.answer)),))


def _ending(trajectory: Trajectory, changes: RowChanges | None) -> Iterator[Section]:
    note: tuple[Block, ...] = ()
    if changes is not None:
        whole = changes.whole
        note = (Prose(text=_ONLY_WHOLE),) if whole and not changes.steps else ()
    elif trajectory.verdicts:
        whole = trajectory.verdicts[-1].evidence.diff
    else:
        return
    yield Section(title="What changed in the database", blocks=(Rows(diff=whole), *note))


def _judge_error(error: Mapping[str, Any] | None) -> Iterator[Section]:
    if error is not None:
        title = f"No verdict by {as_text(error.get('judge', 'the judge'))}"
        reason = as_text(error.get("message", ""))
        yield Section(title=title, labels=(Label(text="judge failed", tone="bad"),), blocks=(Prose(text=reason),))


def _usage(trajectory: Trajectory) -> Iterator[Section]:
    """What was used; an error that ended the rollout is told with its ending."""
    found = {_USAGE_NAMES.get(n, as_text(n)): _told(value) for n, value in trajectory.usage.items() if n != "error"}
    if found:
        yield Section(title="Usage", blocks=(facts(found),))


def _told(value: Any) -> Any:
    return ", ".join(map(as_text, value)) if isinstance(value, list) else rounded(value)


def _conversation(trajectory: Trajectory) -> Iterator[Section]:
    """All messages: they show what no step does, what the model was told and what it wrote without a call."""
    blocks = tuple(_messages(trajectory))
    if blocks:
        count = counted(len(blocks), "message")
        yield Section(title="Conversation", labels=(Label(text=count),), blocks=blocks, is_folded=True)
    yield Section(title="Policy and options", blocks=_settings(trajectory), is_folded=True)


def _messages(trajectory: Trajectory) -> Iterator[Section]:
    """The messages, those of the model with their numbers and the rules that they break."""
    turn = 0
    for message in trajectory.messages:
        title = as_text(message.get("role", "message"))
        broken: tuple[Label, ...] = ()
        if title == "assistant":
            title, broken = f"assistant, message {turn + 1}", rule_labels(broken_at_message(trajectory, turn))
            turn += 1
        yield Section(title=title, labels=broken, blocks=tuple(message_blocks(message)))


def _settings(trajectory: Trajectory) -> tuple[Block, ...]:
    parts = (("policy", trajectory.policy), ("options", trajectory.options))
    return tuple(Data(label=name, value=value) for name, value in parts if value)
