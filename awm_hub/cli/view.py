"""`awm-hub view`: what happened in stored rollouts, in the terminal or as HTML pages."""

import argparse
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.cli.options import Verbs, add_dataset, add_trust, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line
from awm_hub.errors import DataError, RecordError

if TYPE_CHECKING:
    from awm_hub.environment import Environment
    from awm_hub.rollouts import Rollout
    from awm_hub.trajectory import Trajectory
    from awm_hub.viewing import Document, Listed, RowChanges, Source, Survey, Unreadable

_DETAILS = """PATH is the folder of a run, one of its files, any stored trajectory (JSON) or a folder of them, or
trajectories as Parquet.

Which call changed which rows is found by repeating the calls in a fresh instance, where the environment is at hand;
name its dataset where it is not a bundled one.

Exit code 1 says that some of the rollouts cannot be read; the others are shown."""


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
    planned: int | None = None
    """Rollouts of the run's plan; null where there is no plan, or one rollout was asked for."""
    unreadable: "tuple[Unreadable, ...]" = ()
    """Rollouts that cannot be read."""
    metrics: Mapping[str, Any] | None = None
    """`overall`, `environments`, `tasks`, as `rollout` reports them; null where one rollout was asked for."""


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
    parser.add_argument("path", metavar="PATH", help="a run's folder, trajectories (JSON or a folder of it, Parquet)")
    parser.add_argument("--rollout", metavar="ID", help="show this rollout")
    parser.add_argument("--full", action="store_true", help="show long texts whole, and what is left out otherwise")
    parser.add_argument("--html", metavar="OUT", help="write a page: a file for one rollout, a folder for a run")
    add_dataset(parser)
    add_trust(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """View rollouts."""
    from awm_hub.viewing import opened

    source = opened(Path(arguments.path))
    view = _View(arguments, console, source)
    if arguments.rollout is not None:
        return view.one(arguments.rollout, source.one(arguments.rollout))
    if len(source.rollouts) == 1 and not Path(arguments.path).is_dir():
        return view.one(*next(iter(source.rollouts.items())))
    return view.all(source)


class _View:
    """One run of the verb."""

    def __init__(self, arguments: argparse.Namespace, console: Console, source: "Source") -> None:
        self._arguments, self._console = arguments, console
        self._environment = _environments(*_dataset(arguments, source))

    def one(self, name: str, rollout: "Rollout") -> Finished:
        """Show one rollout, or write its page."""
        from awm_hub.viewing import html_page, listed, write_page

        with _readable(name):
            line = listed(name, rollout.trajectory)
            document, changes = self._document(name, rollout)
        pages: tuple[str, ...] = ()
        if self._arguments.html is not None:
            pages = (write_page(Path(self._arguments.html), html_page(document)),)
            self._wrote(pages[0])
        else:
            self._show(document)
            if changes is None:
                self._hint("its environment is not at hand, or does not run here: --dataset names where it is")
        source = self._arguments.path
        return Finished(
            data=ViewReport(source=source, rollouts=(line,), rollout=rollout.to_dict(), changes=changes, pages=pages)
        )

    def all(self, source: "Source") -> Finished:
        """List all rollouts with what they come to, or write a page for each and one that lists them."""
        from awm_hub.viewing import run_document, survey

        found = survey(source.rollouts, folder=source.folder, planned=source.planned, remedy=source.remedy)
        if found.unreadable and not found.rollouts and source.planned is None:
            reason = found.unreadable[0].reason
            raise DataError(f"{self._arguments.path} holds no trajectories: {reason}", next_step="name a run's folder")
        pages: tuple[str, ...] = ()
        if self._arguments.html is not None:
            pages = self._pages(source, found)
        else:
            self._show(run_document(self._arguments.path, found))
            if found.rollouts:
                self._hint(f"--rollout {found.rollouts[0].id} shows one, --html OUT writes pages")
        report = ViewReport(
            source=self._arguments.path,
            rollouts=found.rollouts,
            pages=pages,
            planned=found.planned,
            unreadable=found.unreadable,
            metrics=found.metrics.to_dict(),
        )
        return Finished(data=report, exit_code=1 if found.unreadable else 0)

    def _pages(self, source: "Source", found: "Survey") -> tuple[str, ...]:
        from awm_hub.viewing import PagesFolder

        folder = PagesFolder(Path(self._arguments.html), self._arguments.path, found)
        self._wrote(folder.index)
        pages = [folder.index]
        for position, line in enumerate(found.rollouts, 1):
            with _readable(line.id):
                document, _ = self._document(line.id, source.one(line.id))
            pages.append(folder.add(line.id, document))
            self._console.progress("page", id=line.id, position=position, total=len(found.rollouts))
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
        from awm_hub.cli.documents import BRIEF, FULL, document_lines

        for line in document_lines(document, self._console, FULL if self._arguments.full else BRIEF):
            self._console.say(line)

    def _hint(self, text: str) -> None:
        self._console.say("\n" + self._console.style(clean_line(text), "dim"))

    def _wrote(self, path: str) -> None:
        self._console.say(f"wrote {clean_line(path)}")


def _dataset(arguments: argparse.Namespace, source: "Source") -> tuple[str | None, str | None]:
    """The dataset that was named, or the one that a run came from while it is here: nothing is fetched unasked."""
    is_here = not arguments.dataset and source.dataset is not None and Path(source.dataset).exists()
    return (source.dataset, source.revision) if is_here else (arguments.dataset, arguments.revision)


def _environments(dataset: str | None, revision: str | None) -> "Callable[[Trajectory], Environment | None]":
    """Finds the environment of a trajectory in a dataset, None where it has another version."""
    from awm_hub.hub import load

    environments = load(dataset, revision=revision)

    def find(trajectory: "Trajectory") -> "Environment | None":
        if trajectory.environment_id not in environments:
            return None
        found = environments[trajectory.environment_id]
        return found if found.content_hash == trajectory.environment_hash else None

    return find


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
