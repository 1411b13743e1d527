"""`awm-hub import`: other people's environments into a dataset of this format, with a report that accounts for all."""

import argparse
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from awm_hub.cli.options import Verbs, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean, clean_line, counted, table

if TYPE_CHECKING:
    from awm_hub.importers import Imported, ImportReport

_FINDINGS_SHOWN = 5
_DETAILS = """Reads the JSONL files of an Agent World Model run, upstream's own or anybody's. Environments that cannot
run are left out and listed with the reason; what is wrong with the others is in the report, which also lies beside the
dataset as import-report.json. Exit code 1 says that no environment could be imported."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "import",
        "Import environments of another project into a dataset.",
        details=_DETAILS,
        examples=(
            "awm-hub import awm1k my_run -o out",
            "awm-hub import awm1k Snowflake/AgentWorldModel-1K --revision main -o out --json",
        ),
    )
    parser.add_argument("kind", choices=("awm1k",), help="awm1k: the JSONL files of Agent World Model")
    parser.add_argument("source", metavar="SOURCE", help="folder of the JSONL files, or a Hub dataset repo id")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="folder of the dataset to write")
    parser.add_argument("--revision", metavar="REF", help="branch, tag or commit of a Hub dataset")
    parser.add_argument("--license", metavar="ID", help="licence of the rows, where it is not upstream's own dataset")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Import environments."""
    from awm_hub.importers import import_awm1k

    def progress(done: int, total: int, name: str) -> None:
        console.progress("imported", id=name, position=done, total=total)

    report = import_awm1k(
        arguments.source, arguments.out, revision=arguments.revision, license=arguments.license, progress=progress
    )
    for line in _lines(report, arguments.out, console):
        console.say(line)
    return Finished(data=report, exit_code=0 if report.environments else 1)


def _lines(report: "ImportReport", out: str, console: Console) -> Iterator[str]:
    yield from table(
        [
            ("id", "tools", "tasks", "tables", "findings", "title"),
            *(
                (
                    e.id,
                    str(e.tools_count),
                    str(e.tasks_count),
                    str(e.tables_count),
                    str(len(e.findings)),
                    clean_line(e.title, 60),
                )
                for e in report.environments
            ),
        ]
    )
    for environment in report.environments:
        yield from _finding_lines(environment, console)
    for left in report.left_out:
        yield console.style(f"left out: {clean_line(left.id or left.title)}", "yellow")
        yield f"  {clean(left.reason)}"
    counts = report.totals
    yield ""
    yield (
        f"{counted(counts['environments'], 'environment')}, {counts['left_out']} left out, "
        f"{counted(counts['problems'], 'problem')} in {counted(counts['lines'], 'line')}"
    )
    if report.environments:
        yield f"the whole report: {clean_line(out)}/import-report.json"
        yield f"next: awm-hub list --dataset {clean_line(shlex.quote(out))}"


def _finding_lines(environment: "Imported", console: Console) -> Iterator[str]:
    if not environment.findings:
        return
    yield console.style(f"\n{environment.id}: {counted(len(environment.findings), 'finding')}", "bold")
    for finding in environment.findings[:_FINDINGS_SHOWN]:
        yield clean_line(f"  {finding.kind} {finding.subject}: {finding.message}", 160)
    if len(environment.findings) > _FINDINGS_SHOWN:
        yield f"  … {len(environment.findings) - _FINDINGS_SHOWN} more in the report"
