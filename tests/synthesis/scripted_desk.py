"""A desk whose answers are written in a test: by position, and nothing is waited for but what is missing."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from awm_hub.inference import Reply, Sampling
from awm_hub.inference.replies import ToolCallText
from awm_hub.synthesis.asking import Desk, Waiting

Answer = str | Mapping[str, Any] | Sequence[tuple[str, Mapping[str, Any]]]
"""A final text, a JSON object, or calls: pairs of tool and arguments."""


class ScriptedDesk:
    """Answers from a script; raises `Waiting` for what is not in it."""

    endpoint = None
    model = "scripted"
    sampling = Sampling()

    def __init__(self, script: Mapping[str, Answer]) -> None:
        self.script = dict(script)
        self.asked: dict[str, list[Mapping[str, Any]]] = {}

    async def ask(self, key: str, messages: Sequence[Mapping[str, Any]], **told: Any) -> Reply:
        """The answer to a position."""
        self.asked[key] = list(messages)
        if key not in self.script:
            raise Waiting(key)
        answer = self.script[key]
        if isinstance(answer, str):
            return Reply(content=answer, finish_reason="stop")
        if isinstance(answer, Mapping):
            return Reply(content=json.dumps(answer), finish_reason="stop")
        calls = [
            ToolCallText(id=f"call_{at}", name=tool, arguments=json.dumps(arguments))
            for at, (tool, arguments) in enumerate(answer)
        ]
        return Reply(tool_calls=tuple(calls), finish_reason="tool_calls")

    @property
    def desk(self) -> Desk:
        """Itself, for what takes a desk."""
        return cast(Desk, self)


def conversation(prefix: str, *answers: Answer) -> dict[str, Answer]:
    """The turns of one attempt, by position."""
    return {f"{prefix}/{turn}": answer for turn, answer in enumerate(answers, 1)}
