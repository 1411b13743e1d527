"""Trajectories that a visitor brings, from a file or from a dataset on the Hub.

They are read once, within limits, and kept as compressed text for as long as the visitor looks at them; no file of
theirs stays on the disk. What is wrong with one of them hides no other. Where the environment is at hand, the calls are
repeated to tell which of them changed which rows; that runs in a sandbox, for a while, and for few visitors at a time.
"""

import asyncio
import contextlib
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from awm_hub import schema
from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError, DataError, LimitError, RecordError, RemoteError, UnknownNameError, UsageError
from awm_hub.hub.reading import ParquetFile
from awm_hub.rollouts import Rollout
from awm_hub.rollouts.dataset import CONFIG
from awm_hub.trajectory import Trajectory, decoded
from awm_hub.viewing import Document, Listed, RowChanges, listed, rollout_document, row_changes

MAX_FILE_BYTES = 16 * 2**20
MAX_TEXT_BYTES = 64 * 2**20
MAX_ROLLOUTS = 500
MAX_REPLAYED_STEPS = 100
_REPLAY_S = 30.0
_HUB_S = 60.0
_REPO_ID = re.compile(r"(?:hf://datasets/|https://huggingface\.co/datasets/)?([\w.-]{1,96}/[\w.-]{1,96})/?", re.ASCII)
_FAULTS = (AwmHubError, OSError, AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""What an untrusted record may end in; fields of it may hold anything."""
_reading = asyncio.Semaphore(2)
_replaying = asyncio.Semaphore(2)

Read = Iterable[tuple[str, str]]
"""Names and JSON texts of trajectories."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """Trajectories that were read."""

    source: str
    lines: tuple[Listed, ...]
    """A line for each that can be read."""
    unreadable: tuple[str, ...] = ()
    """Why others cannot."""
    texts: Mapping[str, bytes] = field(repr=False)
    """Compressed JSON, by id."""

    def rollout(self, name: str) -> Rollout:
        """One of them.

        Raises:
            UnknownNameError: there is none of this name.
            RecordError: it is no trajectory.
        """
        if name not in self.texts:
            raise UnknownNameError("rollout", name, self.texts)
        return Rollout.from_dict(decoded(zlib.decompress(self.texts[name]), name), name)


async def from_upload(path: Path, name: str) -> Records:
    """The trajectories of a file that a visitor uploaded; the file is deleted, whatever is in it.

    Args:
        path: Of the server's copy.
        name: As the visitor calls it.

    Raises:
        DataError: there is no trajectory in it.
        LimitError: it is too large.
    """
    async with _reading:
        return await asyncio.to_thread(_from_upload, path, name)


async def from_repo(repo: str, token: str | None, *, endpoint: str | None = None) -> Records:
    """The trajectories of a dataset's `trajectories` config.

    Args:
        repo: Id of the dataset, or its address.
        token: Of the visitor; without it, the dataset is asked for anonymously.
        endpoint: Another Hub.

    Raises:
        UsageError: this is no id.
        RemoteError: the Hub has no such dataset for this visitor.
        DataError: it holds no trajectories.
        LimitError: they are too large.
    """
    match = _REPO_ID.fullmatch(repo.strip())
    if match is None:
        raise UsageError("this is no id of a dataset", next_step="for instance owner/name")
    async with _reading:
        try:
            async with asyncio.timeout(_HUB_S):
                return await asyncio.to_thread(_from_repo, match[1], token, endpoint)
        except TimeoutError:
            raise RemoteError("the Hub did not answer in time", next_step="try again later") from None


async def document_of(
    rollout: Rollout, environments: Iterable[Mapping[str, Environment]], *, trust_remote_code: bool = False
) -> Document:
    """What there is to see of a trajectory, with the rows that each call changed where a replay can tell.

    Raises:
        RecordError: it is no trajectory that can be shown.
    """
    trajectory = rollout.trajectory
    environment = await asyncio.to_thread(_known, trajectory, tuple(environments))
    changes = None if environment is None else await _changes(trajectory, environment, trust_remote_code)
    with _telling(rollout.id):
        return rollout_document(trajectory, changes=changes, environment=environment, judge_error=rollout.judge_error)


async def _changes(trajectory: Trajectory, environment: Environment, trust: bool) -> RowChanges | None:
    if len(trajectory.steps) > MAX_REPLAYED_STEPS:
        return None
    with contextlib.suppress(TimeoutError, *_FAULTS):
        async with _replaying, asyncio.timeout(_REPLAY_S):
            return await row_changes(trajectory, environment, trust_remote_code=trust)
    return None


def _known(trajectory: Trajectory, environments: tuple[Mapping[str, Environment], ...]) -> Environment | None:
    """The environment that a trajectory is from, in this very version."""
    for known in environments:
        with contextlib.suppress(*_FAULTS):
            if trajectory.environment_id in known:
                found = known[trajectory.environment_id]
                if found.content_hash == trajectory.environment_hash:
                    return found
    return None


def _from_upload(path: Path, name: str) -> Records:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise LimitError(f"{name} is larger than {_mib(MAX_FILE_BYTES)}", next_step="upload a part of it")
        if path.suffix == ".parquet":
            return _records(name, _parquet(path, name))
        return _records(name, _json(path.read_bytes(), Path(name)))
    except FileNotFoundError:
        raise DataError(f"{name} is no longer there", next_step="upload it again") from None
    finally:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a folder of its own, or one with other files
            path.parent.rmdir()


def _json(data: bytes, name: Path) -> Iterator[tuple[str, str]]:
    """One trajectory, or one in each line.

    Raises:
        DataError: it is no text.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DataError(f"{name} is no JSON", next_step=_FORMS) from None
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and name.suffix.lower() != ".json":
        yield from ((f"{name.stem}-{number}", line) for number, line in enumerate(lines, 1))
    else:
        yield name.stem, text


_FORMS = "upload what `awm-hub rollout` or the download button here wrote: JSON, JSONL or Parquet"


def _parquet(path: Path, name: str) -> Iterator[tuple[str, str]]:
    """The rows of a Parquet file of trajectories.

    Raises:
        RecordError: it is none.
    """
    columns = ("id", "trajectory")
    try:
        file = ParquetFile(path, name)
        file.check_columns(schema.TRAJECTORIES, columns)
        for group in file.groups:
            for row in file.rows(group, columns):
                yield str(row["id"]), row["trajectory"] if isinstance(row["trajectory"], str) else ""
    except RecordError as error:  # whose next step is one for whoever packed it
        raise RecordError(error.message, next_step=_FORMS) from error


def _records(source: str, found: Read) -> Records:
    """Read trajectories, within the limits.

    Raises:
        DataError: none can be read.
        LimitError: they are more than are taken.
    """
    lines: list[Listed] = []
    unreadable: list[str] = []
    texts: dict[str, bytes] = {}
    size = 0
    for name, text in found:
        size += len(text)
        if size > MAX_TEXT_BYTES or len(texts) + len(unreadable) >= MAX_ROLLOUTS:
            message = f"{source} holds more than {MAX_ROLLOUTS} trajectories or {_mib(MAX_TEXT_BYTES)} of them"
            raise LimitError(message, next_step="`awm-hub view` shows all on your own machine")
        try:
            fresh = name if name not in texts else f"{name}__{len(texts)}"
            rollout = Rollout.from_dict(decoded(text, source), fresh)
            lines.append(listed(fresh, rollout.trajectory))
            texts[fresh] = zlib.compress(text.encode())
        except _FAULTS as error:
            unreadable.append(error.message if isinstance(error, AwmHubError) else f"{type(error).__name__}: {error}")
    if not texts:
        reason = f": {unreadable[0][:200]}" if unreadable else ""
        raise DataError(f"{source} holds no trajectory{reason}", next_step=_FORMS)
    return Records(source=source, lines=tuple(lines), unreadable=tuple(unreadable), texts=texts)


def _from_repo(repo: str, token: str | None, endpoint: str | None) -> Records:
    """Read a dataset's files into a folder that is gone afterwards, and nothing into the Hub's cache."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, data in enumerate(_shards(repo, token, endpoint)):
            paths.append(Path(folder, f"{number}.parquet"))
            paths[-1].write_bytes(data)
        return _records(repo, (row for path in paths for row in _parquet(path, repo)))


def _shards(repo: str, token: str | None, endpoint: str | None) -> Iterator[bytes]:
    """The contents of a dataset's Parquet files of trajectories.

    Raises:
        RemoteError: the Hub does not give them.
        DataError: there are none.
        LimitError: they are too large.
    """
    from huggingface_hub import HfFileSystem

    # a token of False keeps the client from looking for one of the server's
    files = HfFileSystem(endpoint=endpoint, token=token or False, skip_instance_cache=True)
    with _asking(repo, is_signed_in=bool(token)):
        found: Any = files.glob(f"datasets/{repo}/{CONFIG}/*.parquet", detail=True)
    if not found:
        step = f"a dataset of trajectories has {CONFIG}/*.parquet; `awm-hub rollout` writes one"
        raise DataError(f"{repo} has no config of trajectories", next_step=step)
    if sum(int(facts["size"]) for facts in found.values()) > MAX_FILE_BYTES:
        step = "download it, and look at it with `awm-hub view`"
        raise LimitError(f"the trajectories of {repo} are larger than {_mib(MAX_FILE_BYTES)}", next_step=step)
    for path, facts in sorted(found.items()):
        with _asking(repo, is_signed_in=bool(token)), files.open(path, "rb") as file:
            yield bytes(file.read(int(facts["size"])))


@contextlib.contextmanager
def _asking(repo: str, *, is_signed_in: bool) -> Iterator[None]:
    """Tell in words what the Hub's client raises."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        yield
    except (OSError, HFValidationError, *HfHubHTTPError.__bases__[:1]) as error:  # type: ignore[misc]
        step = "check the name" if is_signed_in else "check the name, or sign in for a private dataset"
        raise RemoteError(f"the Hub did not give {repo} ({type(error).__name__})", next_step=step) from None


@contextlib.contextmanager
def _telling(name: str) -> Iterator[None]:
    """Tell in words that a record holds something else than it should."""
    try:
        yield
    except _FAULTS as error:
        raise RecordError(f"{name} is no trajectory that can be shown: {type(error).__name__}") from None


def _mib(size: int) -> str:
    return f"{size // 2**20} MiB"
