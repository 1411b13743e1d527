"""The command line, `awm-hub VERB …`: a thin layer over the library.

`program` parses, runs one verb and turns whatever happens into text or one JSON object and an exit code. Each verb is
one module with `add` (its options) and `run` (what it does). What a verb reports is a frozen record of `reports`. Verb
modules import the library inside `run`, so that `--help` costs next to nothing.
"""

from awm_hub.cli.program import main

__all__ = ["main"]
