"""What went wrong with a request, told apart by status, headers and, for a full context, words."""

import datetime as dt
import email.utils

import pytest

from awm_hub.errors import ContextFullError
from awm_hub.inference.faults import failure_of, retry_after_s

FULL = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    "The decoder prompt (length 5000) is longer than the maximum model length of 2048.",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`",
    "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "Please reduce the length of the messages or completion.",
    '{"code": "context_length_exceeded"}',
]
OTHER = ["unknown field `foo`", "tool_choice is not supported", "Input should be a valid list", "length must be 3"]


@pytest.mark.parametrize("said", FULL)
def test_a_full_context_is_known_by_the_words_of_common_servers(said: str) -> None:
    failure = failure_of(ValueError(said), "m at h")
    assert (type(failure.error), failure.is_passing) == (ContextFullError, False)


@pytest.mark.parametrize("said", OTHER)
def test_other_complaints_are_no_full_context(said: str) -> None:
    assert not isinstance(failure_of(ValueError(said), "m at h").error, ContextFullError)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "-7"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "soon"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers) == expected


def test_a_date_to_come_is_as_far_away_as_it_is() -> None:
    in_a_minute = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=60)
    found = retry_after_s({"retry-after": email.utils.format_datetime(in_a_minute, usegmt=True)})
    assert found is not None
    assert 50 < found <= 60
