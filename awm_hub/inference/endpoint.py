"""A model behind an OpenAI-compatible endpoint, or behind one of Hugging Face's inference providers.

One `Endpoint` stands for one model and is shared by all that ask it: they share its pace, and its `usage` is the sum
over them. `chat` asks until there is a reply or asking again cannot help. Keys come from the environment or the Hugging
Face login alone: `AWM_HUB_API_KEY` for a base URL, `HF_TOKEN` or the login for Hugging Face. The client inside would
send the Hugging Face token to any base URL without a key of its own; here it only goes to `huggingface.co`.
"""

import asyncio
import json
import os
import random
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, get_args

from awm_hub.errors import RemoteError, UsageError
from awm_hub.inference import faults
from awm_hub.inference.models import served_models
from awm_hub.inference.pacing import Pace
from awm_hub.inference.replies import Reply, escaped, joined_stream, reply_of
from awm_hub.inference.sampling import Sampling
from awm_hub.inference.usage import Price, Usage

if TYPE_CHECKING:
    from huggingface_hub import AsyncInferenceClient

KEY_VARIABLE = "AWM_HUB_API_KEY"
MAX_CONCURRENCY = 100
"""Connections of the client inside; further requests would wait for one while their time runs."""

_HUGGING_FACE = ".huggingface.co"
"""Hosts of its own; behind `hf.space` and `huggingface.cloud` is anybody's code."""
_MAX_BACKOFF_S = 30.0
_NO_TOKEN = "Hugging Face's inference providers need a token"


@dataclass(frozen=True)
class _Connection:
    """What belongs to one event loop."""

    loop: asyncio.AbstractEventLoop
    client: "AsyncInferenceClient"
    pace: Pace


class Endpoint:
    """A model that can be asked.

    Args:
        model: Its name at the endpoint, or its id on the Hub.
        base_url: Of an OpenAI-compatible server, with its `/v1`; None asks Hugging Face's providers.
        provider: One of Hugging Face's inference providers; by default the router chooses.
        sampling: What requests say about sampling unless `chat` is told otherwise.
        timeout_s: For one request.
        attempts: Requests for one reply, at most.
        backoff_s: The pause after the first failed request; it doubles, up to 30 s, unless the endpoint names its own.
        concurrency: Requests at a time, up to the 100 connections that the client opens.
        requests_per_minute: None sets no limit.
        price: What tokens cost, for the ledger.

    Raises:
        UsageError: an argument makes no sense, there is no such provider, or the base URL holds a user name or
            password.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        provider: str | None = None,
        sampling: Sampling | None = None,
        timeout_s: float = 180.0,
        attempts: int = 5,
        backoff_s: float = 0.5,
        concurrency: int = 16,
        requests_per_minute: float | None = None,
        price: Price | None = None,
    ) -> None:
        for name, value in (("timeout_s", timeout_s), ("attempts", attempts), ("concurrency", concurrency)):
            _check_positive(name, value)
        if concurrency > MAX_CONCURRENCY:
            step = f"give {MAX_CONCURRENCY} at most, or spread the work over several endpoints"
            raise UsageError(f"concurrency is {concurrency}", next_step=step)
        _check_positive("requests_per_minute", 1 if requests_per_minute is None else requests_per_minute)
        _check_address(model, base_url, provider)
        _check_provider(provider)
        self.model, self.base_url, self.provider = model, base_url, provider
        self.sampling = sampling or Sampling()
        self.timeout_s, self.attempts, self.backoff_s = timeout_s, attempts, backoff_s
        self.concurrency, self.requests_per_minute = concurrency, requests_per_minute
        self.price = price
        self.usage = Usage()
        """The sum over all replies and failed requests so far."""
        self._connection: _Connection | None = None
        self._served: tuple[str, ...] | None = None
        """Names of the server's models, once they were asked for."""

    @property
    def host(self) -> str:
        """Scheme, host and port of the base URL, or the provider: never a key."""
        if self.base_url is None:
            return f"huggingface:{self.provider or 'auto'}"
        parts = urllib.parse.urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"

    def check_key(self) -> None:
        """See that there is a token where one is needed, which is known without asking.

        Raises:
            UsageError: Hugging Face's providers are to be asked, and there is no token.
        """
        if self.base_url is None and key_for(None) is None:
            raise UsageError(_NO_TOKEN, next_step=faults.LOGIN_STEP)

    def describe(self) -> dict[str, Any]:
        """What is recorded of it: model, host, sampling."""
        return {"model": self.model, "host": self.host, "sampling": self.sampling.to_dict()}

    def __repr__(self) -> str:
        return f"Endpoint({self.model!r}, {self.host})"

    async def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        sampling: Sampling | None = None,
    ) -> Reply:
        """The model's next message.

        Args:
            messages: In chat form.
            tools: In the form of chat completions: `{"type": "function", "function": {name, description, parameters}}`.
            response_format: As chat completions have it, such as `{"type": "json_schema", …}`.
            sampling: In place of the endpoint's.

        Raises:
            ContextFullError: the conversation is longer than the model's context.
            RemoteError: the endpoint failed for good.
        """
        request = self._request(messages, tools, response_format, sampling or self.sampling)
        spent = Usage()
        while True:
            found, cost = await self._ask(request)
            spent += cost
            self.usage += cost
            if isinstance(found, Reply):
                break
            await self._pause(found, spent.requests)
        tokens = self._priced(found.usage)
        self.usage += tokens
        return replace(found, usage=spent + tokens)

    async def aclose(self) -> None:
        """Close the connections; the next request opens them again."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.loop is asyncio.get_running_loop():
            await connection.client.close()  # type: ignore[no-untyped-call]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _priced(self, tokens: Usage) -> Usage:
        if self.price is None:
            return tokens
        return replace(tokens, cost_usd=self.price.of(tokens.prompt_tokens, tokens.completion_tokens))

    def _request(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        response_format: Mapping[str, Any] | None,
        sampling: Sampling,
    ) -> dict[str, Any]:
        request = {"messages": escaped(list(messages)), **sampling.request()}
        if tools:
            request["tools"] = escaped(list(tools))
        if response_format is not None:
            request["response_format"] = _Verbatim(response_format) if self.base_url else dict(response_format)
        return {"model": self.model, **request}

    async def _ask(self, request: dict[str, Any]) -> tuple[Reply | faults.Failure, Usage]:
        """One request, what came of it and what it cost."""
        connection = self._connected()
        async with connection.pace.turn():
            started_s = time.monotonic()
            found: Reply | faults.Failure
            try:
                async with asyncio.timeout(self.timeout_s):
                    found = reply_of(await _completion(connection.client, request, is_url=self.base_url is not None))
            except faults.expected_errors() as error:
                where = f"{self.model} at {self.host}"
                found = faults.failure_of(error, where, is_url=self.base_url is not None)
            return found, Usage(seconds=time.monotonic() - started_s, requests=1)

    async def _pause(self, failure: faults.Failure, requests: int) -> None:
        """Wait before the next request, if there is to be one."""
        if not failure.is_passing or requests >= self.attempts:
            said = self._without_secrets(failure.error.message) + (f" ({requests} requests)" if requests > 1 else "")
            step = await self._other_models() if failure.is_model_unknown else ""
            raise type(failure.error)(said, next_step=self._without_secrets(step or failure.error.next_step))
        if failure.wait_s is not None:
            self._connected().pace.hold(failure.wait_s)
        else:
            longest_s = min(_MAX_BACKOFF_S, self.backoff_s * 2 ** (requests - 1))
            await asyncio.sleep(longest_s * random.uniform(0.5, 1.0))

    async def _other_models(self) -> str:
        """The models that the server has, as a next step; nothing where it does not tell."""
        if self._served is None:
            known = () if self.base_url is None else await served_models(self.base_url, key_for(self.base_url))
            self._served = known
        return f"it has the models {', '.join(self._served)}" if self._served else ""

    def _connected(self) -> _Connection:
        """The client and the pace of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._connection is None or self._connection.loop is not loop:
            pace = Pace(concurrency=self.concurrency, requests_per_minute=self.requests_per_minute)
            self._connection = _Connection(loop, self._client(), pace)
        return self._connection

    def _client(self) -> "AsyncInferenceClient":
        from huggingface_hub import AsyncInferenceClient

        key = key_for(self.base_url)
        if self.base_url is None and key is None:
            raise RemoteError(_NO_TOKEN, next_step=faults.LOGIN_STEP)
        # without a header of its own the client would send the Hugging Face token, whatever the host
        headers: Any = {} if key else {"authorization": None}
        target: dict[str, Any] = {"base_url": self.base_url} if self.base_url else {"provider": self.provider}
        return AsyncInferenceClient(api_key=key or "-", headers=headers, timeout=self.timeout_s, **target)

    def _without_secrets(self, text: str) -> str:
        """The text without the key and the base URL's query, which servers like to quote."""
        query = urllib.parse.urlsplit(self.base_url or "").query
        for secret in filter(None, (key_for(self.base_url), query)):
            text = text.replace(secret, "…")
        return text


def key_for(base_url: str | None) -> str | None:
    """The key for a base URL, or for Hugging Face's providers where there is none."""
    from huggingface_hub import get_token

    if base_url is None:
        return get_token()
    parts = urllib.parse.urlsplit(base_url)
    is_hugging_face = parts.scheme == "https" and f".{parts.hostname}".endswith(_HUGGING_FACE)
    return os.environ.get(KEY_VARIABLE, "").strip() or (get_token() if is_hugging_face else None)


class _Verbatim(dict[str, Any]):
    """A response format that arrives as it was given.

    For a base URL the client looks up its type and rewrites `json_schema` into a form that only TGI understands.
    """

    def get(self, key: str, default: Any = None) -> Any:
        """Nothing, whatever is looked up."""
        return default


async def _completion(client: "AsyncInferenceClient", request: dict[str, Any], *, is_url: bool) -> Any:
    """A completion, from a stream too."""
    try:
        return await client.chat_completion(**request)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        text = getattr(error, "doc", "")
        if "\ndata:" in f"\n{text}":
            return joined_stream(text)
        raise
    except ValueError as error:
        if is_url:
            raise
        step = "see https://huggingface.co/docs/inference-providers"
        raise UsageError(str(error), next_step=step) from None  # the client knows no such provider, or not this model


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise UsageError(f"{name} is {value}", next_step="give a positive number")


def _check_provider(provider: str | None) -> None:
    if provider is None:
        return
    from huggingface_hub import AsyncInferenceClient

    # the list is no part of the client's interface, but its signature is: a choice of names
    known = _choices(AsyncInferenceClient.__init__.__annotations__.get("provider"))
    if known and provider not in known:
        raise UsageError(f"there is no provider {provider!r}", next_step=f"one of {', '.join(sorted(known))}")


def _choices(annotation: Any) -> set[str]:
    """The texts of a union of literals."""
    found = {a for a in get_args(annotation) if isinstance(a, str)}
    return found.union(*(_choices(a) for a in get_args(annotation) if not isinstance(a, str)))


def _check_address(model: str, base_url: str | None, provider: str | None) -> None:
    if model.startswith(("http://", "https://")):
        raise UsageError("the model is a name, not a URL", next_step="give the URL as base_url")
    if base_url is None:
        return
    if provider is not None:
        raise UsageError("base_url and provider exclude each other", next_step="give one of them")
    try:
        parts = urllib.parse.urlsplit(base_url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_url = False
    if not is_url:
        raise UsageError("base_url is no http or https URL", next_step="for instance http://127.0.0.1:8000/v1")
    if parts.username is not None or parts.password is not None:
        step = f"put the key into the environment variable {KEY_VARIABLE}"
        raise UsageError("base_url holds a user name or a password", next_step=step)
