"""`awm-hub view`: what happened in stored rollouts, in the terminal or as HTML pages."""

import argparse
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.cli.options import Verbs, add_dataset, add_trust, add_verb
from awm_hub.cli.reports import Finished
from awm_hub.cli.terminal import Console, clean_line
from awm_hub.errors import RecordError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from awm_hub.environment import Environment
    from awm_hub.rollouts import Rollout
    from awm_hub.trajectory import Trajectory
    from awm_hub.viewing import Document, Listed, RowChanges

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,150}")
_DETAILS = """PATH is the folder of a run, one of its files, any stored trajectory (JSON), or trajectories as Parquet.

Which call changed which rows is found by repeating the calls in a fresh instance, where the environment is at hand;
name its dataset where it is not a bundled one."""


@dataclass(frozen=True, kw_only=True)
class ViewReport:
    """`view`: the rollouts that were found, and the one that was asked for."""

    source: str
    rollouts: "tuple[Listed, ...]"
    rollout: Mapping[str, Any] | None = None
    """The one rollout, as it is stored."""
    changes: "RowChanges | None" = None
    """Rows it changed, in the end and per step; null where its environment is not at hand."""
    pages: tuple[str, ...] = ()
    """HTML files that were written."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "view",
        "Show stored rollouts: steps, results, changed rows, verdicts.",
        details=_DETAILS,
        examples=(
            "awm-hub view runs/first",
            "awm-hub view runs/first --rollout public_library_1__owed_by_ingeborg__0",
            "awm-hub view runs/first --html pages",
        ),
    )
    parser.add_argument("path", metavar="PATH", help="a run's folder, a trajectory (JSON), or trajectories (Parquet)")
    parser.add_argument("--rollout", metavar="ID", help="show this rollout")
    parser.add_argument("--html", metavar="OUT", help="write a page: a file for one rollout, a folder for a run")
    add_dataset(parser)
    add_trust(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """View rollouts."""
    rollouts = _opened(Path(arguments.path))
    view = _View(arguments, console)
    if arguments.rollout is not None:
        return view.one(arguments.rollout, _named(rollouts, arguments.rollout))
    if len(rollouts) == 1 and not Path(arguments.path).is_dir():
        return view.one(*next(iter(rollouts.items())))
    return view.all(rollouts)


def _opened(path: Path) -> "Mapping[str, Rollout]":
    """The rollouts that a path holds, in their order."""
    from awm_hub.rollouts import Rollout, open_run
    from awm_hub.rollouts.dataset import read_trajectories
    from awm_hub.rollouts.reading import decoded
    from awm_hub.viewing.document import as_text

    if (path / "run.json").is_file():
        return open_run(path)
    if path.is_file() and path.suffix != ".parquet":
        return {path.stem: Rollout.from_dict(decoded(path.read_bytes(), path.name), path.stem)}
    found: dict[str, Rollout] = {}
    counts: Counter[str] = Counter()
    for trajectory in read_trajectories(path):
        task = as_text(trajectory.task_id or trajectory.environment_id).replace("/", "__")
        rollout = Rollout(id=f"{task}__{counts[task]}", number=counts[task], trajectory=trajectory)
        found[rollout.id] = rollout
        counts[task] += 1
    return found


def _named(rollouts: "Mapping[str, Rollout]", name: str) -> "Rollout":
    if name not in rollouts:
        raise UnknownNameError("rollout", name, rollouts, next_step="without --rollout all are listed")
    return rollouts[name]


class _View:
    """One run of the verb."""

    def __init__(self, arguments: argparse.Namespace, console: Console) -> None:
        self._arguments, self._console = arguments, console
        self._environment = _environments(arguments)

    def one(self, name: str, rollout: "Rollout") -> Finished:
        """Show one rollout, or write its page."""
        with _readable(name):
            line = _listed(name, rollout)
            document, changes = self._document(name, rollout)
        pages: tuple[str, ...] = ()
        if self._arguments.html is not None:
            pages = (self._written(Path(self._arguments.html), document),)
        else:
            self._show(document)
            if changes is None:
                self._hint("its environment is not at hand, or does not run here: --dataset names where it is")
        source = self._arguments.path
        return Finished(
            data=ViewReport(source=source, rollouts=(line,), rollout=rollout.to_dict(), changes=changes, pages=pages)
        )

    def all(self, rollouts: "Mapping[str, Rollout]") -> Finished:
        """List all rollouts, or write a page for each and one that lists them."""
        from awm_hub.viewing import run_document

        lines = tuple(self._lines(rollouts))
        pages: tuple[str, ...] = ()
        if self._arguments.html is not None:
            pages = self._pages(rollouts, lines)
        else:
            self._show(run_document(self._arguments.path, lines))
            if lines:
                self._hint(f"--rollout {lines[0].id} shows one, --html OUT writes pages")
        return Finished(data=ViewReport(source=self._arguments.path, rollouts=lines, pages=pages))

    def _lines(self, rollouts: "Mapping[str, Rollout]") -> "Iterator[Listed]":
        for name, rollout in rollouts.items():
            with _readable(name):
                yield _listed(name, rollout)

    def _pages(self, rollouts: "Mapping[str, Rollout]", lines: "tuple[Listed, ...]") -> tuple[str, ...]:
        from awm_hub.viewing import run_document

        out = Path(self._arguments.html)
        if out.is_file() or out.suffix == ".html":
            step = "name a folder, or choose one rollout with --rollout"
            raise UsageError("the pages of a run take a folder", next_step=step)
        (out / "rollouts").mkdir(parents=True, exist_ok=True)
        links = [f"rollouts/{_file_name(line.id, number)}.html" for number, line in enumerate(lines)]
        index = self._written(out / "index.html", run_document(self._arguments.path, lines, links=links))
        pages = [index]
        for position, (line, link) in enumerate(zip(lines, links, strict=True), 1):
            with _readable(line.id):
                document, _ = self._document(line.id, rollouts[line.id])
            pages.append(self._written(out / link, document, up="../index.html"))
            self._console.progress("page", id=line.id, position=position, total=len(lines))
        return tuple(pages)

    def _document(self, name: str, rollout: "Rollout") -> "tuple[Document, RowChanges | None]":
        from awm_hub.runtime.sync import run as wait_for
        from awm_hub.viewing import rollout_document, row_changes

        trajectory, changes = rollout.trajectory, None
        environment = self._environment(trajectory)
        if environment is not None:
            trust = self._arguments.trust_remote_code
            changes = wait_for(row_changes, trajectory, environment, trust_remote_code=trust)
        error = rollout.judge_error
        document = rollout_document(trajectory, name=name, changes=changes, environment=environment, judge_error=error)
        return document, changes

    def _show(self, document: "Document") -> None:
        from awm_hub.cli.documents import document_lines

        for line in document_lines(document, self._console):
            self._console.say(line)

    def _hint(self, text: str) -> None:
        self._console.say("\n" + self._console.style(clean_line(text), "dim"))

    def _written(self, path: Path, document: "Document", up: str = "") -> str:
        from awm_hub.viewing import html_page

        if path.is_dir():
            raise UsageError(f"{path} is a folder, and one rollout becomes a file", next_step="--html rollout.html")
        path.write_text(html_page(document, up=up), encoding="utf-8", newline="\n")
        if not up:
            self._console.say(f"wrote {clean_line(str(path))}")
        return str(path)


def _listed(name: str, rollout: "Rollout") -> "Listed":
    from awm_hub.viewing import listed

    return listed(name, rollout.trajectory)


def _environments(arguments: argparse.Namespace) -> "Callable[[Trajectory], Environment | None]":
    """Finds the environment of a trajectory in the dataset that was named, None where it has another version."""
    from awm_hub.hub import load

    environments = load(arguments.dataset, revision=arguments.revision)

    def find(trajectory: "Trajectory") -> "Environment | None":
        if trajectory.environment_id not in environments:
            return None
        found = environments[trajectory.environment_id]
        return found if found.content_hash == trajectory.environment_hash else None

    return find


def _file_name(name: str, number: int) -> str:
    """A rollout's id as a file name; ids of others may hold anything."""
    return name if _FILE_NAME.fullmatch(name) else f"rollout-{number}"


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    """A stored trajectory may hold anything anywhere; what cannot be shown is bad data.

    Raises:
        RecordError: a field of the rollout is not what a trajectory holds there.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{name} is no trajectory: {type(error).__name__} {error}") from error
