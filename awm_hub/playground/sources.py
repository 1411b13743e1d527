"""Datasets that visitors open: one from the Hub, or a file of their own.

The playground's own dataset is opened once, as its owner. Any other is opened as the visitor: with the visitor's token
or anonymously, and never with the token of the machine. The Hub is asked whether this visitor may see it, and again a
minute later. What was downloaded lies in a folder for that visitor's token alone, so that a private dataset of one is
never served to another. It is downloaded whole: the catalogue looks at every row, and by ranges that would take
thousands of requests. A folder is removed when its dataset was let go and nobody uses it any more.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from awm_hub.errors import AwmHubError, DataError, LimitError, RecordError, RemoteError, UsageError
from awm_hub.hub import Environments, load
from awm_hub.hub.environments import environments_at
from awm_hub.hub.locations import INDEX, File, quiet_hub_client, shards
from awm_hub.playground.settings import PlaygroundSettings
from awm_hub.publishing.pushing import REPO_ID
from awm_hub.safetext import clean_line

MAX_DATASET_BYTES = 1024 * 2**20
MAX_FILE_BYTES = 64 * 2**20
MAX_ENVIRONMENTS = 20_000
"""Of a dataset: the catalogue holds the texts of all of them in memory."""
MAX_DATASETS, MAX_DATASETS_BYTES = 32, 4 * MAX_DATASET_BYTES
MAX_UPLOADS, MAX_UPLOADS_BYTES = 64, 32 * MAX_FILE_BYTES
UPLOAD = "upload-"
"""What the names of uploaded files begin with."""
_PERMITTED_S = 60
"""How long the Hub's word holds that a visitor may see a dataset, and which commit is its newest."""
_DOWNLOADS = 8
"""At once; they have threads of their own, so that nothing else waits for them."""
_TIMEOUT_S = 20

_Key = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A dataset that somebody opened."""

    environments: Environments = field(repr=False)
    size: int
    """Bytes on the disk."""
    commit: str = ""
    permitted_until: float = 0.0


class _Kept:
    """The datasets that were used last, within a number and a size; for several threads."""

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count, self._max_bytes = max_count, max_bytes
        self._opened: OrderedDict[_Key, _Opened] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Opened | None:
        with self._lock:
            if key in self._opened:
                self._opened.move_to_end(key)
            return self._opened.get(key)

    def put(self, key: _Key, opened: _Opened) -> None:
        gone: list[_Opened] = []  # whose folders are removed after the lock is free
        with self._lock:
            gone += [self._opened[key]] if key in self._opened else []
            self._opened[key] = opened
            self._opened.move_to_end(key)
            while len(self._opened) > self._max_count or sum(o.size for o in self._opened.values()) > self._max_bytes:
                gone.append(self._opened.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._opened.clear()


@dataclass(frozen=True, kw_only=True)
class _State:
    """What the Hub says of a dataset to one visitor."""

    commit: str
    files: tuple[str, ...]
    """The index and the files of environments."""
    size: int


class Sources:
    """The datasets of a playground.

    Raises:
        DataError: there is no such dataset as the settings name.
        RemoteError: the Hub does not have it, or cannot be reached.
    """

    def __init__(self, settings: PlaygroundSettings) -> None:
        if settings.dataset and REPO_ID.fullmatch(settings.dataset) and not Path(settings.dataset).exists():
            with contextlib.suppress(AwmHubError):  # `load` meets what is the matter again, and tells
                _fetch(settings.dataset, _ask(settings.dataset, None, settings.revision), None)
        self.default = load(settings.dataset, revision=settings.revision)
        """The playground's own."""
        self._root = Path(tempfile.mkdtemp(prefix="awm-sources-"))
        self._datasets = _Kept(MAX_DATASETS, MAX_DATASETS_BYTES)
        self._uploads = _Kept(MAX_UPLOADS, MAX_UPLOADS_BYTES)
        self._opening: dict[_Key, asyncio.Task[Environments]] = {}
        self._downloads = ThreadPoolExecutor(_DOWNLOADS, "awm-sources")

    async def open(self, name: str, token: str | None) -> Environments:
        """A dataset on the Hub, as a visitor sees it.

        Args:
            name: `owner/name`, or what `keep_file` gave.
            token: The visitor's; None is anonymous.

        Raises:
            UsageError: it is no repo id, or the dataset is too large to be opened here.
            RemoteError: the Hub does not have it, or not for this visitor.
            DataError: it is no dataset of environments, or an upload that is no longer kept.
        """
        if name.startswith(UPLOAD):
            return self._uploaded(name)
        if not REPO_ID.fullmatch(name):
            raise UsageError(f"{name[:80]!r} is no dataset of the Hub", next_step="name it as owner/name")
        key = (name, hashlib.sha256((token or "").encode()).hexdigest())
        known = self._datasets.get(key)
        if known is not None and time.monotonic() < known.permitted_until:
            return known.environments
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.create_task(self._open(key, name, token))
            task.add_done_callback(lambda _: self._opening.pop(key))
        return await asyncio.shield(task)

    async def _open(self, key: _Key, name: str, token: str | None) -> Environments:
        """Ask the Hub, and download what it has now, unless that is here; once for all who wait for it."""
        permitted_until = time.monotonic() + _PERMITTED_S
        state = await asyncio.to_thread(_ask, name, token or False)
        opened = self._datasets.get(key)
        if opened is None or opened.commit != state.commit:
            loop = asyncio.get_running_loop()
            opened = await loop.run_in_executor(self._downloads, self._download, name, token, state)
        self._datasets.put(key, replace(opened, permitted_until=permitted_until))
        return opened.environments

    def keep_file(self, path: str | os.PathLike[str]) -> str:
        """Keep a Parquet file that a visitor uploaded, among the few that are kept; from any thread.

        Args:
            path: Where the server has the upload; never a path that a visitor typed.

        Returns:
            A name to open it by; whoever knows its 128 random bits may.

        Raises:
            DataError: it is no Parquet file of environments, or too large.
        """
        given = Path(path)
        if given.suffix != ".parquet" or not given.is_file():
            raise DataError("this is no Parquet file", next_step="upload a .parquet file of environments")
        size = given.stat().st_size
        if size > MAX_FILE_BYTES:
            step = f"upload one of at most {MAX_FILE_BYTES // 2**20} MB, or push it to the Hub and open it there"
            raise DataError("this file is too large", next_step=step)
        with self._new_folder() as folder:
            kept = shutil.copyfile(given, folder / "environments.parquet")
            try:
                found = environments_at(File(kept, clean_line(given.name, 100)))
            except RecordError as error:
                message = error.message.replace(kept.name, clean_line(given.name, 100))
                raise DataError(message, next_step="upload a .parquet file of environments") from error
            opened = _Opened(environments=_of(found, folder), size=size)
        name = UPLOAD + secrets.token_hex(16)
        self._uploads.put((name,), opened)
        return name

    def _uploaded(self, name: str) -> Environments:
        found = self._uploads.get((name,))
        if found is None:
            step = "upload the file again, or open another dataset"
            raise DataError("this upload is no longer kept here, since only the latest are", next_step=step)
        return found.environments

    def close(self) -> None:
        """Remove what was downloaded and uploaded."""
        self._downloads.shutdown(wait=False, cancel_futures=True)
        self._datasets.clear()
        self._uploads.clear()
        shutil.rmtree(self._root, ignore_errors=True)

    def _download(self, name: str, token: str | None, state: _State) -> _Opened:
        with self._new_folder() as folder:
            _fetch(name, state, token or False, folder)
            # By its address: as `owner/name`, a folder of that name on this machine would win.
            found = load(f"hf://datasets/{name}", revision=state.commit, token=token or False, cache_dir=folder)
            if not {e.file for e in found.entries.values()} <= set(state.files):
                message = f"the index of {name} names files that hold no environments"
                raise RecordError(message, next_step="ask its author to pack it again")
            return _Opened(environments=_of(found, folder), size=state.size, commit=state.commit)

    @contextlib.contextmanager
    def _new_folder(self) -> Iterator[Path]:
        """A folder that stays, unless the block fails."""
        folder = Path(tempfile.mkdtemp(dir=self._root))
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _of(environments: Environments, folder: Path) -> Environments:
    """The environments, if they are not too many; their folder goes when nobody has them any more.

    Raises:
        LimitError: they are too many.
    """
    if len(environments) > MAX_ENVIRONMENTS:
        step = f"open a part: at most {MAX_ENVIRONMENTS:,} are opened here"
        raise LimitError(f"{environments.source} holds {len(environments):,} environments", next_step=step)
    weakref.finalize(environments, shutil.rmtree, folder, ignore_errors=True)
    return environments


@contextlib.contextmanager
def _telling(name: str) -> Iterator[None]:
    """Turn what the Hub's client raises into a `RemoteError` that names the dataset."""
    try:
        yield
    except Exception as error:  # the boundary to the Hub's client, whose errors have several bases
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403, 404):
            step = "check the name, or sign in with an account that may see it"
            raise RemoteError(f"there is no dataset {name} for you", next_step=step) from error
        raise RemoteError(f"the Hub did not give {name}", next_step="try again in a minute") from error


def _ask(name: str, token: str | bool | None, revision: str | None = None) -> _State:
    """What the Hub says of a dataset to the holder of a token; False is nobody's, None the one of this machine.

    Raises:
        RemoteError: there is none, for this one.
        DataError: it holds no dataset of environments.
        UsageError: it is too large.
    """
    from huggingface_hub import HfApi

    with quiet_hub_client(), _telling(name):
        api = HfApi(library_name="awm-hub", token=token)
        info = api.dataset_info(name, revision=revision, files_metadata=True, timeout=_TIMEOUT_S)
    sizes = {s.rfilename: s.size or 0 for s in info.siblings or ()}
    files = tuple(f for f in (INDEX, *shards(sorted(sizes))) if f in sizes)
    if not files:
        raise DataError(f"{name} holds no environments", next_step="open one that was pushed with `awm-hub push`")
    size = sum(sizes[f] for f in files)
    if size > MAX_DATASET_BYTES:
        step = f"duplicate this Space with AWM_HUB_DATASET={name}, which reads rows when they are asked for"
        raise UsageError(f"{name} has {size / 2**20:,.0f} MB, which is too much to open beside others", next_step=step)
    return _State(commit=str(info.sha), files=files, size=size)


def _fetch(name: str, state: _State, token: str | bool | None, folder: Path | None = None) -> None:
    """Download a dataset whole, into a folder or the Hub's own cache.

    Raises:
        RemoteError: the Hub does not give it.
    """
    from huggingface_hub import snapshot_download

    with quiet_hub_client(), _telling(name):
        snapshot_download(
            name,
            repo_type="dataset",
            revision=state.commit,
            token=token,
            cache_dir=folder,
            allow_patterns=list(state.files),
        )
