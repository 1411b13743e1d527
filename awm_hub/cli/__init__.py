"""The command line, `awm-hub VERB …`: a thin layer over the library.

`program` parses, runs one verb and turns whatever happens into text or one JSON object and an exit code. Each verb is
one module with `add` (its options) and `run` (what it does). What a verb reports is a frozen record of `reports`. Verb
modules import the library inside `run`, so that `--help` costs next to nothing.
"""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code.

    Raises:
        SystemExit: `--help` and `--version` have printed their text.
    """
    try:
        from awm_hub.cli import program  # here, so that Ctrl-C is quiet from the first import on

        return program.main(argv)
    except KeyboardInterrupt:
        print("awm-hub: interrupted", file=sys.stderr)
        return 130
