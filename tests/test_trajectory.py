"""Stored trajectories are untrusted: what is none is an error of the library, never another one."""

import json
from typing import Any

import pytest

from awm_hub import trajectory as reading
from awm_hub.errors import LimitError, RecordError


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'"x"', b"\xff", b'{"a": 1, "a": 2}', b"null"])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        reading.decoded(data, "it")


def test_what_is_nested_too_deeply_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(LimitError, match="deeper"):
        reading.decoded(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "it")


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"steps": 3},
        {"steps": [1]},
        {"steps": [], "verdicts": [{"outcome": "GOOD"}]},
        {"steps": [{"tool": "t"}]},
        {"steps": [], "environment_id": "e"},
        {"steps": [], "messages": 3},
    ],
)
def test_what_is_no_trajectory_is_refused(found: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="no trajectory"):
        reading.trajectory_from(json.loads(json.dumps(found)), "it")
