"""Choosing environments by what the index and the audit say of them.

A filter is keyword arguments, the same for `load` and for `Environments.where`; what is not named is not filtered by.
`quality` names results of the audit and what they have to be. An environment that was not audited in its present
content, or whose check was not made, does not pass: nothing is known of it.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, TypedDict

from awm_hub import schema
from awm_hub.environment import Quality, TaskQuality
from awm_hub.errors import UsageError

if TYPE_CHECKING:
    from awm_hub.hub.environments import IndexEntry

TASK_CHECKS = ("noop_rejected", "seed_unsatisfied", "solution_passes")
"""Checks that are made per task; all of an environment's tasks have to pass."""
_NO_RESULTS = ("tasks", "tools_tried", "audited_hash", "audited_by", "audited_at")
CHECKS = (*(f.name for f in fields(Quality) if f.name not in _NO_RESULTS), *TASK_CHECKS)
"""What `quality` may name."""


class Filters(TypedDict, total=False):
    """What environments can be chosen by."""

    ids: Collection[str]
    """Only these; an id that is not there is not missed."""
    split: str | None
    category: str | Collection[str] | None
    """One of the environment's categories is this, or among these."""
    interface: str | None
    usage: str | None
    min_tools: int | None
    max_tools: int | None
    min_tables: int | None
    max_tables: int | None
    quality: Mapping[str, bool | int] | None
    """Name of a check → what it gave, if it is a yes or no, or how much it may count at most. Empty: audited at all."""


_CHOICES = {"split": schema.SPLITS, "interface": schema.INTERFACES, "usage": schema.USAGES}


def check_filters(filters: Filters) -> None:
    """Refuse what can choose nothing.

    Raises:
        UsageError: there is no such filter, split, interface, usage or check, or a check is compared with another kind.
    """
    for name, value in filters.items():
        if name not in Filters.__annotations__:
            raise UsageError(f"there is no filter {name!r}", next_step=f"one of {', '.join(Filters.__annotations__)}")
        if name in _CHOICES and value not in (None, *_CHOICES[name]):
            raise UsageError(f"there is no {name} {value!r}", next_step=f"one of {', '.join(_CHOICES[name])}")
    for name, wanted in (filters.get("quality") or {}).items():
        if name not in CHECKS:
            raise UsageError(f"the audit has no check {name!r}", next_step=f"one of {', '.join(CHECKS)}")
        if isinstance(wanted, bool) != (name in _YES_OR_NO):
            kind = "true or false" if name in _YES_OR_NO else "a number, how much there may be at most"
            raise UsageError(f"{name} is {kind}, not {wanted!r}", next_step="mend the filter")


_YES_OR_NO = ("hidden_state", "deterministic", *TASK_CHECKS)


def fits(entry: "IndexEntry", filters: Filters) -> bool:
    """Whether an environment passes by its index entry alone; `quality` is left out."""
    category = filters.get("category")
    categories = {category} if isinstance(category, str) else set(category or entry.categories)
    ids = filters.get("ids")
    return (
        (ids is None or entry.id in ids)
        and all(filters.get(name) in (None, getattr(entry, name)) for name in _CHOICES)
        and (category is None or not categories.isdisjoint(entry.categories))
        and _is_between(entry.tools_count, filters.get("min_tools"), filters.get("max_tools"))
        and _is_between(entry.tables_count, filters.get("min_tables"), filters.get("max_tables"))
    )


def _is_between(count: int, low: int | None, high: int | None) -> bool:
    return (low is None or count >= low) and (high is None or count <= high)


def passes(quality: Quality | None, wanted: Mapping[str, bool | int]) -> bool:
    """Whether audit results are what they have to be."""
    return quality is not None and all(_holds(quality, name, value) for name, value in wanted.items())


def _holds(quality: Quality, name: str, wanted: bool | int) -> bool:
    if name in TASK_CHECKS:
        return bool(quality.tasks) and all(task_holds(task, name, wanted) for task in quality.tasks)
    found = getattr(quality, name)
    if isinstance(wanted, bool):
        return found is wanted
    count = len(found) if isinstance(found, tuple) else found
    return count is not None and count <= wanted


def task_holds(task: TaskQuality, name: str, wanted: bool | int) -> bool:
    """Whether one task's check gave what it has to."""
    return getattr(task, name) is wanted
