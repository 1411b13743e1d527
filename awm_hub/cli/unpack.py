"""`awm-hub unpack`: rows of a dataset back to source folders."""

import argparse

from awm_hub.cli.options import Verbs, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "unpack",
        "Write environments of a dataset as source folders.",
        details="""Each becomes a new folder in OUT. Packing them again gives the same content hashes.

Solutions come back with literal arguments, since a row keeps no references like $1.id, and volatile columns as
packing measured them.""",
        examples=("awm-hub unpack -o sources --only public_library_1", "awm-hub unpack out -o sources"),
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        nargs="?",
        help="folder, Parquet file or Hub repo id (default: the bundled set)",
    )
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="folder to write source folders into")
    parser.add_argument(
        "--only", metavar="ENV", action="append", help="write this environment, not all; may be repeated"
    )
    parser.add_argument("--revision", metavar="REF", help="branch, tag or commit of a Hub dataset")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Unpack a dataset."""
    from awm_hub.packing import unpack

    arguments.dataset = arguments.source  # what next steps lead to
    report = unpack(
        arguments.source, arguments.out, arguments.only, revision=arguments.revision, progress=console.pass_on
    )
    for name in report.environments:
        console.say(clean_line(f"{report.out}/{name}"))
    return Finished(data=report)
