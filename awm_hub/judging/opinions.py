"""What a model says about an attempt, read strictly: one JSON object in the form asked for, or nothing.

The object may be fenced and may follow thoughts or prose, and the names of outcomes may be written as the paper writes
them. Everything else is a `ValueError` whose words tell the model what to mend.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from awm_hub.canonical import to_json
from awm_hub.errors import RecordError
from awm_hub.inference import Reply
from awm_hub.judging.answers import NoAnswer, given_answer
from awm_hub.judging.instructions import REPLY_SCHEMA
from awm_hub.trajectory import Outcome


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """One vote of a model."""

    outcome: Outcome
    reasoning: str
    confidences: dict[str, float]
    """From 0 to 1, by outcome; a model's own numbers, not calibrated."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "outcome": str(self.outcome)}

    @classmethod
    def from_dict(cls, found: Any) -> Self:
        """From the JSON form.

        Raises:
            ValueError: it breaks the form.
        """
        problem = next((error.message for error in _validator().iter_errors(found)), None)
        if problem is not None:
            raise ValueError(problem[:300])
        try:
            to_json(found)
        except RecordError as error:
            raise ValueError("it holds half of a surrogate pair, which no text may hold") from error
        return cls(
            outcome=Outcome(found["outcome"]), reasoning=found["reasoning"], confidences=dict(found["confidences"])
        )


def opinion_of(reply: Reply) -> Opinion:
    """Read a reply.

    Raises:
        ValueError: it holds no opinion; the message says what is wrong.
    """
    if reply.finish_reason == "length":
        raise ValueError("the reply was cut off at its greatest length")
    found = given_answer(reply.content, {})
    if isinstance(found, NoAnswer):
        raise ValueError(found.reason)
    return Opinion.from_dict(_with_plain_names(found))


def _with_plain_names(found: Mapping[str, Any]) -> dict[str, Any]:
    """`Partially Completed` is PARTIALLY_COMPLETED, among the confidences too."""
    confidences = found.get("confidences")
    if isinstance(confidences, Mapping):
        found = {**found, "confidences": {_plain_name(name): value for name, value in confidences.items()}}
    return {**found, "outcome": _plain_name(found.get("outcome"))}


def _plain_name(name: Any) -> Any:
    return re.sub(r"[ _-]+", "_", name.strip()).upper() if isinstance(name, str) else name


@functools.cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(REPLY_SCHEMA)
