"""The argument parser and the options that several verbs share."""

import argparse
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from awm_hub.errors import UsageError

Verbs = Any
"""The subparsers of the program; argparse does not name their type publicly."""

_WIDTH = 100


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """The same help on every terminal and Python version, as the documentation is generated from it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=_WIDTH)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` instead of leaving the program."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=HelpFormatter, allow_abbrev=False, **settings)
        self.color = False

    def format_help(self) -> str:
        """The help text; its usage line names what is required and no more."""
        if self.usage is None and all(not isinstance(a, argparse._SubParsersAction) for a in self._actions):
            self.usage = " ".join(["%(prog)s", *_required(self._actions), "[options]"])
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise the `UsageError` for a wrong command line.

        Raises:
            UsageError: always.
        """
        raise UsageError(message, next_step=f"{self.prog} --help")


def _required(actions: Iterable[argparse.Action]) -> Iterator[str]:
    for action in actions:
        if not action.option_strings:
            name = action.metavar or "|".join(map(str, action.choices or ()))
            yield {"?": f"[{name}]", "*": f"[{name} ...]"}.get(str(action.nargs), str(name))
        elif action.required:
            yield f"{action.option_strings[0]} {action.metavar}"


def add_verb(verbs: Verbs, name: str, summary: str, *, details: str = "", examples: Iterable[str] = ()) -> Parser:
    """Add one verb, with `--json` and `--debug`."""
    paragraphs = [textwrap.fill(" ".join(p.split()), _WIDTH - 2) for p in (summary, *details.split("\n\n")) if p]
    epilog = "\n".join(["examples:", *(f"  {e}" for e in examples)]) if examples else None
    parser: Parser = verbs.add_parser(name, help=summary, description="\n\n".join(paragraphs), epilog=epilog)
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def add_dataset(parser: Parser) -> None:
    """Add the options that choose a dataset."""
    parser.add_argument(
        "--dataset",
        metavar="SOURCE",
        help="a folder, a Parquet file or a Hub repo id (owner/name); default: the bundled environments",
    )
    parser.add_argument("--revision", metavar="REF", help="branch, tag or commit of a Hub dataset")


def add_launch(parser: Parser) -> None:
    """Add the options that decide how an environment is launched."""
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="seeds the environment's randomness (default 0)"
    )
    add_trust(parser)


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from None
    if not -(2**63) <= seed < 2**63:
        raise argparse.ArgumentTypeError(f"{text} is outside 64 bits")
    return seed


def add_trust(parser: Parser) -> None:
    """Add the option that gives up the sandbox where there is none."""
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="run the environment's code without a sandbox where this machine has none",
    )
