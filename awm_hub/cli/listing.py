"""`awm-hub list`: the environments of a dataset, from its light index alone."""

import argparse
from collections.abc import Sequence
from dataclasses import fields

from awm_hub.cli.options import Verbs, add_dataset, add_verb
from awm_hub.cli.reports import Finished, ListedEnvironment, ListReport
from awm_hub.cli.terminal import Console, clean_line, counted, table

_CATEGORIES_SHOWN = 40
_FIELDS = tuple(f.name for f in fields(ListedEnvironment))


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "list",
        "List the environments of a dataset.",
        examples=("awm-hub list", "awm-hub list --category library --split train", "awm-hub list --dataset out --json"),
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
    if found and not kept:
        _print_known(found, console)
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
    total = counted(report.total, "environment")
    console.say(console.style(f"{len(rows)} of {total} in {clean_line(report.source)}", "dim"))


def _print_known(found: Sequence[ListedEnvironment], console: Console) -> None:
    categories = sorted({category for e in found for category in e.categories})
    more = ", …" if len(categories) > _CATEGORIES_SHOWN else ""
    splits = sorted({e.split for e in found})
    known = f"categories: {', '.join(categories[:_CATEGORIES_SHOWN])}{more}; splits: {', '.join(splits)}"
    console.say(clean_line(f"none is of that category and split. Known {known}"))
