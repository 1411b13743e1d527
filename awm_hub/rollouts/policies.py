"""Policies are anybody's code: whether something is one, and where in its code it failed.

What is wrong with a policy as a whole is said before anything runs. What goes wrong as it acts ends that one attempt,
since a policy may fail at one task of a thousand; the attempt's record names the line.
"""

import inspect
import traceback
from pathlib import Path
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.errors import AwmHubError, RecordError, UsageError
from awm_hub.policy.acting import Action, Policy, View
from awm_hub.rollouts import recording

_METHODS = ("describe", "act", "transcript")
_FLAGS = ("is_strict", "uses_meta_tools")


def check_policy(policy: Any) -> None:
    """See that something has what a policy has.

    Raises:
        UsageError: something is missing, it is a class, or its description is no JSON.
    """
    step = "see \u201cPolicies\u201d in docs/rollouts.md"
    if isinstance(policy, type):
        name = policy.__name__
        raise UsageError(f"{name} is a class, and a policy is an object", next_step=f"make one: {name}()")
    kind = type(policy).__name__
    missing = [f"{name}()" for name in _METHODS if not callable(getattr(policy, name, None))]
    missing += [name for name in _FLAGS if not hasattr(policy, name)]
    if missing:
        raise UsageError(f"the policy {kind} has no {' and no '.join(missing)}", next_step=step)
    described = policy.describe()
    if not isinstance(described, dict):
        raise UsageError(f"{kind}.describe() gives a {type(described).__name__} and no dict", next_step=step)
    try:
        to_json(described)
    except RecordError as error:
        message = f"{kind}.describe() gives something that is no JSON: {error.__cause__ or error.message}"
        raise UsageError(message, next_step="give texts, numbers, lists and dicts") from error


async def chosen_action(policy: Policy, view: View) -> Action:
    """What a policy does next.

    Raises:
        UsageError: it gives no action.
        Exception: whatever it raises.
    """
    choosing: Any = policy.act(view)
    if not inspect.isawaitable(choosing):
        message = f"{type(policy).__name__}.act is no coroutine function"
        raise UsageError(message, next_step="write `async def act(self, view)`")
    action = await choosing
    if not isinstance(action, Action):
        raise UsageError(f"the policy gave a {type(action).__name__} and no Action")
    return action


def described_error(error: Exception, policy: Policy | None = None) -> dict[str, str]:
    """An error as it is recorded: its type and message, what to do about it, and the line of the policy's file."""
    message = error.message if isinstance(error, AwmHubError) else str(error)
    step = error.next_step if isinstance(error, AwmHubError) else ""
    where = None if policy is None else _line(error, policy)
    told = {"type": type(error).__name__, "message": recording.text(message)}
    return told | ({"next": recording.text(step)} if step else {}) | ({"where": where} if where else {})


def _line(error: Exception, policy: Policy) -> str | None:
    """The innermost line of the policy's own file, `file.py:12`; None where the error came from nowhere near it."""
    own = getattr(getattr(type(policy).act, "__code__", None), "co_filename", None)
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    return f"{Path(lines[-1].filename).name}:{lines[-1].lineno}" if lines else None
