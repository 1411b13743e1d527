"""`awm-hub space push`: the playground as a Space of one's own."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from awm_hub.cli.options import Verbs, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line, counted

if TYPE_CHECKING:
    from awm_hub.publishing.space import SpaceReport

_DETAILS = """The Space REPO shows a dataset to people: they browse its environments, play them, and watch agents. It is
created where it does not exist, else brought up to date, in one commit; a push that would change nothing commits
nothing.

Until a version is on PyPI that has what you changed, give the wheel that you built: it is uploaded beside the app. The
Hub's own login is used: `hf auth login`, or HF_TOKEN."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "space",
        "Publish the playground as a Space.",
        details=_DETAILS,
        examples=("awm-hub space push me/playground --dataset me/envs", "awm-hub space push me/playground --dry-run"),
    )
    parser.add_argument("action", choices=["push"], help="what to do with it")
    parser.add_argument("repo", metavar="REPO", help="Space, owner/name")
    parser.add_argument("--dataset", metavar="DATASET", help="Hub dataset that it shows; default: the bundled set")
    parser.add_argument("--wheel", metavar="FILE", help="wheel of awm-hub to run, in place of the released one")
    parser.add_argument("--private", action="store_true", help="create it for its owner only")
    parser.add_argument("--hardware", metavar="NAME", help="what it runs on, such as cpu-upgrade, which costs money")
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Publish the Space."""
    from awm_hub.publishing.space import push_space

    report = push_space(
        arguments.repo,
        dataset=arguments.dataset,
        wheel=arguments.wheel,
        is_private=arguments.private,
        hardware=arguments.hardware,
        is_dry_run=arguments.dry_run,
        progress=console.pass_on,
    )
    for line in _lines(report):
        console.say(line)
    return Finished(data=report)


def _lines(report: "SpaceReport") -> Iterator[str]:
    for told, paths in (("send", report.sent), ("delete", report.deleted)):
        if paths:
            yield clean_line(f"{told}: {', '.join(paths)}")
    for name, value in report.variables.items():
        yield clean_line(f"variable: {name}={value}")
    if report.hardware:
        yield clean_line(f"hardware: {report.hardware}")
    if report.is_dry_run:
        yield f"{counted(len(report.sent), 'file')} to send"
        yield "next: the same without --dry-run"
        return
    if not report.sent and not report.deleted:
        yield f"nothing to do: commit {report.commit} holds this already"
    yield clean_line(f"next: https://huggingface.co/spaces/{report.repo_id} (it takes some minutes to build)")
