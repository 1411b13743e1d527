"""`awm-hub bench`: measure the runtime beside the upstream way."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from awm_hub.cli.options import Verbs, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console

if TYPE_CHECKING:
    from awm_hub.bench import Figure


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "bench",
        "Measure the runtime on this machine, beside the upstream way.",
        details="""One run measures both: new instances, calls, resets, snapshots and memory here, and the same
environment served by a process of its own per instance. The short form takes one to two minutes.""",
        examples=("awm-hub bench", "awm-hub bench --long -o results"),
    )
    parser.add_argument("--long", action="store_true", help="up to 4,096 instances; takes ten minutes or more")
    parser.add_argument("-o", "--out", metavar="OUT", help="also write bench.md and bench.json into this folder")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Measure, print the table, write it where asked."""
    import asyncio
    import json

    from awm_hub.bench import LONG, SHORT, run_suite

    def show(figure: "Figure") -> None:
        event = {"event": "measured", "name": figure.name, "way": figure.way, "environment": figure.environment}
        console.pass_on(event)

    report = asyncio.run(run_suite(LONG if arguments.long else SHORT, on_figure=show))
    for line in report.table().splitlines():
        console.say(line)
    if arguments.out:
        out = Path(arguments.out)
        out.mkdir(parents=True, exist_ok=True)
        (out / "bench.md").write_text(report.table(), encoding="utf-8")
        (out / "bench.json").write_text(json.dumps(report.to_dict(), indent=1) + "\n", encoding="utf-8")
    return Finished(data=report.to_dict())
