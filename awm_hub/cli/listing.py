"""`awm-hub list`: the environments of a dataset, from its light index alone."""

import argparse
from dataclasses import fields

from awm_hub.cli.options import Verbs, add_dataset, add_verb
from awm_hub.cli.reports import Finished, ListedEnvironment, ListReport
from awm_hub.cli.terminal import Console, clean_line, table

_FIELDS = tuple(f.name for f in fields(ListedEnvironment))


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "list",
        "List the environments of a dataset.",
        examples=("awm-hub list", "awm-hub list --category library --split test", "awm-hub list --dataset out --json"),
    )
    add_dataset(parser)
    parser.add_argument("--category", metavar="NAME", help="only environments of this category")
    parser.add_argument("--split", choices=("train", "test"), help="only environments of this split")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """List environments."""
    from awm_hub.hub import load

    environments = load(arguments.dataset, revision=arguments.revision)
    found = [_listed(entry) for entry in environments.entries.values()]
    kept = tuple(e for e in found if arguments.category in (None, *e.categories) and arguments.split in (None, e.split))
    report = ListReport(source=environments.source, revision=environments.revision, total=len(found), environments=kept)
    _print(report, console)
    return Finished(data=report)


def _listed(entry: object) -> ListedEnvironment:
    return ListedEnvironment(**{name: getattr(entry, name) for name in _FIELDS})


def _print(report: ListReport, console: Console) -> None:
    head = ("id", "split", "tools", "tasks", "tables", "title")
    rows = [
        (e.id, e.split, str(e.tools_count), str(e.tasks_count), str(e.tables_count), e.title)
        for e in report.environments
    ]
    for line in table([head, *([clean_line(cell, 64) for cell in row] for row in rows)]):
        console.say(line)
    console.say(console.style(f"{len(rows)} of {report.total} environments in {clean_line(report.source)}", "dim"))
