"""The paper's code-augmented judge (arXiv 2602.10090 §4): a model decides, code brings the evidence.

The model reads the task, the success and failure criteria, the episode and what code found in the database, and
answers with an outcome. Code has the last word where it knows: an outcome that the evidence rules out (COMPLETED with
an unchanged database where a change was asked for, or with a wrong answer; ENVIRONMENT_ERROR without a fault) is
replaced by what the code says. So wherever code can decide, no text planted in an episode makes it COMPLETED.

Several votes are counted; the most frequent outcome wins, the less favourable of two that are equally frequent.
"""

import asyncio
import os
import re
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub.canonical import sha256_of
from awm_hub.environment import Environment
from awm_hub.errors import ContextFullError, JudgeError, RecordError, RemoteError, UsageError
from awm_hub.inference import Endpoint, Reply, Usage
from awm_hub.judging import instructions
from awm_hub.judging.deciding import Examination, examine
from awm_hub.judging.keeping import KeptOpinions
from awm_hub.judging.material import Parts, parts_of, written
from awm_hub.judging.opinions import Opinion, opinion_of
from awm_hub.trajectory import Outcome, Trajectory, Verdict

_SEVERITY = (Outcome.AGENT_ERROR, Outcome.ENVIRONMENT_ERROR, Outcome.PARTIALLY_COMPLETED, Outcome.COMPLETED)
_UNSUPPORTED = re.compile(r"answered (400|404|415|422|501)\b")
"""Answers of servers that know no response format; a context that is full has an error of its own."""


@dataclass(frozen=True, kw_only=True)
class _Vote:
    """One opinion, what it cost, and what the evidence made of it."""

    opinion: Opinion
    outcome: Outcome
    usage: Usage
    is_kept: bool
    """It was formed before, on the same content."""

    def to_dict(self) -> dict[str, Any]:
        return {**self.opinion.to_dict(), "outcome": str(self.outcome), "said": str(self.opinion.outcome)}


class LlmJudge:
    """A judge that asks a model.

    Args:
        endpoint: The model; it brings the pace, the retries and the sampling.
        votes: How often it is asked. More than one tells something only at a temperature above 0.
        cache: A folder where opinions are kept; by default they are kept in memory.
        max_chars: Size to which the episode, and the evidence, are cut.
        shows_thoughts: Show the agent's thoughts to the model. They change nothing in the database, and may persuade.
        uses_decision: Show the decision and let it rule out outcomes, where the task has one. False judges a task as
            one of upstream's, which have signals only; that is what tells how good the model itself is.

    Raises:
        UsageError: `votes` or `max_chars` makes no sense.
    """

    name = "llm"

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        votes: int = 1,
        cache: str | os.PathLike[str] | None = None,
        max_chars: int = 60_000,
        shows_thoughts: bool = False,
        uses_decision: bool = True,
    ) -> None:
        if votes < 1 or max_chars < 1000:
            raise UsageError("a judge needs one vote and 1000 characters at least", next_step="give larger numbers")
        self.endpoint, self.votes, self.max_chars = endpoint, votes, max_chars
        self.shows_thoughts, self.uses_decision = shows_thoughts, uses_decision
        self._kept = KeptOpinions(cache)
        self._takes_schema = True

    def describe(self) -> dict[str, Any]:
        """What is recorded of it."""
        names = ("votes", "max_chars", "shows_thoughts", "uses_decision")
        return {"kind": self.name, **self.endpoint.describe(), **{name: getattr(self, name) for name in names}}

    async def judge(self, trajectory: Trajectory, *, environment: Environment | None = None) -> Verdict:
        """Judge one trajectory; `awm_hub.judge(trajectory, judge=…)` does the same.

        Raises:
            JudgeError: the endpoint failed, the model gave no verdict in the form asked for, or code cannot read the
                ending.
            UsageError: the provider does not know the model.
        """
        found = await examine(trajectory, environment=environment, with_decision=self.uses_decision)
        if trajectory.termination == "environment_fault":
            return Verdict(
                outcome=Outcome.ENVIRONMENT_ERROR,
                judge=self.name,
                reasoning="the environment failed",
                evidence=found.evidence,
                usage=self._usage(()),
            )
        try:
            parts = parts_of(found, trajectory, max_chars=self.max_chars, shows_thoughts=self.shows_thoughts)
        except RecordError as error:
            raise JudgeError(f"the trajectory has no JSON form: {error.message}") from error
        votes = await asyncio.gather(
            *(self._vote(found, parts, number) for number in range(self.votes)), return_exceptions=True
        )
        return self._counted(found, [_checked(vote) for vote in votes])

    async def _vote(self, found: Examination, parts: Parts, number: int) -> _Vote:
        key = self._key(parts, number)
        opinion, usage = self._kept.get(key), Usage()
        is_kept = opinion is not None
        if opinion is None:
            opinion, usage = await self._ask(parts)
            self._kept.keep(key, opinion)
        return _Vote(opinion=opinion, outcome=_permitted(found, opinion.outcome), usage=usage, is_kept=is_kept)

    def _key(self, parts: Parts, number: int) -> str:
        said = [instructions.SYSTEM, instructions.REPLY_SCHEMA, dict(parts), self.endpoint.describe(), number]
        return sha256_of(said)

    async def _ask(self, parts: Parts) -> tuple[Opinion, Usage]:
        """An opinion, and what it cost; a reply of another form is asked for once more."""
        boundary = f"----- {secrets.token_hex(16)}"
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": instructions.SYSTEM.replace("{boundary}", boundary)},
            {"role": "user", "content": written(parts, boundary)},
        ]
        reply = await self._reply(messages)
        try:
            return opinion_of(reply), reply.usage
        except ValueError as error:
            problem = str(error)
        repair = instructions.REPAIR.format(problem=problem, outcomes=", ".join(Outcome))
        messages += [{"role": "assistant", "content": reply.content or ""}, {"role": "user", "content": repair}]
        second = await self._reply(messages)
        try:
            return opinion_of(second), reply.usage + second.usage
        except ValueError as error:
            message = f"{self.endpoint.model} gave no verdict in the form asked for, twice: {error}"
            raise JudgeError(message, next_step="ask a more capable model, or raise its max_tokens") from error

    async def _reply(self, messages: list[dict[str, Any]]) -> Reply:
        """The model's reply, held to the schema where the endpoint can do that."""
        try:
            if self._takes_schema:
                try:
                    return await self.endpoint.chat(messages, response_format=instructions.RESPONSE_FORMAT)
                except RemoteError as error:
                    if isinstance(error, ContextFullError) or not _UNSUPPORTED.search(error.message):
                        raise
            reply = await self.endpoint.chat(messages)
        except ContextFullError as error:
            step = f"lower max_chars, which is {self.max_chars}, or choose a model with a longer context"
            raise JudgeError(error.message, next_step=step) from error
        except RemoteError as error:
            raise JudgeError(f"the judge's model failed: {error.message}", next_step=error.next_step) from error
        self._takes_schema = False
        return reply

    def _counted(self, found: Examination, votes: list[_Vote]) -> Verdict:
        counts = Counter(vote.outcome for vote in votes)
        outcome = max(_SEVERITY, key=lambda o: counts[o])  # the first, most severe one, among equals
        vote = next(vote for vote in votes if vote.outcome is outcome)
        reasoning = vote.opinion.reasoning
        if vote.opinion.outcome is not outcome:
            ruled_out = vote.opinion.outcome
            reasoning = f"{found.ruled_out[ruled_out]}, which rules out {ruled_out}; the model had said: {reasoning}"
        usage = {**self._usage(votes), "agreement": counts[outcome] / len(votes)}
        return Verdict(outcome=outcome, judge=self.name, reasoning=reasoning, evidence=found.evidence, usage=usage)

    def _usage(self, votes: Sequence[_Vote]) -> dict[str, Any]:
        """Who voted how, and what it cost."""
        return {
            **sum((vote.usage for vote in votes), Usage()).to_dict(),
            "judge": self.describe(),
            "votes": [vote.to_dict() for vote in votes],
            "kept": sum(vote.is_kept for vote in votes),
        }


def _checked(vote: _Vote | BaseException) -> _Vote:
    if isinstance(vote, BaseException):
        raise vote
    return vote


def _permitted(found: Examination, outcome: Outcome) -> Outcome:
    """The outcome, or what the code says where the evidence rules it out."""
    if outcome not in found.ruled_out:
        return outcome
    if outcome is Outcome.COMPLETED and found.by_code is not None and found.by_code.outcome not in found.ruled_out:
        return found.by_code.outcome
    return Outcome.AGENT_ERROR
