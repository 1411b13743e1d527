"""Reading trajectories that somebody stored: untrusted JSON within limits."""

import json
from collections.abc import Mapping
from typing import Any

from awm_hub.canonical import MAX_JSON_DEPTH, depth, unique_pairs
from awm_hub.errors import LimitError, RecordError
from awm_hub.trajectory import Trajectory

MAX_TRAJECTORY_BYTES = 256 * 2**20
"""The largest database image, zlib's worst case and base64 in a delta, with room for the steps."""
_MAX_DEPTH = MAX_JSON_DEPTH + 8
"""A result may be nested as deeply as a record allows; a trajectory's fields lie around it."""


def decoded(data: bytes | str, what: str) -> dict[str, Any]:
    """The JSON object of an untrusted text.

    Raises:
        LimitError: it is too long or nested too deeply.
        RecordError: it is no JSON object.
    """
    if len(data) > MAX_TRAJECTORY_BYTES:
        raise LimitError(f"{what} is longer than {MAX_TRAJECTORY_BYTES} bytes")
    try:
        text = data if isinstance(data, str) else data.decode()
        if depth(text) > _MAX_DEPTH:
            raise LimitError(f"{what} is nested deeper than {_MAX_DEPTH}")
        found = _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{what} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise RecordError(f"{what} is no JSON object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=unique_pairs)


def trajectory_from(found: Mapping[str, Any], what: str) -> Trajectory:
    """A trajectory from its untrusted JSON form.

    Raises:
        RecordError: it is no trajectory.
    """
    try:
        return Trajectory.from_dict(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{what} is no trajectory: {type(error).__name__} {error}") from error
