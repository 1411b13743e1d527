"""How a model draws its next tokens, as far as a request says so."""

import math
from dataclasses import dataclass, field
from typing import Any

from awm_hub.errors import UsageError

_LEAST = {"temperature": 0, "top_p": 0, "top_k": -1, "max_tokens": 1}
"""vLLM and others take a top_k of -1 or 0 for all tokens."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Sampling parameters; None leaves one to the endpoint.

    A number that no endpoint takes is refused with a `UsageError`.

    The paper trains at temperature 1.0 and evaluates at temperature 0.6, top-p 0.95, top-k 20 (§5, §6).
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    """No part of OpenAI's interface, but vLLM, SGLang, llama.cpp and others take it."""
    max_tokens: int | None = None
    """Of one reply, thoughts included."""
    stop: tuple[str, ...] = ()
    seed: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """Further fields of the request, such as `chat_template_kwargs`. They are recorded: no place for keys."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= least):
                raise UsageError(f"{name} is {value}", next_step=f"give a number from {least}")
        if self.top_p is not None and self.top_p > 1:
            raise UsageError(f"top_p is {self.top_p}", next_step="give a share of the probability, 1 at most")

    def to_dict(self) -> dict[str, Any]:
        """JSON form: what is set."""
        named = {name: getattr(self, name) for name in ("temperature", "top_p", "top_k", "max_tokens", "seed")}
        found = {**named, "stop": list(self.stop), "extra": dict(self.extra)}
        return {name: value for name, value in found.items() if value not in (None, [], {})}

    def request(self) -> dict[str, Any]:
        """The arguments of `AsyncInferenceClient.chat_completion` that say the same."""
        found = self.to_dict()
        further = {**found.pop("extra", {})}
        if "top_k" in found:
            further["top_k"] = found.pop("top_k")
        return {**found, "extra_body": further} if further else found
