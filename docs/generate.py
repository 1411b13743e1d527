"""Write the generated parts of the documentation from the code: the command line, the columns, the errors.

A page holds generated parts between `<!-- generated: NAME -->` and `<!-- end -->`; the rest is written by hand.
`python docs/generate.py` writes the pages again, `--check` only says whether they are up to date.
"""

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from awm_hub import errors, schema
from awm_hub.cli.program import build_parser

DOCS = Path(__file__).parent
_PART = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def command_line() -> str:
    """Every verb's help."""
    parser = build_parser()
    (verbs,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    parts = [("awm-hub", parser), *((f"awm-hub {name}", verb) for name, verb in verbs.choices.items())]
    return "\n".join(f"## {name}\n\n```text\n{p.format_help()}```\n" for name, p in parts)


def exit_codes() -> str:
    """The table of the program's docstring."""
    module = inspect.getmodule(build_parser)
    return "\n".join(line for line in (inspect.getdoc(module) or "").splitlines() if line.startswith("|")) + "\n"


def error_classes() -> str:
    """One row per error class."""
    rows = (
        f"| {'&nbsp;&nbsp;' * depth}`{kind.__name__}` | {kind.exit_code} | {(kind.__doc__ or '').splitlines()[0]} |"
        for depth, kind in error_tree(errors.AwmHubError)
    )
    return "\n".join(["| error | exit code | meaning |", "|---|---|---|", *rows]) + "\n"


def error_tree(kind: type[errors.AwmHubError], depth: int = 0) -> Iterator[tuple[int, type[errors.AwmHubError]]]:
    """An error class and those below it, with their depth, as far as `awm_hub.errors` defines them."""
    yield depth, kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from error_tree(below, depth + 1)


PARTS: dict[str, Callable[[], str]] = {
    "command-line": command_line,
    "exit-codes": exit_codes,
    "errors": error_classes,
    **{f"columns-{config}": lambda config=config: schema.column_table(config) for config in schema.CONFIGS},
}


def generated(page: str) -> str:
    """A page with its generated parts written again."""
    return _PART.sub(lambda m: f"{m[1]}{PARTS[m[2]]()}{m[3]}", page)


def main() -> int:
    """Write or check all pages; the exit code."""
    stale = []
    for path in sorted(DOCS.glob("*.md")):
        old = path.read_text(encoding="utf-8")
        new = generated(old)
        if new != old:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)}\n  next: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
