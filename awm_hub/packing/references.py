"""References from a step of a solution to the results of earlier steps.

In `tasks.toml` an argument that is exactly `$N`, followed by `.key` or `[i]` parts, stands for that part of the result
of step N, counted from 1: `"$2[0].id"` is the `id` of the first item that step 2 returned. Packing runs the solution
and stores what the references stood for, so the record holds literals only.
"""

import re
from collections.abc import Sequence
from typing import Any

_REFERENCE = re.compile(r"\$([1-9][0-9]*)((?:\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])*)")
_INTENDED = re.compile(r"\$[0-9]+(?:\[.*|\.(?![0-9]).*)?", re.DOTALL)
"""What is taken for a reference, rightly written or not; `$1.50` is a price."""
SYNTAX = (
    'a reference is "$N" with parts .key and [i]: "$2[0].id", N counted from step 1 and i from 0; '
    "a text that begins like this goes into a solution written as JSON text"
)
_PART = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]")


class PartError(ValueError):
    """The part that a reference names does not exist."""


def is_reference(value: Any) -> bool:
    """Whether a value is a text that has the form of a reference."""
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def holds_reference(value: Any) -> bool:
    """Whether a reference, or a text that is taken for one, stands anywhere in a value."""
    if isinstance(value, dict | list):
        return any(holds_reference(v) for v in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and _INTENDED.fullmatch(value) is not None


def misspelt(value: Any) -> str | None:
    """The first text in a value that begins like a reference and is none."""
    if isinstance(value, dict | list):
        parts = (misspelt(v) for v in (value.values() if isinstance(value, dict) else value))
        return next((part for part in parts if part is not None), None)
    is_meant = isinstance(value, str) and _INTENDED.fullmatch(value) is not None and not is_reference(value)
    return value if is_meant else None


def resolve(value: Any, results: Sequence[Any]) -> Any:
    """The value with every reference replaced by the part of the results that it names.

    Raises:
        PartError: a step or a part does not exist.
    """
    if isinstance(value, dict):
        return {key: resolve(v, results) for key, v in value.items()}
    if isinstance(value, list):
        return [resolve(v, results) for v in value]
    return _part(value, results) if is_reference(value) else value


def _part(reference: str, results: Sequence[Any]) -> Any:
    found = _REFERENCE.fullmatch(reference)
    assert found is not None
    number = int(found[1])
    if number > len(results):
        raise PartError(f"{reference} refers to step {number}, which has not run yet")
    value = results[number - 1]
    for key, index in _PART.findall(found[2]):
        if key and isinstance(value, dict) and key in value:
            value = value[key]
        elif index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            raise PartError(f"{reference}: step {number} returned nothing at {f'.{key}' if key else f'[{index}]'}")
    return value
