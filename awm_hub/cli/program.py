"""The program: parse, run one verb, report, and leave with the right exit code.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | ran, but something failed its check; the report says what |
| 2 | the command line is wrong |
| 3 | the input cannot be used: unknown name, invalid call, bad data |
| 4 | the environment, the sandbox or a judge failed |
| 5 | the Hub, an endpoint or the network failed |
| 130 | interrupted; `serve` is stopped that way, and leaves with 0 |

With `--json`, stdout holds one object: `command`, `version`, `ok`, and `data` (exit 0 and 1) or `error` with `type`,
`message` and `next` (all others). There is no traceback without `--debug`.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module

from awm_hub import __version__
from awm_hub.cli.choosing import in_dataset, next_in_dataset
from awm_hub.cli.options import Parser
from awm_hub.cli.outcomes import Failure, Finished, plain
from awm_hub.cli.terminal import Console, OutputClosedError, clean
from awm_hub.errors import AwmHubError, UsageError

VERBS = {
    "demo": "demo",
    "list": "listing",
    "show": "show",
    "call": "call",
    "play": "play",
    "rollout": "rollout",
    "serve": "serve",
    "import": "importing",
    "pack": "pack",
    "unpack": "unpack",
    "new": "new",
    "view": "view",
    "judge": "judge",
    "judge-bench": "judge_bench",
    "subset": "subset",
    "synthesize": "synthesize",
    "audit": "audit",
    "push": "push",
    "space": "space",
    "bench": "bench",
}
"""Verb → module of this package."""

_DESCRIPTION = """Executable tool-use environments as rows of a Hub dataset.

A row becomes a live MCP server that an agent can work on, and its database says what the agent did."""


def build_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(prog="awm-hub", description=_DESCRIPTION, epilog="awm-hub VERB --help explains a verb.")
    parser.add_argument("--version", action="version", version=f"awm-hub {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for module in VERBS.values():
        import_module(f"awm_hub.cli.{module}").add(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code.

    Raises:
        SystemExit: `--help` and `--version` have printed their text.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    console = Console(is_json="--json" in words)
    try:
        outcome = _run(words, console)
        _report(outcome, next((w for w in words if w in VERBS), "awm-hub"), console)
    except OutputClosedError:
        # What is still buffered for a reader that has gone must not fail again when the interpreter leaves.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return outcome.exit_code


def _run(words: list[str], console: Console) -> Finished | Failure:
    """Run the verb; every error becomes a `Failure`, whose next step leads to the dataset that was asked."""
    arguments = argparse.Namespace()
    try:
        arguments = _parse(words)
        found: Finished | Failure = arguments.run(arguments, console)
        return found if isinstance(found, Finished) else next_in_dataset(found, arguments)
    except OutputClosedError:
        raise
    except KeyboardInterrupt:
        return Failure(type="Interrupted", message="interrupted", next="", exit_code=130)
    except Exception as error:  # the process boundary: whatever goes wrong is said in one line
        if "--debug" in words:
            import traceback

            traceback.print_exc()
        return next_in_dataset(_failure(error), arguments)


def _parse(words: list[str]) -> argparse.Namespace:
    """Parse a command line; `key=value` words may stand before and after options."""
    parser = build_parser()
    arguments, left = parser.parse_known_args(_asking_for_help(words))
    if not left:
        return arguments
    if "pairs" in arguments and not any(w.startswith("-") for w in left):
        arguments.pairs = [*arguments.pairs, *left]
        return arguments
    if arguments.verb == "serve" and not left[0].startswith("-"):
        one = in_dataset(f"awm-hub serve --stdio {shlex.quote(left[0])}", arguments)
        step = f"`{one}` serves one over stdio; over HTTP all are served"
        raise UsageError(f"serve takes no environment, and was given {left[0]!r}", next_step=step)
    raise UsageError(f"unrecognized arguments: {' '.join(left)}", next_step=f"awm-hub {arguments.verb} --help")


def _asking_for_help(words: list[str]) -> list[str]:
    """`awm-hub`, `awm-hub help` and `awm-hub help VERB` are asked as options."""
    if not words or words == ["help"]:
        return ["--help"]
    return [words[1], "--help"] if words[0] == "help" and len(words) == 2 else words


def _failure(error: Exception) -> Failure:
    if isinstance(error, AwmHubError):
        return Failure.of(error)
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        message = f"{error.strerror or error}{where}"
        return Failure(type="DataError", message=message, next="check the path and its permissions", exit_code=3)
    return Failure(
        type="InternalError",
        message=f"this is a fault of awm-hub: {type(error).__name__}: {error}",
        next="run it again with --debug and report what it prints",
        exit_code=4,
    )


def _report(outcome: Finished | Failure, command: str, console: Console) -> None:
    head = {"command": command, "version": __version__, "ok": outcome.exit_code == 0}
    if isinstance(outcome, Finished):
        if console.is_json:
            console.emit({**head, "data": plain(outcome.data)})
        return
    error = {"type": outcome.type, "message": outcome.message, "next": outcome.next}
    if console.is_json:
        console.emit({**head, "error": error})
        return
    # The types of results are lower case, and what the documentation calls them; a class name tells a reader nothing.
    kind = f"{outcome.type}: " if outcome.type.islower() else ""
    console.complain(f"awm-hub: {kind}{clean(outcome.message)}")
    if outcome.next:
        console.complain(f"  next: {clean(outcome.next)}")
