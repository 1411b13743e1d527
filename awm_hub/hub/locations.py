"""Where a dataset lies: in a folder, in one Parquet file, or on the Hub.

A location opens the dataset's files. Of the Hub's, the index and small files are downloaded into the Hub's own cache,
and large ones are read by ranges, unless that cache has them: `hf download` beforehand makes a machine independent of
the network. What was read once works offline, and a revision is pinned to the commit that it stood for when the dataset
was opened.
"""

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from awm_hub.errors import DataError, RemoteError, SourceError, UsageError
from awm_hub.hub.ranges import FileFacts, RangeFile, keep_facts, kept_facts

_REPO_ID = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_HUB_URI = re.compile(r"hf://datasets/(?P<id>[\w.-]{1,96}/[\w.-]{1,96})(?:@(?P<revision>[^/]+))?/?")
_SHARD = re.compile(r"(?:environments/)?[^/]+\.parquet")
INDEX = "index.parquet"
_NAMING = "name a folder, a Parquet file or a Hub dataset (owner/name)"
_TIMEOUT_S = 30
_RETRIES = 2
_WHOLE_BYTES = 2**20
"""Files up to this size are downloaded whole: that is one request instead of three."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """As whom the Hub is asked, and where its answers are kept.

    The Hub's client gives what its cache has to whoever asks, also of a repo that the one who asks may not see. A
    program that acts for several people needs a folder for each.
    """

    token: str | bool | None = field(default=None, repr=False)
    """None: the login of this machine, if there is one; False: nobody's."""
    cache_dir: Path | None = None
    """In place of the Hub's own cache."""

    @property
    def assets(self) -> Path:
        """The folder for libraries' own files."""
        from huggingface_hub import constants

        return Path(constants.HF_ASSETS_CACHE) if self.cache_dir is None else self.cache_dir / "assets"


class Location(Protocol):
    """A dataset's files."""

    source: str
    """As it was asked for."""
    revision: str | None
    """Commit on the Hub."""

    def index(self) -> Path | None:
        """The index, or None where the dataset has none."""

    def files(self) -> list[str]:
        """Parquet files of the `environments` config, relative to the root."""

    def open(self, file: str) -> Path | RangeFile:
        """One of them, for reading here or there."""


class Folder:
    """A dataset folder on this machine."""

    revision: str | None = None

    def __init__(self, path: Path, source: str) -> None:
        self._root, self.source = path, source

    def index(self) -> Path | None:
        """The index, or None where the dataset has none."""
        return self._root / INDEX if (self._root / INDEX).is_file() else None

    def files(self) -> list[str]:
        """Parquet files of the `environments` config, relative to the root."""
        found = [*self._root.glob("environments/*.parquet"), *self._root.glob("*.parquet")]
        return shards(sorted(p.relative_to(self._root).as_posix() for p in found))

    def open(self, file: str) -> Path:
        """The local path of one of them."""
        return self._root / file


class File:
    """One Parquet file on this machine."""

    revision: str | None = None

    def __init__(self, path: Path, source: str) -> None:
        self._path, self.source = path, source

    def index(self) -> Path | None:
        """None: a single file has no index."""
        return None

    def files(self) -> list[str]:
        """The file itself."""
        return [self._path.name]

    def open(self, file: str) -> Path:
        """The file's path."""
        return self._path


class HubRepo:
    """A dataset repo on the Hub, pinned to one commit."""

    def __init__(self, repo_id: str, revision: str | None, source: str, access: Access) -> None:
        self._repo_id, self.source, self._access = repo_id, source, access
        self._index = self._download(INDEX, revision)
        self._info: Any = None
        if self._index is None:
            self._info = self._fetch_info(revision)
        # The Hub's cache names the folder of a snapshot by its commit.
        self.revision: str | None = self._info.sha if self._index is None else self._index.parent.name

    def index(self) -> Path | None:
        """The index, or None where the dataset has none."""
        return self._index

    def files(self) -> list[str]:
        """Parquet files of the `environments` config, relative to the root."""
        info = self._info or self._fetch_info(self.revision)
        return shards(sorted(s.rfilename for s in info.siblings or ()))

    def open(self, file: str) -> Path | RangeFile:
        """One of them: a path where the Hub's cache has it, or where it is small or needed as a whole."""
        facts = None if self._is_cached(file, self.revision) or self._index is None else self._facts(file)
        if facts is not None and facts.size > _WHOLE_BYTES:
            return RangeFile(facts.size, self._assets(facts.etag), lambda start, end: self._fetch(file, start, end))
        found = self._download(file, self.revision)
        if found is None:
            raise self._missing(file)
        return found

    def _missing(self, file: str) -> RemoteError:
        return RemoteError(f"{self._repo_id} has no file {file}", next_step="ask its author to pack it again")

    def _is_cached(self, file: str, revision: str | None) -> bool:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(
            self._repo_id, file, cache_dir=self._access.cache_dir, repo_type="dataset", revision=revision
        )
        return isinstance(found, str)

    def _assets(self, *parts: str) -> Path:
        """A folder of ours in the Hub's folder for libraries' own files."""
        return Path(self._access.assets, "awm-hub", self._repo_id.replace("/", "--"), *parts)

    def _facts(self, file: str) -> FileFacts | None:
        """What the Hub says about a file of this commit, asked once; None where nothing is known offline."""
        from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
        from huggingface_hub.errors import EntryNotFoundError

        place = self._assets(str(self.revision), f"{file.replace('/', '--')}.json")
        facts = kept_facts(place)
        if facts is not None or constants.HF_HUB_OFFLINE:
            return facts
        url = hf_hub_url(self._repo_id, file, repo_type="dataset", revision=self.revision)
        try:
            with quiet_hub_client():
                found = get_hf_file_metadata(url, token=self._access.token, timeout=_TIMEOUT_S)
        except EntryNotFoundError:
            raise self._missing(file) from None
        except _remote_errors() as error:
            raise self._error(error, self.revision, file) from error
        if found.etag is None or found.size is None:
            return None
        facts = FileFacts(etag=found.etag, size=found.size)
        keep_facts(place, facts)
        return facts

    def _fetch(self, file: str, start: int, end: int) -> bytes:
        from huggingface_hub import constants, hf_hub_url
        from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented there, but not in its `__all__`
            build_hf_headers,
            hf_raise_for_status,
            http_backoff,
        )

        if constants.HF_HUB_OFFLINE:
            raise self._error(OSError("offline"), self.revision, f"this part of {file}")
        url = hf_hub_url(self._repo_id, file, repo_type="dataset", revision=self.revision)
        asking = build_hf_headers(token=self._access.token)
        headers = {**asking, "Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
        try:
            with quiet_hub_client():
                answer = http_backoff("GET", url, headers=headers, timeout=_TIMEOUT_S, max_retries=_RETRIES)
                hf_raise_for_status(answer)
        except _remote_errors() as error:
            raise self._error(error, self.revision, file) from error
        data: bytes = answer.content if answer.status_code == 206 else answer.content[start:end]
        if len(data) != end - start:
            message = f"the Hub sent {len(data)} of {end - start} bytes of {self._repo_id}: {file}"
            raise RemoteError(message, next_step="try again")
        return data

    def _download(self, file: str, revision: str | None) -> Path | None:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            with quiet_hub_client():
                self._reach(file, revision)
                found = hf_hub_download(
                    self._repo_id,
                    file,
                    repo_type="dataset",
                    revision=revision,
                    cache_dir=self._access.cache_dir,
                    token=self._access.token,
                )
                return Path(found)
        except LocalEntryNotFoundError as error:
            raise self._error(error, revision, file) from error
        except EntryNotFoundError:
            return None
        except _remote_errors() as error:
            raise self._error(error, revision, file) from error

    def _reach(self, file: str, revision: str | None) -> None:
        """Ask once for a file that the cache does not have: a download from nowhere is tried for half a minute."""
        from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
        from huggingface_hub.errors import HfHubHTTPError

        if constants.HF_HUB_OFFLINE or self._is_cached(file, revision):
            return
        with contextlib.suppress(HfHubHTTPError):  # an answer, which the download gets again and tells apart
            url = hf_hub_url(self._repo_id, file, repo_type="dataset", revision=revision)
            get_hf_file_metadata(url, token=self._access.token, timeout=_TIMEOUT_S)

    def _fetch_info(self, revision: str | None) -> Any:
        from huggingface_hub import HfApi

        try:
            with quiet_hub_client():
                api = HfApi(token=self._access.token)
                return api.dataset_info(self._repo_id, revision=revision, timeout=_TIMEOUT_S)
        except _remote_errors() as error:
            raise self._error(error, revision, "list of files") from error

    def _error(self, error: Exception, revision: str | None, file: str) -> RemoteError:
        from huggingface_hub import constants
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        # A name like owner/name may have been meant as a path.
        here = "" if self.source.startswith("hf://") else f"there is no folder {self.source} here, and "
        if isinstance(error, RevisionNotFoundError):
            return RemoteError(f"{self._repo_id} has no revision {revision!r}", next_step="look at its commits")
        if isinstance(error, RepositoryNotFoundError):
            step = "check the name; for a private dataset, log in with `hf auth login`"
            message = f"{here}the Hub has no dataset {self._repo_id}, or it is private"
            return RemoteError(message, next_step=step)
        if constants.HF_HUB_OFFLINE:
            step = "load it once online, or unset HF_HUB_OFFLINE"
            return RemoteError(f"offline, and {self._repo_id}: {file} is not in the cache", next_step=step)
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        step = "try again, or name a local folder"
        return RemoteError(f"{here}the Hub did not give {self._repo_id}: {file} ({reason})", next_step=step)


@contextlib.contextmanager
def quiet_hub_client() -> Iterator[None]:
    """Keep the Hub client's warnings and retries off stderr; what failed in the end is told by an error of ours.

    Whoever has asked the client for more than its warnings still gets all of it.
    """
    import huggingface_hub  # noqa: F401  (sets its logger's level)

    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    if level >= logging.WARNING:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _remote_errors() -> tuple[type[Exception], ...]:
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    # The first base is httpx's or httpx2's error, as this version of the Hub client has it.
    return (*HfHubHTTPError.__bases__[:1], OSError, HFValidationError)


def shards(files: list[str]) -> list[str]:
    """The files of the `environments` config: those in `environments/`, else those in the root."""
    found = [f for f in files if _SHARD.fullmatch(f) and f != INDEX]
    return [f for f in found if "/" in f] or found


def locate(source: str | os.PathLike[str], revision: str | None, access: Access) -> Location:
    """Find a dataset; one on the Hub is asked for with this access.

    Raises:
        UsageError: a local dataset is asked for at a revision, or two revisions are named.
        SourceError: it is a folder of sources, which has to be packed first.
        DataError: there is nothing of that name, or nothing that is a dataset.
        RemoteError: the Hub does not have it, or cannot be reached.
    """
    name = os.fspath(source)
    if not name.strip():
        raise UsageError("the dataset has an empty name", next_step=_NAMING)
    if (hub := _HUB_URI.fullmatch(name)) is not None:
        if revision and hub["revision"] and revision != hub["revision"]:
            raise UsageError(f"{name} and the revision {revision!r} disagree", next_step="name one revision")
        return HubRepo(hub["id"], revision or hub["revision"], name, access)
    path = Path(name)
    is_repo_id = isinstance(source, str) and _REPO_ID.fullmatch(name) is not None and not name.startswith(".")
    if path.exists():
        refuse_revision(name, revision)
        return File(path, name) if path.is_file() else _folder(path, name, is_repo_id)
    if is_repo_id:
        return HubRepo(name, revision, name, access)
    raise DataError(f"{name}: no such file or folder", next_step=_NAMING)


def refuse_revision(name: str, revision: str | None) -> None:
    """Raise UsageError where a local dataset is asked for at a revision."""
    if revision is not None:
        raise UsageError(f"{name} has no revisions: it is on this machine", next_step="leave out the revision")


def _folder(path: Path, name: str, is_repo_id: bool) -> Folder:
    found = Folder(path, name)
    if found.index() or found.files():
        return found
    if (path / "scenario.toml").is_file() or any(path.glob("*/scenario.toml")):
        raise SourceError(f"{name} holds sources", next_step=f"`awm-hub pack {name} -o OUT`, then load OUT")
    if is_repo_id:
        step = f"say `./{name}` for the folder or `hf://datasets/{name}` for the dataset"
        raise DataError(
            f"{name} is a folder here, and no dataset; a Hub dataset may have the same name", next_step=step
        )
    step = "a dataset has index.parquet or environments/*.parquet"
    raise DataError(f"{name} holds no dataset", next_step=step)
