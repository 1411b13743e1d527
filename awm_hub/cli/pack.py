"""`awm-hub pack`: source folders to a dataset."""

import argparse
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from awm_hub.cli.options import Verbs, add_trust, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line, counted, table

if TYPE_CHECKING:
    from awm_hub.packing import PackReport


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "pack",
        "Build a dataset from source folders.",
        details="""Databases are built and solutions run in the sandbox, effects and volatile columns are measured. The
first thing that breaks the form stops it, named by file and place, and OUT stays as it was. Packed datasets in FOLDER
are passed over.""",
        examples=("awm-hub pack ferry_port_1 -o out", "awm-hub pack environments -o out --json"),
    )
    parser.add_argument("folder", metavar="FOLDER", help="one source folder, or a folder of them")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="dataset folder; an old one is replaced")
    add_trust(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Pack source folders."""
    from awm_hub.packing import pack

    report = pack(
        arguments.folder, arguments.out, progress=console.pass_on, trust_remote_code=arguments.trust_remote_code
    )
    for line in _lines(report, console):
        console.say(line)
    return Finished(data=report)


def _lines(report: "PackReport", console: Console) -> Iterator[str]:
    head = ("id", "split", "tables", "tools", "tasks", "content hash")
    rows = [
        (e.id, e.split, str(e.tables_count), str(e.tools_count), str(e.tasks_count), e.content_hash[:16])
        for e in report.environments
    ]
    yield from table([head, *rows])
    for warning in (w for e in report.environments for w in e.warnings):
        yield console.style(f"warning: {clean_line(warning)}", "yellow")
    written = report.dataset
    yield f"{counted(written.environments, 'environment')}, {written.bytes // 1024} KB in {clean_line(written.out)}"
    yield f"next: awm-hub show {report.environments[0].id} --dataset {clean_line(shlex.quote(written.out))}"
