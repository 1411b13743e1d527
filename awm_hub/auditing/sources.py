"""What can be audited: source folders, a packed folder, a Parquet file, a dataset on the Hub.

Source folders are built in the sandbox as `pack` does it, one at a time and not before their turn comes.
"""

import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from awm_hub import hub
from awm_hub.environment import Environment
from awm_hub.errors import UnknownNameError
from awm_hub.packing import build_environment, read_source, source_folders


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is audited: ids, and a way to get each environment when its turn comes."""

    source: str
    revision: str | None
    ids: tuple[str, ...]
    get: Callable[[str], Awaitable[Environment]]
    folders: tuple[Path, ...] = ()
    """Source folders, in the order of the ids; empty for a packed dataset."""


def open_subject(
    source: str | os.PathLike[str] | None,
    *,
    revision: str | None = None,
    ids: Iterable[str] | None = None,
    trust_remote_code: bool = False,
) -> Subject:
    """Find what is to be audited.

    Raises:
        DataError: there is no such dataset, source or environment.
        RemoteError: the Hub does not have it, or cannot be reached.
    """
    if source is not None and _holds_sources(Path(source)):
        return _sources(source, ids, trust_remote_code)
    environments = hub.load(source, revision=revision)

    async def get(name: str) -> Environment:
        return environments[name]

    return Subject(
        source=environments.source,
        revision=environments.revision,
        ids=_chosen(environments, ids),
        get=get,
    )


def _holds_sources(path: Path) -> bool:
    is_packed = (path / "index.parquet").is_file()
    has_sources = (path / "scenario.toml").is_file() or any(path.glob("*/scenario.toml"))
    return path.is_dir() and not is_packed and has_sources


def _sources(source: str | os.PathLike[str], ids: Iterable[str] | None, trust_remote_code: bool) -> Subject:
    folders = {folder.name: folder for folder in source_folders(source)}
    chosen = _chosen(folders, ids)

    async def get(name: str) -> Environment:
        return await build_environment(read_source(folders[name]), trust_remote_code=trust_remote_code)

    return Subject(
        source=os.fspath(source),
        revision=None,
        ids=chosen,
        get=get,
        folders=tuple(folders[name] for name in chosen),
    )


def _chosen(known: Iterable[str], ids: Iterable[str] | None) -> tuple[str, ...]:
    every = sorted(known)
    for name in ids or ():
        if name not in every:
            raise UnknownNameError("environment", name, every, next_step="`awm-hub list --dataset SOURCE` shows all")
    return tuple(dict.fromkeys(ids)) if ids is not None else tuple(every)
