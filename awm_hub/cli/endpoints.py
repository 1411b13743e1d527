"""The options that name a model to ask, and the endpoint that they describe."""

import argparse
from typing import TYPE_CHECKING

from awm_hub.cli.options import Parser
from awm_hub.errors import UsageError

if TYPE_CHECKING:
    from awm_hub.inference import Endpoint, Price, Sampling

KEYS = "A key for --base-url is read from AWM_HUB_API_KEY, one for Hugging Face's providers from HF_TOKEN or the login."


def add_endpoint(parser: Parser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("--model", metavar="NAME", help="model to ask")
    add("--base-url", metavar="URL", help="of an OpenAI-compatible server, with its /v1; default: Hugging Face")
    add("--provider", metavar="NAME", help="one of Hugging Face's inference providers")
    add("--temperature", metavar="T", type=float, help="sampling temperature")
    add("--max-tokens", metavar="N", type=int, help="tokens of one reply at most")
    add("--requests-per-minute", metavar="N", type=float, help="to the endpoint, at most")
    add("--price", metavar="IN,OUT", help="US dollars per million prompt and completion tokens, for the ledger")


def endpoint_of(arguments: argparse.Namespace) -> "Endpoint":
    """The endpoint that the options describe.

    Raises:
        UsageError: no model is named, an option makes no sense, or the providers' token is missing.
    """
    from awm_hub.inference import Endpoint

    if arguments.model is None:
        raise UsageError("there is no model to ask", next_step="name one with --model, and its server with --base-url")
    endpoint = Endpoint(
        arguments.model,
        base_url=arguments.base_url,
        provider=arguments.provider,
        sampling=sampling_of(arguments),
        concurrency=max(1, arguments.concurrency),
        requests_per_minute=arguments.requests_per_minute,
        price=price_of(arguments.price),
    )
    endpoint.check_key()
    return endpoint


def sampling_of(arguments: argparse.Namespace) -> "Sampling":
    """What the options say of sampling."""
    from awm_hub.inference import Sampling

    return Sampling(temperature=arguments.temperature, max_tokens=arguments.max_tokens)


def price_of(text: str | None) -> "Price | None":
    """The price that an option states.

    Raises:
        UsageError: it is not two numbers.
    """
    from awm_hub.inference import Price

    if text is None:
        return None
    try:
        prompt, completion = (float(part) for part in text.split(","))
    except ValueError:
        step = "--price 0.15,0.60 is 15 and 60 cents per million prompt and completion tokens"
        raise UsageError(f"--price {text!r} is not two numbers", next_step=step) from None
    return Price(prompt_per_million_usd=prompt, completion_per_million_usd=completion)
