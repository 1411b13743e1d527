"""One attempt: a policy works on a live instance until it answers, breaks a rule, or something ends it.

The loop is short. The policy sees a `View` and chooses an action; the format rules look at the message; its calls are
made one after the other, and the rules look at each result; what happened joins the view. A strict policy's rollout
ends at the first broken rule (paper §4, early termination); a lenient one's goes on, and the rule is recorded.

A bad rollout is data and never a crash: whatever the policy writes, and whatever becomes of endpoint and environment,
the attempt gives a trajectory whose termination says what happened.
"""

import time
from dataclasses import dataclass, field, replace
from typing import Any

from awm_hub.environment import Environment, Task
from awm_hub.errors import ContextFullError, RemoteError, SandboxError, UsageError
from awm_hub.inference import Usage
from awm_hub.policy import rules
from awm_hub.policy.acting import Action, Call, Policy, Turn, View, Violation
from awm_hub.rollouts import recording
from awm_hub.rollouts.policies import check_policy, chosen_action, described_error
from awm_hub.runtime import jobs, pages
from awm_hub.runtime.instance import Instance
from awm_hub.trajectory import Step, ToolResult, Trajectory

MAX_TURNS = 20
"""Assistant messages of a rollout at most (paper §5, hyper-parameters)."""


@dataclass(kw_only=True)
class _Course:
    """A rollout under way."""

    instance: Instance
    policy: Policy
    view: View
    first_step: int
    """Steps that the instance had before."""
    termination: str | None = None
    violations: list[Violation] = field(default_factory=list)
    error: Exception | None = None
    replaced: list[str] = field(default_factory=list)
    """Which texts held characters that had to be replaced."""


async def attempt(instance: Instance, policy: Policy, *, max_turns: int = MAX_TURNS) -> Trajectory:
    """Let a policy attempt the task of an instance; the record of it, not judged.

    Args:
        instance: A fresh instance, launched with a task. It is left as the attempt left it.
        policy: What chooses the actions.
        max_turns: Assistant messages at most; then the rollout ends with `max_turns`.

    Raises:
        UsageError: the instance has no task, its episode is over, or the policy is none.
    """
    check_policy(policy)
    return (await attempt_of(instance, policy, max_turns=max_turns))[0]


async def attempt_of(instance: Instance, policy: Policy, *, max_turns: int) -> tuple[Trajectory, Exception | None]:
    """The same for a policy that is known to be one, and the error that ended the attempt."""
    task = _task_of(instance)
    if max_turns < 1:
        raise UsageError(f"max_turns is {max_turns}", next_step="allow one turn at least")
    started = time.perf_counter()
    view = first_view(instance.environment, task, instance.seed)
    course = _Course(instance=instance, policy=policy, view=view, first_step=len(instance.steps))
    while course.termination is None:
        await _take_turn(course)
        is_out_of_turns = course.termination is None and len(course.view.turns) >= max_turns
        if is_out_of_turns and not _is_stopped_by(rules.check_ending(course.view), course):
            course.termination = "max_turns"
    return await _record(course, time.perf_counter() - started), course.error


def first_view(environment: Environment, task: Task, seed: int) -> View:
    """What an agent knows before its first action: never a verifier, a solution or the database."""
    return View(
        environment_id=environment.id,
        task_id=task.id,
        briefing=environment.briefing,
        prompt=task.prompt,
        tools=environment.tools,
        seed=seed,
    )


async def unlaunched(
    environment: Environment, task: Task, policy: Policy, *, seed: int, tier: str, error: SandboxError
) -> Trajectory:
    """The record of an attempt whose environment could not even be launched."""
    record = await _blank(environment, task, seed, tier=tier)
    usage = {"turns": 0, "error": described_error(error)}
    return replace(record, termination="environment_fault", policy=recording.plain(policy.describe()), usage=usage)


def _task_of(instance: Instance) -> Task:
    instance.check_running()
    if instance.task is None:
        raise UsageError("an attempt needs a task", next_step="launch the environment with task=…")
    return instance.task


async def _take_turn(course: _Course) -> None:
    """One action with everything that comes of it."""
    action = await _chosen(course)
    if action is None:
        return
    broken = rules.check_message(action, course.view, uses_meta_tools=course.policy.uses_meta_tools)
    results: tuple[ToolResult, ...] = ()
    if not _is_stopped_by(broken, course):
        results = await _call_all(action, course)
    turns = (*course.view.turns, Turn(action=action, results=results))
    course.view = replace(course.view, turns=turns)
    if course.termination is None and _is_last(action):
        await _finish(action, course)


def _is_last(action: Action) -> bool:
    """Whether a message ends the episode. One that is nothing but a broken call does not, where rules are lenient."""
    is_empty = not action.calls and not action.lists_tools
    return is_empty and (action.answer is not None or not action.violations)


async def _chosen(course: _Course) -> Action | None:
    """The policy's action; None where it could not act, which ends the rollout."""
    try:
        return await chosen_action(course.policy, course.view)
    except ContextFullError as error:
        course.termination, course.error = "context_full", error
    except RemoteError as error:
        course.termination, course.error = "endpoint_error", error
    except Exception as error:  # the rollout boundary: a policy is anybody's code
        course.termination, course.error = "stopped", error
    return None


async def _call_all(action: Action, course: _Course) -> tuple[ToolResult, ...]:
    """Make the calls of a message, up to one that ends the rollout; their results."""
    results: list[ToolResult] = []
    for position, call in enumerate(action.calls):
        result = await _call(call, action.thought if position == 0 else None, course)
        results.append(result)
        if course.termination or _is_stopped_by(rules.check_result(call, result, course.view), course):
            break
    return tuple(results)


async def _call(call: Call, thought: str | None, course: _Course) -> ToolResult:
    thought = None if thought is None else recording.text(thought)
    try:
        return await course.instance.call_tool(recording.text(call.tool), call.arguments, thought=thought)
    except SandboxError as error:  # it was beyond repair
        course.termination, course.error = "environment_fault", error
        return ToolResult(type="fault", code="worker_died", message=error.message)


def _is_stopped_by(broken: tuple[Violation, ...], course: _Course) -> bool:
    """Record broken rules; whether they end the rollout."""
    course.violations += broken
    if broken and course.policy.is_strict:
        is_fault = any(v.rule == rules.SERVER_ERROR for v in broken)
        course.termination = "environment_fault" if is_fault else "format_error"
    return course.termination is not None


async def _finish(action: Action, course: _Course) -> None:
    """Submit the answer; rule 5 looks at the rollout as a whole."""
    answer = action.answer
    if answer is not None and recording.text(answer) != answer:
        course.replaced.append("answer")
    await course.instance.submit(None if answer is None else recording.text(answer))
    if not _is_stopped_by(rules.check_ending(course.view), course):
        course.termination = "answered"


async def _record(course: _Course, seconds: float) -> Trajectory:
    """The trajectory, with what only the loop knows."""
    found = await _episode(course)
    messages = recording.plain(course.policy.transcript(course.view))
    usage = _usage(course.view.turns, seconds)
    if course.error is not None:
        usage["error"] = described_error(course.error, course.policy)
    if course.replaced:
        usage["replaced_characters"] = course.replaced
    return replace(
        found,
        policy=recording.plain(course.policy.describe()),
        steps=_told_steps(found.steps, course),
        termination=course.termination or "stopped",
        messages=tuple(messages),
        violations=tuple(recording.plain(v.to_dict()) for v in course.violations),
        usage=usage,
    )


async def _episode(course: _Course) -> Trajectory:
    """The instance's own record, or what is left of it where its process cannot be had back."""
    instance = course.instance
    try:
        return await instance.trajectory()
    except SandboxError as error:
        course.termination, course.error = "environment_fault", course.error or error
        record = await _blank(instance.environment, _named_task(instance), instance.seed, tier=instance.tier)
        return replace(record, steps=instance.steps, answer=instance.answer, revision=instance.revision)


def _named_task(instance: Instance) -> Task:
    assert instance.task is not None, "attempt() has checked it"
    return instance.task


async def _blank(environment: Environment, task: Task, seed: int, *, tier: str) -> Trajectory:
    """A trajectory in which nothing happened."""
    image = environment.database
    try:
        trusted = tier == "process"
        image = await jobs.prepare_image(image, task.setup, environment.clock, trust_remote_code=trusted)
    except SandboxError:
        pass  # the setup is what fails: the bare image is the state there is
    return Trajectory(
        environment_id=environment.id,
        environment_hash=environment.content_hash,
        task_id=task.id,
        seed=seed,
        tier=tier,
        clock=environment.clock.isoformat(),
        steps=(),
        database_delta=pages.delta(image, image),
        environment=environment,
    )


def _told_steps(steps: tuple[Step, ...], course: _Course) -> tuple[Step, ...]:
    """Steps that can be stored, the first of each turn with the turn's completion tokens."""
    firsts, position = {}, course.first_step
    for turn in course.view.turns:
        if turn.results:
            firsts[position] = turn.action.usage.completion_tokens
        position += len(turn.results)
    return tuple(
        replace(step, arguments=recording.arguments(step.arguments), tokens=firsts.get(i))
        for i, step in enumerate(steps)
    )


def _usage(turns: tuple[Turn, ...], seconds: float) -> dict[str, Any]:
    """Tokens, cost and time of a rollout; null where no action knew."""
    spent = sum((turn.action.usage for turn in turns), Usage()).to_dict()
    return {"turns": len(turns), "policy_seconds": spent.pop("seconds"), **spent, "seconds": seconds}
