"""The arbiter: where an attempt and its verifier do not agree, a model says which of them is wrong, or what else is.

It sees the task, the verifier and the calls side by side, which neither the solver nor the author of the verifier did.
What cannot be read counts as the solver's fault, so that another attempt is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.environment import Environment, Task
from awm_hub.inference.replies import Reply
from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import AnswerError
from awm_hub.synthesis.prompting import fill
from awm_hub.trajectory import StateDiff, Trajectory

AT_FAULT = ("solution", "verification", "task", "code", "toolset", "sample_data")
"""Stages that an arbiter may blame."""
_MOST_CALLS, _MOST_RESULT, _MOST_CHANGES, _MOST_CODE, _MOST_ANSWER = 60, 600, 4_000, 8_000, 1_500
UNREADABLE = "the attempt and the verifier do not agree, and nobody said why"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What an arbiter says."""

    at_fault: str
    """Of `AT_FAULT`."""
    reason: str
    tool: str = ""
    """The tool at fault, where it names one that exists."""


def question(
    draft: Draft, task: Task, trajectory: Trajectory, changes: StateDiff | None, objections: Sequence[str]
) -> list[dict[str, Any]]:
    """The messages that ask an arbiter."""
    slug = task.slug
    facts = draft.facts.get(slug, {})
    sql = facts.get("answer_sql")
    text = fill(
        "arbiter",
        task=f"{task.prompt}\n(Kind: {task.kind}.)",
        rules=str(draft.scenario.get("rules") or "None."),
        success=str(facts.get("success", "")),
        failure=str(facts.get("failure", "")),
        answer_sql=products.fenced("sql", f"-- gives the right answer on the final database\n{sql}") if sql else "",
        verifier=products.fenced("python", _cut(_functions(draft, slug), _MOST_CODE)),
        calls=_calls(trajectory),
        ending=trajectory.termination,
        answer="none" if trajectory.answer is None else products.fenced("", _cut(trajectory.answer, _MOST_ANSWER)),
        changes=_changes(changes),
        objections="\n".join(f"- {objection}" for objection in objections),
    )
    return [{"role": "user", "content": text}]


def decision_of(reply: Reply, environment: Environment) -> Decision:
    """What an answer says; the solver's fault where it cannot be read."""
    try:
        found = products.read_object(reply.content or "")
    except AnswerError:
        found = {}
    at_fault, reason, tool = found.get("at_fault"), found.get("reason"), found.get("tool")
    if at_fault not in AT_FAULT:
        return Decision(at_fault="solution", reason=UNREADABLE)
    is_tool = at_fault in ("code", "toolset") and any(tool == t.name for t in environment.tools)
    return Decision(
        at_fault=str(at_fault),
        reason=_cut(str(reason).strip() if reason else UNREADABLE, _MOST_ANSWER),
        tool=str(tool) if is_tool else "",
    )


def _functions(draft: Draft, slug: str) -> str:
    """The task's function, with the helpers that its module has."""
    parts = draft.parts("verification")
    own = {n: text for n, text in parts.items() if ":" not in n and (not n.startswith("signals_"))}
    return products.write_python({**own, "": parts.get(f"signals_{slug}", "")})


def _calls(trajectory: Trajectory) -> str:
    told = []
    for number, step in enumerate(trajectory.steps[:_MOST_CALLS], 1):
        arguments = _cut(to_json(step.arguments), _MOST_RESULT)
        told.append(f"{number}. {step.tool}({arguments})\n   → {_cut(step.result.text(), _MOST_RESULT)}")
    rest = len(trajectory.steps) - _MOST_CALLS
    return "\n".join(told + ([f"… and {rest} further calls"] if rest > 0 else [])) or "No calls."


def _changes(changes: StateDiff | None) -> str:
    if changes is None:
        return "Unknown."
    found: Mapping[str, Any] = changes.to_dict()
    return (
        products.fenced("json", _cut(to_json(found), _MOST_CHANGES))
        if found
        else "No row is added, removed or changed."
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} further characters]"
