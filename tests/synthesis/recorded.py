"""A store as a run leaves it, written by hand: what was asked, answered, found and decided."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.store import Store, wording_of

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.5}


def problem(stage: str, rule: str, subject: str = "", message: str = "it is wrong", **more: Any) -> Problem:
    return Problem(stage=stage, rule=rule, subject=subject, message=message, **more)


class Recording:
    """Writes a run into a store, in order."""

    def __init__(self, store: Store, *, model: str = "m") -> None:
        self.store, self.model = store, model

    def ask(
        self,
        key: str,
        text: str | None = "done",
        *,
        calls: Sequence[str] = (),
        usage: Mapping[str, Any] | None = USAGE,
        source: str = "live",
        earlier: bool = False,
        is_open: bool = False,
    ) -> None:
        """A request and its answer; one to an `earlier` wording says so."""
        environment, stage = key.split("/")[:2]
        if environment == "scenarios":
            environment, stage = "", "scenario"
        body = {"model": self.model, "messages": [{"role": "user", "content": "Write."}]}
        self.store.add_request(key, body, environment=environment, stage=stage)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            functions = [{"name": name, "arguments": "{}"} for name in calls]
            message["tool_calls"] = [{"id": "c", "type": "function", "function": f} for f in functions]
        if not is_open:
            sha256 = "0" * 64 if earlier else wording_of(body)
            told = {"finish_reason": "stop", "model": self.model, "usage": usage, "source": source, "sha256": sha256}
            self.store.add_answer(key, message=message, **told)

    def attempt(
        self,
        key: str,
        text: str = "done",
        *,
        found_by: str = "",
        because: Sequence[Problem] = (),
        unreadable: str | None = None,
        **more: Any,
    ) -> None:
        """A request for a product, its answer, and what the loop records of both."""
        self.ask(key, text, **more)
        environment, stage, number = key.split("/")
        self.store.add_attempt(
            key,
            environment=environment,
            stage=stage,
            number=int(number),
            found_by=found_by or stage,
            because=[p.to_dict() for p in because],
            unreadable=unreadable,
        )

    def gate(self, environment: str, gate: str, *found: Problem) -> None:
        """What a gate finds in products that it has not seen before."""
        key = f"{environment}:{gate}:{len(self.store.keys('verdict'))}"
        self.store.add_verdict(key, gate=gate, environment=environment, problems=[p.to_dict() for p in found])

    def solve(self, prefix: str, *turns: Sequence[str], blames: str = "", reason: str = "", **more: Any) -> None:
        """An attempt at a task: turns with calls, an answer, and the arbiter where there is somebody to blame."""
        for number, calls in enumerate(turns, 1):
            self.ask(f"{prefix}/{number}", None, calls=calls, **more)
        self.ask(f"{prefix}/{len(turns) + 1}", "done", **more)
        if blames:
            self.ask(f"{prefix}/arbiter", json.dumps({"at_fault": blames, "reason": reason}), **more)

    def end(self, environment: str, *left: Problem, accepted: bool) -> None:
        """What became of an environment."""
        found = [p.to_dict() for p in left]
        self.store.add_outcome(
            environment, accepted=accepted, problems=found, content_hash="1" * 64 if accepted else None
        )

    def write(self, environment: str, *stages: str) -> None:
        """Stages whose products are right at the first attempt."""
        for stage in stages:
            self.attempt(f"{environment}/{stage}/1")
            self.gate(environment, stage)
