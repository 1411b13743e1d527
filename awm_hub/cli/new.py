"""`awm-hub new`: a source folder to start from, which packs and passes as it is."""

import argparse
import shlex

from awm_hub.cli.options import Verbs, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "new",
        "Write the source folder of a small new environment.",
        details="It packs and passes as it is. The folder's name is the environment's id: a-z, 0-9 and _.",
        examples=("awm-hub new ferry_port_1", "awm-hub new environments/ferry_port_1"),
    )
    parser.add_argument("name", metavar="NAME", help="id, or a path that ends with it")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Scaffold a source folder."""
    from awm_hub.packing import scaffold

    folder = scaffold(arguments.name)
    files = tuple(sorted(p.name for p in folder.iterdir()))
    for name in files:
        console.say(clean_line(str(folder / name)))
    console.say(f"next: awm-hub pack {clean_line(shlex.quote(str(folder)))} -o out")
    from awm_hub.cli.reports import NewReport

    return Finished(data=NewReport(folder=str(folder), files=files))
