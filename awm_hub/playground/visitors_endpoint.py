"""A model that a visitor brings: an OpenAI-compatible endpoint of their own, or their Hugging Face account.

Both are asked through the guard of `awm_hub.playground.addresses`, with the key that the visitor gave and no other:
nothing here looks into the environment or into a login of the server. The key lives in the object and nowhere else. It
is in no representation, record or error, also where a server quotes it, and the object lives as long as one run.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import httpx

from awm_hub.errors import ContextFullError, RemoteError, UsageError
from awm_hub.inference import Reply, Sampling, Usage, faults
from awm_hub.inference.replies import escaped, joined_stream, reply_of
from awm_hub.playground.addresses import Answer, Pinned, PinnedClient, Resolve, looked_up, pinned

HUGGING_FACE = "https://router.huggingface.co/v1"
"""OpenAI-compatible router of the inference providers; `model:provider` names one of them."""
MAX_ANSWER_BYTES = 4 * 2**20
_TIMEOUT_S = 90.0
_ATTEMPTS = 3
_LONGEST_WAIT_S = 15.0
_BACKOFF_S = 0.5
_KEY = re.compile(r"[\x21-\x7e]{1,4096}")
_MODEL = re.compile(r"[^\x00-\x20\x7f-\x9f]{1,200}")
_PROVIDER = re.compile(r"[a-z0-9-]{1,40}")
_NOT_TAKEN = "where the endpoint takes no tool calls, choose the text protocol"
_SHORTEST_QUOTED = 6
"""A shorter key is no secret, and every text would hold it."""


class _Secret:
    """A text that nothing shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "…"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not stored")

    def header(self) -> dict[str, str]:
        """The header that carries it; none where there is none."""
        return {"Authorization": f"Bearer {self._text}"} if self._text else {}

    def hidden_in(self, value: Any) -> Any:
        """A JSON value without it."""
        if len(self._text) < _SHORTEST_QUOTED:
            return value
        if isinstance(value, str):
            return value.replace(self._text, "…")
        if isinstance(value, Mapping):
            return {self.hidden_in(name): self.hidden_in(part) for name, part in value.items()}
        return [self.hidden_in(part) for part in value] if isinstance(value, list) else value


class VisitorsEndpoint:
    """A visitor's model; it can be asked as `awm_hub.inference.Endpoint` can.

    `VisitorsEndpoint.at` and `.signed_in` make one.

    Args:
        model: Its name at the endpoint.
        place: Where it is.
        key: The visitor's; None sends none.
        name: What records call the place.
        sampling: What requests say about sampling unless `chat` is told otherwise.
        timeout_s: For one request.
        attempts: Requests for one reply, at most.
        backoff_s: The pause after the first failed request; it doubles.
        transport: What connects, in place of httpx's own.

    Raises:
        UsageError: the model's name or the key is none.
    """

    def __init__(
        self,
        model: str,
        place: Pinned,
        *,
        key: str | None,
        name: str = "",
        sampling: Sampling | None = None,
        timeout_s: float = _TIMEOUT_S,
        attempts: int = _ATTEMPTS,
        backoff_s: float = _BACKOFF_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._secret = _Secret(_checked_key(key))
        self.model, self.host = _checked_model(model, self._secret), name or place.origin
        self.sampling = sampling or Sampling()
        self._attempts, self._backoff_s = attempts, backoff_s
        self._client = PinnedClient(place, timeout_s=timeout_s, max_bytes=MAX_ANSWER_BYTES, transport=transport)

    @classmethod
    async def at(
        cls,
        address: str,
        model: str,
        *,
        key: str | None = None,
        sampling: Sampling | None = None,
        timeout_s: float = _TIMEOUT_S,
        resolve: Resolve = looked_up,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> Self:
        """An OpenAI-compatible endpoint that a visitor pasted the address of.

        Raises:
            AddressError: the server does not connect to this address.
            UsageError: the model's name or the key is none.
        """
        place = await pinned(address.strip().removesuffix("/chat/completions"), resolve=resolve)
        return cls(model, place, key=key, sampling=sampling, timeout_s=timeout_s, transport=transport)

    @classmethod
    async def signed_in(
        cls,
        token: str | None,
        model: str,
        *,
        provider: str = "",
        sampling: Sampling | None = None,
        timeout_s: float = _TIMEOUT_S,
        resolve: Resolve = looked_up,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> Self:
        """A model at one of Hugging Face's inference providers, asked as the visitor.

        Args:
            token: Of the visitor who signed in. There is no other: without it nothing is asked.
            model: Id on the Hub.
            provider: One of the providers; empty lets the router choose.
            sampling: What requests say about sampling unless `chat` is told otherwise.
            timeout_s: For one request.
            resolve: Looks hosts up.
            transport: What connects, in place of httpx's own.

        Raises:
            UsageError: nobody signed in, or a name is none.
        """
        if not token:
            raise UsageError("you are not signed in", next_step="sign in with Hugging Face at the top of the page")
        if provider and not _PROVIDER.fullmatch(provider):
            raise UsageError("this is no name of a provider", next_step="leave it empty, or for instance novita")
        place = await pinned(HUGGING_FACE, resolve=resolve)
        return cls(
            f"{model.strip()}:{provider}" if provider else model,
            place,
            key=token,
            name=f"huggingface:{provider or 'auto'}",
            sampling=sampling,
            timeout_s=timeout_s,
            transport=transport,
        )

    def check_key(self) -> None:
        """Nothing: whether a key is needed is known to the endpoint alone."""

    def describe(self) -> dict[str, Any]:
        """What is recorded of it: model, host, sampling."""
        return {"model": self.model, "host": self.host, "sampling": self.sampling.to_dict()}

    def __repr__(self) -> str:
        return f"VisitorsEndpoint({self.model!r}, {self.host})"

    async def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        sampling: Sampling | None = None,
    ) -> Reply:
        """The model's next message.

        Raises:
            ContextFullError: the conversation is longer than the model's context.
            RemoteError: the endpoint failed for good.
        """
        body = self._body(messages, tools, sampling or self.sampling)
        spent = Usage()
        while True:
            started_s = time.monotonic()
            found = await self._ask(body)
            spent += Usage(seconds=time.monotonic() - started_s, requests=1)
            if isinstance(found, Reply):
                return replace(found, usage=spent + found.usage)
            await self._pause(found, spent.requests)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _body(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, sampling: Sampling
    ) -> dict[str, Any]:
        asked = sampling.request()
        further = asked.pop("extra_body", {})
        body = {"model": self.model, "messages": escaped(list(messages)), **asked, **further, "stream": False}
        return {**body, "tools": escaped(list(tools))} if tools else body

    async def _ask(self, body: dict[str, Any]) -> Reply | faults.Failure:
        """One request and what came of it."""
        try:
            answer = await self._client.post("/chat/completions", body, self._secret.header())
            if answer.status != 200:
                return self._refusal(answer)
            return reply_of(self._secret.hidden_in(_completion(answer.body)))
        except RemoteError as error:
            return faults.Failure(error=error, is_passing=False)
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            found = faults.failure_of(error, f"{self.model} at {self.host}")
            step = "is there an OpenAI-compatible endpoint at this address, and is it up?"
            return replace(found, error=type(found.error)(found.error.message, next_step=step))

    def _refusal(self, answer: Answer) -> faults.Failure:
        """What an answer with another status than 200 means; a redirect is one."""
        where, status = f"{self.model} at {self.host}", answer.status
        if status < 400:
            message = f"{where} answered {status}, and no redirect is followed"
            return faults.Failure(error=RemoteError(message, next_step="give the final address"), is_passing=False)
        error = _StatusError(httpx.Response(status, headers=_plain(answer.headers), content=answer.body))
        found = faults.failure_of(error, where)
        if status in (401, 403):
            step = "check the key, and whether it may use this model" if self._secret else "this endpoint wants a key"
        elif found.is_model_unknown:
            step = "check the model's name and the address, which usually ends with /v1"
        else:
            step = "try again later" if found.is_passing else _NOT_TAKEN
        return replace(found, error=type(found.error)(found.error.message, next_step=step))

    async def _pause(self, failure: faults.Failure, requests: int) -> None:
        """Wait before the next request, if there is to be one."""
        wait_s = failure.wait_s
        if not failure.is_passing or requests >= self._attempts or (wait_s or 0) > _LONGEST_WAIT_S:
            raise self._told(failure, requests)
        if wait_s is None:
            wait_s = self._backoff_s * 2 ** (requests - 1) * random.uniform(0.5, 1.0)
        await asyncio.sleep(wait_s)

    def _told(self, failure: faults.Failure, requests: int) -> RemoteError:
        """The error for the visitor, without the key."""
        message = self._secret.hidden_in(failure.error.message) + (f" ({requests} requests)" if requests > 1 else "")
        if isinstance(failure.error, ContextFullError):
            return ContextFullError(message, next_step="take a model with a longer context")
        return RemoteError(message, next_step=failure.error.next_step)


class _StatusError(Exception):
    """An answer with an error's status."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def _completion(body: bytes) -> Any:
    """A chat completion, from a stream too.

    Raises:
        ValueError: it is none.
    """
    text = body.decode()
    return joined_stream(text) if text.lstrip().startswith(("data:", ":")) else json.loads(text)


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that say how long to wait; others, such as the length, are not those of what was read."""
    return {name: value for name, value in headers.items() if name in ("retry-after", "retry-after-ms")}


def _checked_key(key: str | None) -> str:
    """A key for a header; empty where there is none.

    Raises:
        UsageError: it holds what no key does. The message does not quote it.
    """
    found = (key or "").strip()
    if found and not _KEY.fullmatch(found):
        raise UsageError("this is no key: it holds spaces or other signs", next_step="copy it again")
    return found


def _checked_model(model: str, secret: _Secret) -> str:
    """The name of a model.

    Raises:
        UsageError: it is none.
    """
    found = model.strip()
    if not _MODEL.fullmatch(found):
        raise UsageError("this is no name of a model", next_step="as the endpoint calls it, for instance gpt-oss-120b")
    return str(secret.hidden_in(found))
