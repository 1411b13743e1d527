"""The desk: where the pipeline asks, and where answers come from.

What was answered before comes from the store, whoever asks and however often. What was not is asked of the endpoint,
or, where there is none, waits for the answers of a batch (`awm_hub.synthesis.batches`). A request is known by its
position in the pipeline, such as `clinic/code/2`, and not by its wording: an answer that was paid for stays of use when
a prompt changes. `reworded` names those.
"""

import asyncio
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from awm_hub.errors import AwmHubError, UsageError
from awm_hub.inference import Endpoint, Price, Reply, Sampling, Usage
from awm_hub.inference.replies import escaped, reply_of
from awm_hub.synthesis.ledger import Cost, Ledger, cost_of
from awm_hub.synthesis.store import Record, Store, wording_of

Progress = Callable[[Mapping[str, Any]], None]
"""Called with one JSON object per event: `asked` and `answered`, with the request's `key`, `environment`, `stage`."""
Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]


class Waiting(Exception):
    """There is no answer yet, and no endpoint to ask; the request is recorded for the next round of the batch."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} waits for an answer")
        self.key = key


class BudgetError(AwmHubError):
    """The budget is used up. What was answered is stored, and a larger one goes on from there."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a run may cost, with what it cost before it was gone on with; None sets no limit.

    Requests that are on their way when it is used up are still answered, so it may be overdrawn by as many as the
    endpoint's concurrency.

    Raises:
        UsageError: a limit is no positive number.
    """

    usd: float | None = None
    tokens: int | None = None
    """Of prompts and completions."""

    def __post_init__(self) -> None:
        for name in ("usd", "tokens"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"a budget of {value} {name}", next_step="give a positive number, or none")

    def check(self, spent: Cost) -> None:
        """See that something is left.

        Raises:
            BudgetError: it is used up.
        """
        step = "raise it and start the run again, which goes on from here"
        if self.usd is not None and spent.cost_usd >= self.usd:
            told = f"the budget of {self.usd:.2f} US dollars is used up: {spent.cost_usd:.2f} are spent"
            raise BudgetError(told, next_step=step)
        if self.tokens is not None and spent.tokens >= self.tokens:
            told = f"the budget of {self.tokens} tokens is used up: {spent.tokens} are spent"
            raise BudgetError(told, next_step=step)


class Desk:
    """Where requests are answered; it belongs to one event loop.

    Args:
        store: Keeps requests and answers.
        endpoint: Is asked; None: requests wait for a batch.
        model: Name of the model that batches are for; an endpoint has its own.
        sampling: What requests say about sampling; by default what the endpoint would.
        budget: What may be spent.
        price: Of tokens; by default the endpoint's.
        progress: Called before and after each request to the endpoint.

    Raises:
        UsageError: the budget is in US dollars, and no price is known.
    """

    def __init__(
        self,
        store: Store,
        endpoint: Endpoint | None,
        *,
        model: str,
        sampling: Sampling | None = None,
        budget: Budget | None = None,
        price: Price | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.store, self.endpoint = store, endpoint
        self.model = model if endpoint is None else endpoint.model
        self.sampling = sampling or (Sampling() if endpoint is None else endpoint.sampling)
        self.budget = budget or Budget()
        self.price = price or (None if endpoint is None else endpoint.price)
        if self.budget.usd is not None and self.price is None:
            step = "give the price of its tokens too, or a budget of tokens"
            raise UsageError(f"what {self.model} costs is not known, and the budget is in US dollars", next_step=step)
        self.spent = Ledger.of(store, self.price).total
        """By all answers of the store."""
        self._progress = progress or (lambda event: None)
        self._waiting: dict[str, None] = {}
        self._reworded: dict[str, None] = {}
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._places = asyncio.Semaphore(1 if endpoint is None else endpoint.concurrency)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Positions that wait for answers of a batch, in the order of asking."""
        return tuple(self._waiting)

    @property
    def reworded(self) -> tuple[str, ...]:
        """Positions whose stored answer was given to another wording than the one that was asked here."""
        return tuple(self._reworded)

    async def ask(
        self,
        key: str,
        messages: Messages,
        *,
        environment: str,
        stage: str,
        tools: Tools | None = None,
        response_format: Mapping[str, Any] | None = None,
        sampling: Sampling | None = None,
    ) -> Reply:
        """The answer to the request at a position.

        Args:
            key: The position.
            messages: In chat form.
            environment: What the request is for, in the ledger.
            stage: Which stage asks, in the ledger.
            tools: As chat completions have them.
            response_format: As chat completions have it.
            sampling: In place of the desk's.

        Raises:
            Waiting: there is none yet, and no endpoint.
            BudgetError: there is none yet, and the budget is used up.
            ContextFullError: the conversation is longer than the model's context.
            RemoteError: the endpoint failed for good.
        """
        drawn = sampling or self.sampling
        body = _body(self.model, messages, tools, response_format, drawn)
        async with self._turns.setdefault(key, asyncio.Lock()):
            if not self.store.is_answered(key):
                self.store.add_request(key, body, environment=environment, stage=stage)
                await self._answer(key, body, drawn, {"key": key, "environment": environment, "stage": stage})
            return self._known(key, body)

    async def _answer(self, key: str, body: dict[str, Any], sampling: Sampling, event: dict[str, Any]) -> None:
        """See to it that the store has an answer."""
        async with self._places:  # so that what is spent is known when the next request begins
            self.budget.check(self.spent)
            if self.endpoint is None:
                self._waiting[key] = None
                raise Waiting(key)
            self._progress({"event": "asked", **event})
            asked = {name: body[name] for name in ("tools", "response_format") if name in body}
            reply = await self.endpoint.chat(body["messages"], sampling=sampling, **asked)
            self.store.add_answer(
                key,
                message=reply.message(),
                finish_reason=reply.finish_reason,
                model=self.model,
                usage=reply.usage.to_dict(),
                source="live",
                sha256=wording_of(body),
            )
            cost = cost_of(self._stored(key), body, self.price)
            self.spent += replace(cost, requests=0)
        told = {"prompt_tokens": cost.prompt_tokens, "completion_tokens": cost.completion_tokens}
        self._progress({"event": "answered", **event, **told, "seconds": reply.usage.seconds})

    def _known(self, key: str, body: dict[str, Any]) -> Reply:
        """The store's answer."""
        self._waiting.pop(key, None)
        found = self._stored(key)
        if found["sha256"] not in (None, wording_of(body)):
            self._reworded[key] = None
        return reply_from(found)

    def _stored(self, key: str) -> Record:
        found = self.store.answer(key)
        assert found is not None  # answers are never taken back
        return found


class DeskEndpoint:
    """The desk as the endpoint of a `ChatPolicy` in one episode: its turns are asked at `<prefix>/<turn>`.

    The turn is one more than the assistant messages that the model sees, so the policy's window has to show all.

    Args:
        desk: Where it is asked.
        prefix: Position of the episode.
        environment: For the ledger.
        stage: For the ledger.
    """

    def __init__(self, desk: Desk, prefix: str, environment: str, stage: str) -> None:
        self.desk, self.prefix, self.environment, self.stage = desk, prefix, environment, stage
        self._asked: dict[str, str] = {}

    @property
    def sampling(self) -> Sampling:
        """The desk's."""
        return self.desk.sampling

    def describe(self) -> dict[str, Any]:
        """What is recorded of it."""
        if self.desk.endpoint is None:
            told = {"model": self.desk.model, "host": "batch"}
        else:
            told = self.desk.endpoint.describe()
        return {**told, "sampling": self.sampling.to_dict()}

    def check_key(self) -> None:
        """See that there is a token where one is needed.

        Raises:
            UsageError: there is none.
        """
        if self.desk.endpoint is not None:
            self.desk.endpoint.check_key()

    async def chat(
        self,
        messages: Messages,
        *,
        tools: Tools | None = None,
        sampling: Sampling | None = None,
    ) -> Reply:
        """The model's next message; raises what `Desk.ask` raises.

        Raises:
            UsageError: the same turn is asked again with other messages, so some were not shown.
        """
        turn = 1 + sum(message.get("role") == "assistant" for message in messages)
        key = f"{self.prefix}/{turn}"
        wording = wording_of({"messages": messages})
        if self._asked.setdefault(key, wording) != wording:
            raise UsageError(f"{key} is asked twice", next_step="give the policy a window that shows every turn")
        return await self.desk.ask(
            key, messages, environment=self.environment, stage=self.stage, tools=tools, sampling=sampling
        )


def reply_from(answer: Record) -> Reply:
    """The reply of a stored answer."""
    choice = {"message": answer["message"], "finish_reason": answer["finish_reason"]}
    return replace(reply_of({"choices": [choice]}), usage=Usage.from_dict(answer["usage"] or {}))


def _body(
    model: str,
    messages: Messages,
    tools: Tools | None,
    response_format: Mapping[str, Any] | None,
    sampling: Sampling,
) -> dict[str, Any]:
    """The body of the request, as a batch sends it."""
    drawn = sampling.request()
    found = {**drawn.pop("extra_body", {}), **drawn, "model": model, "messages": list(messages)}
    if tools:
        found["tools"] = list(tools)
    if response_format is not None:
        found["response_format"] = dict(response_format)
    return dict(escaped(found))
