"""`awm-hub list`: the environments of a dataset, from its light index alone."""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from awm_hub.cli.options import Verbs, add_dataset, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line, counted, table
from awm_hub.errors import UsageError

if TYPE_CHECKING:
    from awm_hub.cli.reports import ListedEnvironment, ListReport

_CATEGORIES_SHOWN = 40


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "list",
        "List the environments of a dataset.",
        examples=(
            "awm-hub list",
            "awm-hub list --category library --split train",
            "awm-hub list --dataset awm/envs-1k --max-tools 40 --quality deterministic=true --quality tool_faults=0",
            "awm-hub list --dataset out --json",
        ),
    )
    add_dataset(parser)
    parser.add_argument("--category", metavar="NAME", help="only environments of this category")
    parser.add_argument("--split", choices=("train", "test"), help="only environments of this split")
    parser.add_argument("--interface", choices=("functions", "fastapi"), help="only environments of this interface")
    parser.add_argument("--usage", choices=("train", "eval_only"), help="only environments for this use")
    for what in ("tools", "tables"):
        parser.add_argument(f"--min-{what}", type=int, metavar="N", help=f"at least so many {what}")
        parser.add_argument(f"--max-{what}", type=int, metavar="N", help=f"at most so many {what}")
    parser.add_argument(
        "--quality",
        action="append",
        metavar="NAME=VALUE",
        help="only audited environments with this result: true, false, or at most a number; may be given again",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """List environments."""
    from awm_hub.cli.reports import ListReport
    from awm_hub.hub import load

    environments = load(arguments.dataset, revision=arguments.revision)
    found = [_listed(entry) for entry in environments.entries.values()]
    kept = tuple(_listed(entry) for entry in environments.where(**_filters(arguments)).entries.values())
    report = ListReport(source=environments.source, revision=environments.revision, total=len(found), environments=kept)
    _print(report, console)
    if found and not kept:
        _print_known(found, console)
    return Finished(data=report)


def _filters(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, as `Environments.where` takes it."""
    names = ("category", "split", "interface", "usage", "min_tools", "max_tools", "min_tables", "max_tables")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.quality:
        given["quality"] = dict(_quality(pair) for pair in arguments.quality)
    return given


def _quality(pair: str) -> tuple[str, Any]:
    name, _, value = pair.partition("=")
    if value in ("true", "false"):
        return name, value == "true"
    if value.isdigit():
        return name, int(value)
    raise UsageError(f"--quality {pair}", next_step="write --quality NAME=true, NAME=false or NAME=NUMBER")


def _listed(entry: object) -> "ListedEnvironment":
    from awm_hub.cli.reports import ListedEnvironment

    return ListedEnvironment(**{f.name: getattr(entry, f.name) for f in fields(ListedEnvironment)})


def _print(report: "ListReport", console: Console) -> None:
    head = ("id", "split", "tools", "tasks", "tables", "title")
    rows = [
        (e.id, e.split, str(e.tools_count), str(e.tasks_count), str(e.tables_count), e.title)
        for e in report.environments
    ]
    for line in table([head, *([clean_line(cell, 64) for cell in row] for row in rows)]):
        console.say(line)
    total = counted(report.total, "environment")
    console.say(console.style(f"{len(rows)} of {total} in {clean_line(report.source)}", "dim"))


def _print_known(found: Sequence["ListedEnvironment"], console: Console) -> None:
    categories = sorted({category for e in found for category in e.categories})
    more = ", …" if len(categories) > _CATEGORIES_SHOWN else ""
    splits = sorted({e.split for e in found})
    known = f"categories: {', '.join(categories[:_CATEGORIES_SHOWN])}{more}; splits: {', '.join(splits)}"
    console.say(clean_line(f"none fits what was asked for. Known {known}"))
