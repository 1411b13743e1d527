"""The options that choose a judge, shared by the verbs that judge."""

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from awm_hub.cli.endpoints import add_endpoint, endpoint_of
from awm_hub.cli.options import Parser
from awm_hub.errors import UsageError

if TYPE_CHECKING:
    from awm_hub.judging import Judge

JUDGES = ("decision", "reference", "llm")


def add_judge(parser: Parser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("--judge", choices=JUDGES, default="decision", help="decision (default), reference, or llm, which asks --model")
    add("--votes", metavar="N", type=int, default=1, help="how often the model is asked about an attempt (default 1)")
    add("--cache", metavar="DIR", help="keep what the model said in this folder, and ask nothing twice")
    add("--blind", action="store_true", help="the model and its caps do without the task's decision, as for upstream's")
    add("--concurrency", metavar="C", type=int, default=8, help="attempts judged at a time (default 8)")
    add_endpoint(parser)


@contextlib.contextmanager
def chosen_judge(arguments: argparse.Namespace, cache: Path | None = None) -> "Iterator[str | Judge]":
    """The judge that the options describe, for as long as the block lasts.

    Args:
        arguments: The command line.
        cache: Where a model's opinions are kept unless the command line says.

    Raises:
        UsageError: an option makes no sense.
    """
    if arguments.concurrency < 1:
        raise UsageError(f"--concurrency is {arguments.concurrency}", next_step="give a positive number")
    if arguments.judge != "llm":
        if arguments.model is not None:
            raise UsageError(f"--judge {arguments.judge} asks no model", next_step="add --judge llm")
        yield str(arguments.judge)
        return
    from awm_hub.judging import LlmJudge
    from awm_hub.runtime import sync

    endpoint = endpoint_of(arguments)
    kept = arguments.cache or cache
    try:
        yield LlmJudge(endpoint, votes=arguments.votes, cache=kept, uses_decision=not arguments.blind)
    finally:
        sync.run(endpoint.aclose)
