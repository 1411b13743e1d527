"""What went wrong with a request to a model, and whether asking again can help.

Rate limits, server errors, timeouts, lost connections and answers that are no completion pass; a wrong key, model or
request does not. A conversation that is longer than the model's context is an error of its own, since the one who
shortens conversations can react. There is no field for it: servers put it into words, and `_CONTEXT` knows those of
OpenAI, vLLM, SGLang, llama.cpp, TGI and the providers behind the Hub's router.
"""

import datetime as dt
import email.utils
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from awm_hub.errors import ContextFullError, RemoteError

MAX_WAIT_S = 120.0
"""An endpoint that wants to be left alone for longer counts as unavailable."""

_PASSING = frozenset({408, 409, 425, 429})
_KEY_STATUSES = (401, 403)
_CONTEXT = re.compile(
    r"context_length_exceeded|exceed_context_size|context (length|size|window)|reduce the length of"
    r"|max(imum)? (model|input|sequence|prompt) (length|tokens)|(prompt|input) is too long|max_new_tokens` must be"
    r"|too many (input |prompt )?tokens",
    re.IGNORECASE,
)
_TOOLS = re.compile(
    r"tool[ _-]?choice|tool-call-parser|(does|do) not support (tools?|function)|tools? (is|are) not supported"
    r"|tools param requires",
    re.IGNORECASE,
)
"""How servers say that they do not take tool calls apart: vLLM, SGLang, Ollama, llama.cpp."""
_TOOLS_STEP = (
    "take --protocol text, or start the server so that it takes tool calls apart "
    "(vLLM: --enable-auto-tool-choice --tool-call-parser NAME; llama.cpp: --jinja)"
)
LOGIN_STEP = "set HF_TOKEN or run `hf auth login`, or give the base URL of another endpoint"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failed request."""

    error: RemoteError
    is_passing: bool
    """Asking again may help."""
    is_model_unknown: bool = False
    """The endpoint knows neither this model nor this path."""
    wait_s: float | None = None
    """How long the endpoint wants to be left alone, where it says so."""


@functools.cache
def expected_errors() -> tuple[type[Exception], ...]:
    """What asking an endpoint may raise: HTTP, the network, time, and what reading a body of another form ends in."""
    return (_http_error(), OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError)


def _http_error() -> type[Exception]:
    """The root of the errors of the client inside huggingface_hub: httpx's below 2.0, httpx2's from there on."""
    from huggingface_hub.errors import HfHubHTTPError

    return next(kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError")


def failure_of(error: Exception, where: str, *, is_url: bool = True) -> Failure:
    """What one of the expected errors means.

    Args:
        error: What was raised.
        where: Names the endpoint.
        is_url: Whether it is a base URL, and not one of Hugging Face's providers.
    """
    response = getattr(error, "response", None)
    if response is not None:
        return _refusal(response, where, is_url=is_url)
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        step = "raise timeout_s, or lower max_tokens or the concurrency"
        return Failure(error=RemoteError(f"{where} did not answer in time", next_step=step), is_passing=True)
    if isinstance(error, (_http_error(), OSError)):
        message = f"{where} cannot be reached ({type(error).__name__})"
        return Failure(error=RemoteError(message, next_step="is a server running there?"), is_passing=True)
    said = " ".join(str(error).split())[:200]
    if _CONTEXT.search(said):
        return _full(said, where)
    step = "does the base URL belong to an OpenAI-compatible server, and end with /v1?"
    return Failure(error=RemoteError(f"{where} sent no chat completion: {said}", next_step=step), is_passing=True)


def _refusal(response: Any, where: str, *, is_url: bool) -> Failure:
    """What an answer with an error status means."""
    status, said = response.status_code, _said(response.text)
    if _CONTEXT.search(said) and status not in (401, 403, 429):
        return _full(said, where)
    step = _TOOLS_STEP if _TOOLS.search(said) and status not in _KEY_STATUSES else _next_step(status, is_url=is_url)
    error = RemoteError(f"{where} answered {status}: {said}", next_step=step)
    wait_s = retry_after_s(response.headers)
    is_passing = (status in _PASSING or status >= 500) and "insufficient_quota" not in response.text
    return Failure(
        error=error,
        is_passing=is_passing and (wait_s or 0) <= MAX_WAIT_S,
        is_model_unknown=status == 404,
        wait_s=wait_s,
    )


def _full(said: str, where: str) -> Failure:
    step = "a smaller window, shorter results, or a model with a longer context"
    return Failure(error=ContextFullError(f"{where}: {said}", next_step=step), is_passing=False)


def _next_step(status: int, *, is_url: bool) -> str:
    if status in _KEY_STATUSES:
        may = "that may use this model" if status == 403 else "of this server"
        return f"set AWM_HUB_API_KEY to a key {may}" if is_url else LOGIN_STEP
    if status == 404:
        look = "GET {base URL}/models names the models" if is_url else "the model's page on the Hub names its providers"
        return f"check the model's name{' and the base URL, which usually ends with /v1' if is_url else ''}: {look}"
    if status == 402:
        return "the account has no credit left"
    if status == 429:
        return "lower the concurrency or set requests_per_minute"
    return "try again later" if status >= 500 else "the server's message says what it does not take"


def _said(body: str) -> str:
    """The message in an error's body, on one line."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = body
    while isinstance(found, Mapping):
        found = next((found[name] for name in ("error", "message", "detail") if name in found), None)
    text = found if isinstance(found, str) else body
    return " ".join(text.split())[:300]


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long to wait, from `Retry-After` (RFC 9110 §10.2.3: seconds or a date) or OpenAI's `retry-after-ms`."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        return max(0.0, float(headers["retry-after"]))
    except KeyError:
        return None
    except ValueError:
        return _seconds_until(headers.get("retry-after", ""))


def _seconds_until(date: str) -> float | None:
    try:
        moment = email.utils.parsedate_to_datetime(date)
    except ValueError:
        return None
    at = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return max(0.0, (at - dt.datetime.now(dt.UTC)).total_seconds())
