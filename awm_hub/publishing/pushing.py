"""A push, step by step: read, hold against the bar, compare, upload, commit, tag."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awm_hub.card import Card, EnvironmentFacts, build_card, facts_of
from awm_hub.errors import DataError, UsageError
from awm_hub.hub import Environments, load
from awm_hub.publishing.bar import BARS, BelowBar, below_bar, without_license
from awm_hub.publishing.changes import Changes, FileChanges, compare, compare_files, is_own
from awm_hub.publishing.content import check_folder, content
from awm_hub.publishing.hub import HubRepo, RepoState

Progress = Callable[[Mapping[str, Any]], None]
"""Called with one JSON object per event: `event` and what it is about."""

REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_DESCRIBED = 100
_MADE_BY_THE_HUB = (".gitattributes", "README.md")


@dataclass(frozen=True, kw_only=True)
class PushReport:
    """What a push did, or with `is_dry_run` would do."""

    repo_id: str
    is_dry_run: bool
    environments: int
    tasks: int
    below: tuple[BelowBar, ...]
    """Environments that stopped it; where there are any, nothing was sent."""
    changes: Changes
    sent: tuple[str, ...]
    """Files that are new or different."""
    deleted: tuple[str, ...]
    sent_bytes: int
    """Their size; large files that the Hub already had did not travel."""
    commit: str | None
    """The commit that holds this content: a new one, or where nothing changed the one that was there."""
    parent: str | None
    """The commit that was compared with; None for a new repo."""
    tag: str | None


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """A push before anything is sent."""

    facts: Sequence[EnvironmentFacts]
    card: Card
    state: RepoState
    below: tuple[BelowBar, ...]
    changes: Changes
    files: FileChanges


def push(
    out: str | os.PathLike[str],
    repo_id: str,
    *,
    is_private: bool = False,
    is_dry_run: bool = False,
    tag: str | None = None,
    bar: str = "default",
    removes: bool = False,
    save: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> PushReport:
    """Publish a dataset folder as a Hub dataset, in one commit.

    Args:
        out: The folder that `pack` or `import` wrote.
        repo_id: `owner/name`; created where it does not exist.
        is_private: Create it for its owner only. A repo that is public already is refused.
        is_dry_run: Compare, and change nothing.
        tag: A name for the commit, such as `v1.2`.
        bar: What environments have to reach: `default`, `sound`, `audited` or `none`; see `awm_hub.publishing.bar`.
        removes: Remove environments from the Hub that the folder does not have; otherwise that is refused.
        save: Also write the card and its plots to this folder, to look at.
        progress: Called with one event per step.

    Returns:
        What was done. Where environments are below the bar (`below`), nothing was.

    Raises:
        UsageError: the name, the tag or the bar is none, the repo is no dataset of this kind, is public, or would lose
            environments.
        DataError: the folder holds no dataset, or a broken one.
        RemoteError: the Hub does not take it, or somebody else committed meanwhile.
    """
    tell = progress or (lambda event: None)
    _check_names(repo_id, tag, bar)
    hub = HubRepo(repo_id)
    plan = _plan(Path(out), hub, bar, is_private, tag, tell)
    if save is not None:
        _save(plan.card, Path(save))
    if plan.below or is_dry_run:
        return _report(plan, repo_id, None, None, is_dry_run=is_dry_run)
    if plan.changes.removed and not removes:
        shown = ", ".join(plan.changes.removed[:5]) + (", …" if len(plan.changes.removed) > 5 else "")
        message = f"{repo_id} would lose {len(plan.changes.removed)} of its environments ({shown})"
        raise UsageError(message, next_step="name the right folder, or push with --remove")
    commit = _commit(hub, plan, is_private, tell)
    if tag is not None and plan.state.tags.get(tag) != commit:
        hub.tag(tag, commit)
        tell({"event": "tagged", "tag": tag, "commit": commit})
    return _report(plan, repo_id, commit, tag, is_dry_run=False)


def _check_names(repo_id: str, tag: str | None, bar: str) -> None:
    if not REPO_ID.fullmatch(repo_id):
        raise UsageError(f"{repo_id!r} is no repo id", next_step="name it as owner/name")
    if tag is not None and not _TAG.fullmatch(tag):
        raise UsageError(f"{tag!r} is no tag", next_step="a tag is letters, digits, `.`, `-` and `_`, such as v1.2")
    if bar not in BARS:
        raise UsageError(f"there is no bar {bar!r}", next_step=f"one of {', '.join(BARS)}")


def _plan(folder: Path, hub: HubRepo, bar: str, is_private: bool, tag: str | None, tell: Progress) -> _Plan:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder", next_step="name a folder that `awm-hub pack` or `import` wrote")
    environments = load(folder)
    check_folder(folder, environments)
    facts = tuple(_facts(environments, tell))
    card = build_card(facts, hub.repo_id)
    below = _together((*below_bar(facts, bar), *(() if is_private else without_license(facts))))
    state = hub.state()
    _check_state(hub.repo_id, state, is_private)
    files = compare_files(content(folder, card), state.files)
    _check_tag(tag, state, files)
    after = {e.id: e.content_hash for e in facts}
    changes = compare(_published(hub.repo_id, state), after)
    tell({"event": "compared", "commit": state.commit, "changes": changes.told, "files": len(files.sent)})
    return _Plan(facts=facts, card=card, state=state, below=below, changes=changes, files=files)


def _together(found: Iterable[BelowBar]) -> tuple[BelowBar, ...]:
    """Each environment once, with all its reasons."""
    reasons: dict[str, tuple[str, ...]] = {}
    for one in found:
        reasons[one.id] = (*reasons.get(one.id, ()), *one.reasons)
    return tuple(BelowBar(id=name, reasons=told) for name, told in reasons.items())


def _facts(environments: Environments, tell: Progress) -> Iterator[EnvironmentFacts]:
    """Facts of all rows, each of which is checked when it is read."""
    for position, environment in enumerate(environments.values(), 1):
        yield facts_of(environment)
        if position % 100 == 0 or position == len(environments):
            tell({"event": "read", "position": position, "total": len(environments)})


def _check_state(repo_id: str, state: RepoState, is_private: bool) -> None:
    if is_private and state.is_private is False:
        step = "make it private in its settings, or leave out --private"
        raise UsageError(f"{repo_id} exists and is public", next_step=step)
    others = [f for f in state.files if not is_own(f) and f not in _MADE_BY_THE_HUB]
    if others and "index.parquet" not in state.files:
        shown = ", ".join(sorted(others)[:3])
        raise UsageError(
            f"{repo_id} holds something other than a dataset of environments ({shown})",
            next_step="name another repo, or delete that one",
        )


def _check_tag(tag: str | None, state: RepoState, files: FileChanges) -> None:
    """A tag never moves."""
    if tag is None or tag not in state.tags:
        return
    if files.sent or files.deleted or state.tags[tag] != state.commit:
        raise UsageError(f"the tag {tag} names another state already", next_step="choose the next version")


def _published(repo_id: str, state: RepoState) -> dict[str, str]:
    """Environments on the Hub, as id → `content_hash`."""
    if "index.parquet" not in state.files:
        return {}
    found = load(f"hf://datasets/{repo_id}", revision=state.commit)
    return {name: entry.content_hash for name, entry in found.entries.items()}


def _commit(hub: HubRepo, plan: _Plan, is_private: bool, tell: Progress) -> str:
    """Upload and commit what differs; the commit that now holds the content."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    files, parent = plan.files, plan.state.commit
    if parent is not None and not files.sent and not files.deleted:
        return parent
    if parent is None:
        hub.create(is_private=is_private)
        parent = hub.state().commit
    additions = [
        CommitOperationAdd(f.path, f.source if isinstance(f.source, bytes) else str(f.source)) for f in files.sent
    ]
    large = [(f, a) for f, a in zip(files.sent, additions, strict=True) if f.path.endswith(".parquet")]
    for position, (file, addition) in enumerate(large, 1):
        hub.upload(addition)
        tell({"event": "uploaded", "file": file.path, "bytes": file.size, "position": position, "total": len(large)})
    operations = [*additions, *(CommitOperationDelete(path) for path in files.deleted)]
    title = f"{len(plan.facts):,} environments: {plan.changes.told}"
    commit = hub.commit(operations, parent=parent, title=title, description=_description(plan.changes))
    tell({"event": "committed", "commit": commit})
    return commit


def _description(changes: Changes) -> str:
    lines = []
    for what in ("added", "changed", "removed"):
        ids: tuple[str, ...] = getattr(changes, what)
        more = f" and {len(ids) - _DESCRIBED:,} more" if len(ids) > _DESCRIBED else ""
        lines += [f"{what}: {', '.join(ids[:_DESCRIBED])}{more}"] if ids else []
    return "\n\n".join(lines)


def _save(card: Card, folder: Path) -> None:
    for name, text in card.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def _report(plan: _Plan, repo_id: str, commit: str | None, tag: str | None, *, is_dry_run: bool) -> PushReport:
    return PushReport(
        repo_id=repo_id,
        is_dry_run=is_dry_run,
        environments=len(plan.facts),
        tasks=sum(len(e.tasks) for e in plan.facts),
        below=plan.below,
        changes=plan.changes,
        sent=tuple(f.path for f in plan.files.sent),
        deleted=plan.files.deleted,
        sent_bytes=sum(f.size for f in plan.files.sent),
        commit=commit,
        parent=plan.state.commit,
        tag=tag,
    )
