"""The playground as a Space of one's own: three files, perhaps a wheel, one commit.

A Space is built anew when its `requirements.txt` changes, in an image that holds nothing else of the repo. A wheel is
therefore named there by its address and its SHA-256: another wheel of the same version is another requirement.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from awm_hub.card import carried
from awm_hub.errors import UsageError
from awm_hub.publishing.changes import FileChanges
from awm_hub.publishing.content import RepoFile
from awm_hub.publishing.hub import HubRepo, RepoState
from awm_hub.publishing.pushing import REPO_ID

_CARD, _APP = "README.md", "app.py"
_NAMES = (_CARD, _APP, "requirements.txt")
_MADE_BY_THE_HUB = {".gitattributes", _CARD}
_REQUIREMENT = "awm-hub[space]"
_DATASET = "AWM_HUB_DATASET"


@dataclass(frozen=True, kw_only=True)
class SpaceReport:
    """What a push of a Space did, or would do."""

    repo_id: str
    is_dry_run: bool
    sent: tuple[str, ...]
    deleted: tuple[str, ...]
    variables: Mapping[str, str]
    """That it was given."""
    hardware: str | None
    """That was asked for."""
    commit: str | None
    """That holds the content; None after a dry run."""


def push_space(
    repo_id: str,
    *,
    dataset: str | None = None,
    wheel: str | os.PathLike[str] | None = None,
    is_private: bool = False,
    hardware: str | None = None,
    is_dry_run: bool = False,
    progress: Callable[[Mapping[str, Any]], None] | None = None,
) -> SpaceReport:
    """Create or update a Space that runs the playground.

    Args:
        repo_id: `owner/name`; created where it does not exist.
        dataset: Hub dataset that it shows; None leaves what it shows as it is, at first the bundled environments.
        wheel: Of this package, to be uploaded beside the app; None installs the released one. The Space has to be
            public then, since its build downloads the wheel without a token.
        is_private: Create it for its owner only. A Space that is public already is refused.
        hardware: What it runs on, by the Hub's name; None leaves that as it is, at first the free `cpu-basic`.
        is_dry_run: Compare, and change nothing.
        progress: Called with one event per step.

    Raises:
        UsageError: a name is no repo id, the wheel is none of this package, or it is to be used privately, or the Space
            is another one than a playground, or public.
        RemoteError: the Hub does not take it, or somebody else committed meanwhile.
    """
    tell = progress or (lambda event: None)
    for name in (repo_id, *([dataset] if dataset else ())):
        if not REPO_ID.fullmatch(name):
            raise UsageError(f"{name!r} is no repo id", next_step="name it as owner/name")
    hub = HubRepo(repo_id, "space")
    state = hub.state()
    variables = hub.variables() if state.commit else {}
    files = _files(repo_id, dataset or variables.get(_DATASET), None if wheel is None else Path(wheel))
    _check_state(hub, state, files, is_private=is_private, has_wheel=wheel is not None)
    changes = _compared(files, state)
    report = SpaceReport(
        repo_id=repo_id,
        is_dry_run=is_dry_run,
        sent=tuple(f.path for f in changes.sent),
        deleted=changes.deleted,
        variables={_DATASET: dataset} if dataset else {},
        hardware=hardware,
        commit=None,
    )
    tell({"event": "compared", "commit": state.commit, "files": len(changes.sent)})
    if is_dry_run:
        return report
    if state.commit is None:
        hub.create(is_private=is_private)
        state = hub.state()
        changes = _compared(files, state)
    for name, value in report.variables.items():
        if variables.get(name) != value:
            hub.set_variable(name, value)
    if hardware is not None:
        hub.ask_for_hardware(hardware)
    commit = _commit(hub, state, changes)
    tell({"event": "committed", "commit": commit})
    return replace(report, sent=tuple(f.path for f in changes.sent), deleted=changes.deleted, commit=commit)


def _check_state(
    hub: HubRepo, state: RepoState, files: tuple[RepoFile, ...], *, is_private: bool, has_wheel: bool
) -> None:
    if is_private and state.is_private is False:
        step = "make it private in its settings, or leave out --private"
        raise UsageError(f"{hub.repo_id} exists and is public", next_step=step)
    if has_wheel and (is_private or state.is_private):
        step = "make the Space public, or use the released package"
        raise UsageError("the build of a private Space cannot download a wheel from it", next_step=step)
    if not set(state.files) <= _MADE_BY_THE_HUB and not _is_playground(hub, state, files):
        step = "name another one, or delete that one"
        raise UsageError(f"{hub.repo_id} holds another Space than a playground", next_step=step)


def _is_playground(hub: HubRepo, state: RepoState, files: tuple[RepoFile, ...]) -> bool:
    """Whether the app is one that this package pushed, now or at an earlier version."""
    if _APP not in state.files:
        return False
    is_same = any(f.path == _APP and state.files[_APP].holds(f) for f in files)
    return is_same or b"awm_hub.playground" in hub.read(_APP, state.commit)


def _files(repo_id: str, dataset: str | None, wheel: Path | None) -> tuple[RepoFile, ...]:
    """The files of the Space, whose card names the dataset, so that the dataset's page names the Space."""
    folder = carried("spaces") / "playground"
    found: dict[str, Path | bytes] = {name: folder / name for name in _NAMES}
    if dataset is not None and REPO_ID.fullmatch(dataset):
        front, _, text = (folder / _CARD).read_text(encoding="utf-8").partition("\n---\n")
        found[_CARD] = f"{front}\ndatasets:\n  - {dataset}\n---\n{text}".encode()
    if wheel is not None:
        if not (wheel.is_file() and wheel.name.startswith("awm_hub-") and wheel.suffix == ".whl"):
            step = "build one: python -m build --wheel"
            raise UsageError(f"{wheel} is no wheel of awm-hub", next_step=step)
        found[wheel.name] = wheel
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        found["requirements.txt"] = f"{_REQUIREMENT} @ {_url(repo_id, wheel.name)}#sha256={digest}\n".encode()
    return tuple(RepoFile(path=path, source=source) for path, source in sorted(found.items()))


def _url(repo_id: str, name: str) -> str:
    """Where a build finds a file of the Space, which it does not see beside `requirements.txt`."""
    from huggingface_hub import hf_hub_url

    return hf_hub_url(repo_id, name, repo_type="space")


def _compared(files: tuple[RepoFile, ...], state: RepoState) -> FileChanges:
    """What is to be sent, and wheels of before that are to go."""
    paths = {f.path for f in files}
    sent = tuple(f for f in files if f.path not in state.files or not state.files[f.path].holds(f))
    gone = tuple(sorted(p for p in state.files if p.startswith("awm_hub-") and p.endswith(".whl") and p not in paths))
    return FileChanges(sent=sent, deleted=gone)


def _commit(hub: HubRepo, state: RepoState, changes: FileChanges) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    assert state.commit is not None
    if not changes.sent and not changes.deleted:
        return state.commit
    sources = ((f.path, f.source if isinstance(f.source, bytes) else str(f.source)) for f in changes.sent)
    added = [CommitOperationAdd(path, source) for path, source in sources]
    deleted = [CommitOperationDelete(path) for path in changes.deleted]
    return hub.commit([*added, *deleted], parent=state.commit, title="awm-hub playground", description="")
