"""Whether a run may be gone on with: by the same plan and the same policy, from wherever these are found.

Paths, revisions and hosts may differ, since directories and servers move. Plan, policy and the judge's name may not; a
judge's own settings and the limits of calls are not compared. What
differs is named piece by piece, because two descriptions side by side tell nobody which word of them it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.errors import UsageError
from awm_hub.rollouts.plans import Plan

_PLACES = ("source", "revision", "host")
_MOST_NAMED, _MOST_CHARS = 4, 100
_ABSENT = object()


def check_same(
    directory: object, plan: Plan, policy: Mapping[str, Any], *, before: tuple[Plan, Mapping[str, Any]]
) -> None:
    """See that a run is gone on with as it was begun.

    Args:
        directory: Where the run is.
        plan: What it is to do now.
        policy: Description of the policy that is to do it.
        before: Plan and policy with which it was begun.

    Raises:
        UsageError: something differs.
    """
    pairs = (("plan", _told(before[0]), _told(plan)), ("policy", before[1], policy))
    for what, was, now in pairs:
        found = list(_differences(_flat(was), _flat(now)))
        if found:
            more = f", and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            message = f"{directory} holds a run with another {what} ({', '.join(found[:_MOST_NAMED])}{more})"
            raise UsageError(message, next_step="repeat the command that began it, or name another folder with -o")


def _told(plan: Plan) -> dict[str, Any]:
    """A plan by names: environments by their versions, and tasks that are to be attempted."""
    versions = {e.id: {"version": e.content_hash[:12]} for e in plan.environments}
    tasks = {f"{e.id}/{task}": "planned" for e in plan.environments for task in e.tasks}
    return {**plan.to_dict(), "environments": versions, "tasks": tasks}


def _flat(found: Mapping[str, Any], head: str = "") -> dict[str, Any]:
    """Values by their dotted names, but for places."""
    flat: dict[str, Any] = {}
    for name, value in found.items():
        if name in _PLACES and not head:
            continue
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{head}{name}.")
        else:
            flat[f"{head}{name}"] = value
    return flat


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in {**now, **was}:
        if to_json(was.get(name)) != to_json(now.get(name)):
            yield f"{name}: {_shown(was.get(name, _ABSENT))} there, {_shown(now.get(name, _ABSENT))} now"


def _shown(value: Any) -> str:
    if value is _ABSENT or value in (None, {}, []):
        return "not set"
    text = value if isinstance(value, str) else to_json(value)
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"
