"""`awm-hub push`: a dataset folder to the Hub."""

import argparse
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from awm_hub.cli.options import Verbs, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line, counted, table

if TYPE_CHECKING:
    from awm_hub.publishing import PushReport

_SHOWN = 10
_DETAILS = """Data, index, card with plots, and loaders become one commit of the dataset REPO, on top of the one that it
was compared with. Interrupt it at any time and repeat the command: what arrived is not sent again, and before the end
nothing is published.

Environments have to reach a bar: rows of your own have to pass their audit, imported ones have to be audited (they are
published with their findings), and the licence of none may be unknown unless the dataset is private. Exit code 1 says
that some do not, and that nothing was sent. The Hub's own login is used: `hf auth login`, or HF_TOKEN."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "push",
        "Publish a dataset on the Hub, with its card.",
        details=_DETAILS,
        examples=(
            "awm-hub push out awm/envs-1k --dry-run --save card",
            "awm-hub push out awm/envs-1k --tag v1.0",
        ),
    )
    parser.add_argument("out", metavar="OUT", help="dataset folder, as pack and import write it")
    parser.add_argument("repo", metavar="REPO", help="Hub dataset, owner/name; created where it does not exist")
    parser.add_argument("--private", action="store_true", help="create it for its owner only")
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
    parser.add_argument("--tag", metavar="NAME", help="name of this version, such as v1.0; a tag never moves")
    parser.add_argument(
        "--bar",
        metavar="BAR",
        default="default",
        help="what environments have to reach: sound, audited or none (default: sound, audited if imported)",
    )
    parser.add_argument("--remove", action="store_true", help="remove environments that OUT does not have from the Hub")
    parser.add_argument("--save", metavar="FOLDER", help="also write the card and its plots here, to look at")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Publish a dataset."""
    from awm_hub.publishing import push

    report = push(
        arguments.out,
        arguments.repo,
        is_private=arguments.private,
        is_dry_run=arguments.dry_run,
        tag=arguments.tag,
        bar=arguments.bar,
        removes=arguments.remove,
        save=arguments.save,
        progress=console.pass_on,
    )
    for line in _lines(report, arguments, console):
        console.say(line)
    return Finished(data=report, exit_code=1 if report.below else 0)


def _lines(report: "PushReport", arguments: argparse.Namespace, console: Console) -> Iterator[str]:
    yield from _change_lines(report)
    if arguments.save:
        yield f"the card: {clean_line(arguments.save)}/README.md"
    if report.below:
        yield from _below_lines(report, arguments, console)
        return
    if report.is_dry_run:
        megabytes = report.sent_bytes / 2**20
        yield f"{counted(len(report.sent), 'file')} to send ({megabytes:.1f} MB), {len(report.deleted)} to delete"
        yield "next: the same without --dry-run" + (" and with --remove" if report.changes.removed else "")
        return
    if report.sent or report.deleted:
        yield f"{counted(report.environments, 'environment')} in commit {report.commit}"
    else:
        yield f"nothing to do: commit {report.commit} holds this already"
    if report.tag:
        yield f"tagged {clean_line(report.tag)}"
    where = f"{clean_line(shlex.quote(report.repo_id))} --revision {report.tag or report.commit}"
    yield f"next: awm-hub list --dataset {where}"


def _change_lines(report: "PushReport") -> Iterator[str]:
    before = f"commit {report.parent}" if report.parent else "a new repo"
    yield f"against {before}: {report.changes.told}"
    for what in ("added", "changed", "removed"):
        ids: tuple[str, ...] = getattr(report.changes, what)
        if ids:
            more = f" … {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            yield clean_line(f"  {what}: {', '.join(ids[:_SHOWN])}{more}")


def _below_lines(report: "PushReport", arguments: argparse.Namespace, console: Console) -> Iterator[str]:
    yield ""
    yield console.style(f"nothing was sent: {counted(len(report.below), 'environment')} below the bar", "red")
    shown = [(b.id, clean_line("; ".join(b.reasons[:4]), 120)) for b in report.below[:_SHOWN]]
    yield from table([("id", "why"), *shown])
    if len(report.below) > _SHOWN:
        yield f"… {len(report.below) - _SHOWN} more; --json has all"
    from awm_hub.publishing.bar import UNLICENSED

    reasons = {reason for one in report.below for reason in one.reasons}
    if UNLICENSED in reasons:
        yield "next: state the licence (`awm-hub import --license`), or push with --private"
    if reasons - {UNLICENSED}:
        out = clean_line(shlex.quote(arguments.out))
        yield f"next: awm-hub audit {out} --write-quality, mend what it finds; or push with --bar none"
