"""Datasets that visitors open: one from the Hub, or a file of their own.

The playground's own dataset is opened once, as its owner. Any other is opened as the visitor: with the visitor's token
or anonymously, and never with the token of the machine. Whether a visitor may see a dataset is asked of the Hub each
time, before anything that was downloaded is used; what was downloaded lies in a folder of its own for each token, so
that a private dataset of one visitor is never served to another.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from awm_hub.errors import DataError, RemoteError, UsageError
from awm_hub.hub import Environments, load
from awm_hub.hub.locations import quiet_hub_client
from awm_hub.playground.settings import PlaygroundSettings
from awm_hub.publishing.pushing import REPO_ID

MAX_DATASET_BYTES = 1024 * 2**20
MAX_FILE_BYTES = 64 * 2**20
_MAX_OPEN = 6
_TIMEOUT_S = 20
UPLOAD = "upload-"
"""What the names of uploaded files begin with."""
_PATTERNS = ("environments/*.parquet", "index.parquet", "*.parquet")


@dataclass
class _Opened:
    """A dataset that somebody opened."""

    folder: Path
    environments: Environments = field(repr=False)


class Sources:
    """The datasets of a playground.

    Raises:
        DataError: there is no such dataset as the settings name.
        RemoteError: the Hub does not have it, or cannot be reached.
    """

    def __init__(self, settings: PlaygroundSettings) -> None:
        self.default = load(settings.dataset, revision=settings.revision)
        """The playground's own."""
        self._root = Path(tempfile.mkdtemp(prefix="awm-sources-"))
        self._opened: OrderedDict[tuple[str, str, str], _Opened] = OrderedDict()
        self._opening = asyncio.Lock()

    async def open(self, name: str, token: str | None) -> Environments:
        """A dataset on the Hub, as a visitor sees it.

        Args:
            name: `owner/name`, or what `keep_file` gave.
            token: The visitor's; None is anonymous.

        Raises:
            UsageError: it is no repo id, or the dataset is too large to be opened here.
            RemoteError: the Hub does not have it, or not for this visitor.
            DataError: it is no dataset of environments.
        """
        if name.startswith(UPLOAD):
            return self._uploaded(name)
        if not REPO_ID.fullmatch(name):
            raise UsageError(f"{name[:80]!r} is no dataset of the Hub", next_step="name it as owner/name")
        commit = await asyncio.to_thread(_commit_of, name, token)
        key = (name, commit, hashlib.sha256((token or "").encode()).hexdigest())
        async with self._opening:
            if key not in self._opened:
                self._opened[key] = await asyncio.to_thread(self._download, name, commit, token)
                self._forget_some()
            self._opened.move_to_end(key)
            return self._opened[key].environments

    def keep_file(self, path: str | os.PathLike[str]) -> str:
        """Keep a Parquet file that a visitor uploaded, among the few that are kept.

        Args:
            path: Where the server has the upload; never a path that a visitor typed.

        Returns:
            A name to open it by; whoever knows its 128 random bits may.

        Raises:
            DataError: it is no Parquet file of environments, or too large.
        """
        found = Path(path)
        if found.suffix != ".parquet" or not found.is_file():
            raise DataError("this is no Parquet file", next_step="upload a .parquet file of environments")
        if found.stat().st_size > MAX_FILE_BYTES:
            step = f"upload one of at most {MAX_FILE_BYTES // 2**20} MB, or push it to the Hub and open it there"
            raise DataError("this file is too large", next_step=step)
        folder = Path(tempfile.mkdtemp(dir=self._root))
        try:
            kept = shutil.copyfile(found, folder / "environments.parquet")
            opened = _Opened(folder=folder, environments=load(kept))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        name = UPLOAD + secrets.token_hex(16)
        self._opened[name, "", ""] = opened
        self._forget_some()
        return name

    def _uploaded(self, name: str) -> Environments:
        found = self._opened.get((name, "", ""))
        if found is None:
            step = "upload the file again"
            raise DataError("this upload is no longer kept: only the last few are", next_step=step)
        self._opened.move_to_end((name, "", ""))
        return found.environments

    def close(self) -> None:
        """Remove what was downloaded."""
        self._opened.clear()
        shutil.rmtree(self._root, ignore_errors=True)

    def _download(self, name: str, commit: str, token: str | None) -> _Opened:
        from huggingface_hub import snapshot_download

        folder = Path(tempfile.mkdtemp(dir=self._root))
        try:
            with quiet_hub_client(), _telling(name):
                where = snapshot_download(
                    name,
                    repo_type="dataset",
                    revision=commit,
                    token=token or False,
                    cache_dir=folder,
                    allow_patterns=list(_PATTERNS),
                )
            return _Opened(folder=folder, environments=load(where))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _forget_some(self) -> None:
        """Let go of those that were not used for longest."""
        while len(self._opened) > _MAX_OPEN:
            _, gone = self._opened.popitem(last=False)
            shutil.rmtree(gone.folder, ignore_errors=True)


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


def _commit_of(name: str, token: str | None) -> str:
    """The newest commit of a dataset that the holder of a token may see.

    Raises:
        RemoteError: there is none.
        UsageError: it is too large.
    """
    from huggingface_hub import HfApi

    with quiet_hub_client(), _telling(name):
        api = HfApi(library_name="awm-hub")
        info = api.dataset_info(name, files_metadata=True, timeout=_TIMEOUT_S, token=token or False)
    size = sum(s.size or 0 for s in info.siblings or () if s.rfilename.endswith(".parquet"))
    if size > MAX_DATASET_BYTES:
        step = f"duplicate this Space with AWM_HUB_DATASET={name}, which reads rows when they are asked for"
        raise UsageError(f"{name} has {size / 2**20:,.0f} MB, which is too much to open beside others", next_step=step)
    return str(info.sha)
