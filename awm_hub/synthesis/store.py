"""The store of a run: one file, to which lines are only ever added.

    OUT/store.jsonl

Each line is one record in canonical JSON with a `type`; all but the settings have a `key`. The pipeline is
deterministic given the answers, so a run that was killed, by the power too, is gone on with by starting it again: what
was asked and answered is found here. Where a key comes again, the last line counts, but an answer stays the first.

| type | key | fields |
|---|---|---|
| `settings` | | `format_version`, `settings`: what the run was begun with; the first line |
| `request` | position, such as `clinic/code/2` | `environment`, `stage`, `body`: the request's fields, `sha256` of its wording |
| `answer` | its request's | `message` in chat form, `finish_reason`, `model`, `usage` or null, `at`, `source`: `live` or `batch`, `sha256` of the wording it answers, null where that is not known |
| `verdict` | hash of what was looked at | `gate`, `environment`, `problems`, `result`: whatever else the gate found |
| `attempt` | its request's | `environment`, `stage`, `number`, `because`, …: what its writer tells |
| `outcome` | the environment | `environment`, `accepted`, `problems`, `content_hash` |

No key of an endpoint gets here: requests hold messages and sampling, and no headers.
"""  # noqa: E501

import contextlib
import datetime as dt
import fcntl
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from awm_hub.canonical import STRICT_DECODER, sha256_of, to_json, to_line
from awm_hub.errors import DataError, UsageError
from awm_hub.inference.replies import escaped

FILE = "store.jsonl"
FORMAT_VERSION = 1
TYPES = ("settings", "request", "answer", "verdict", "attempt", "outcome")

Record = dict[str, Any]
"""A line of the file."""
_WORDING = ("messages", "tools", "response_format")
_OTHER_FOLDER = "use another output folder"


@dataclass(frozen=True)
class _Place:
    """Where a line is in the file."""

    offset: int
    length: int
    """Its end not counted."""


class Records:
    """What a store holds, for reading; made by `read_store`. Lines are read from the file when they are asked for."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.settings: dict[str, Any] = {}
        """What the run was begun with."""
        self._descriptor = descriptor
        self._places: dict[str, dict[str, _Place]] = {name: {} for name in TYPES}
        self._environments: dict[str, dict[str, dict[str, None]]] = {name: {} for name in TYPES}
        """Type → environment → keys."""
        self._size = 0
        """Bytes of whole lines."""
        try:
            self._index()
        except BaseException:
            os.close(descriptor)
            raise

    def request(self, key: str) -> Record | None:
        """The latest request at a position, without its body; None where there is none."""
        found = self._found("request", key)
        return None if found is None else {name: value for name, value in found.items() if name != "body"}

    def body(self, key: str) -> dict[str, Any]:
        """The fields of the latest request at a position.

        Raises:
            KeyError: there is none.
        """
        found: dict[str, Any] = self._read(self._places["request"][key])["body"]
        return found

    def answer(self, key: str) -> Record | None:
        """The answer to the request at a position; None where there is none."""
        return self._found("answer", key)

    def is_answered(self, key: str) -> bool:
        """Whether there is an answer, which is known without reading it."""
        return key in self._places["answer"]

    def verdict(self, key: str) -> Record | None:
        """What a gate found in the products of this hash; None where that is not known."""
        return self._found("verdict", key)

    def records(self, type: str, environment: str | None = None) -> Iterator[Record]:
        """The records of a type, or those of them that are about one environment, which answers do not tell.

        They come in the file's order, of each key the one that counts.
        """
        places = self._places[type]
        keys = places if environment is None else self._environments[type].get(environment, {})
        return (self._read(places[key]) for key in list(keys))

    def keys(self, type: str) -> tuple[str, ...]:
        """The keys of a type in the same order."""
        return tuple(self._places[type])

    def close(self) -> None:
        """Let go of the file; a second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _found(self, type: str, key: str) -> Record | None:
        place = self._places[type].get(key)
        return None if place is None else self._read(place)

    def _read(self, place: _Place) -> Record:
        return _record(os.pread(self._descriptor, place.length, place.offset))

    def _index(self) -> None:
        """Find the lines.

        Raises:
            DataError: one that is not the last is no record, or the file is no store.
        """
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(0)
            broken: int | None = None
            for number, line in enumerate(file, 1):
                if broken is not None:
                    raise _damaged(self.path, broken)
                try:
                    found = _record(line)
                except ValueError:
                    broken = number
                    continue
                self._note(found, number, _Place(self._size, len(line.rstrip(b"\n"))))
                self._size += len(line)

    def _note(self, found: Record, number: int, place: _Place) -> None:
        """Take a line into the index."""
        type, key = found.get("type"), found.get("key")
        if number == 1:
            self.settings = _settings_of(found, self.path)
        elif type not in TYPES[1:] or not isinstance(key, str):
            raise _damaged(self.path, number)
        else:
            self._put(found, place)

    def _put(self, found: Record, place: _Place) -> None:
        """Put a line in the place of the one with its key, unless that is an answer."""
        type, key = found["type"], found["key"]
        places = self._places[type]
        if type == "answer" and key in places:
            return
        keys = self._environments[type].setdefault(str(found.get("environment")), {})
        for index in (places, keys):
            index.pop(key, None)
        places[key], keys[key] = place, None


class Store(Records):
    """A store that is written to, by one run at a time. Adding what is there already writes nothing."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._lock = threading.Lock()
        super().__init__(path, descriptor)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> Self:
        """The store of an output folder, a new one or one to go on with.

        A last line that was cut off, when a run was killed while it wrote, is removed.

        Args:
            folder: Made where it does not exist.
            settings: Whatever decides what a run asks; with others it would be another run.

        Raises:
            UsageError: another run holds the folder, or its store was begun with other settings.
            DataError: the store is damaged.
        """
        path = Path(folder) / FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"{folder} is no folder", next_step=_OTHER_FOLDER) from None
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            step = f"wait for it, or {_OTHER_FOLDER}"
            raise UsageError(f"another run is working in {folder}", next_step=step) from None
        store = cls(path, descriptor)
        try:
            store._begin(settings)
        except BaseException:
            store.close()
            raise
        return store

    def add_request(self, key: str, body: Mapping[str, Any], *, environment: str, stage: str) -> bool:
        """Record what is asked at a position; whether that was new.

        Raises:
            RecordError: the body is no JSON.
        """
        told = {"environment": environment, "stage": stage, "body": body}
        return self._add("request", key, {**told, "sha256": wording_of(body)})

    def add_answer(
        self,
        key: str,
        *,
        message: Mapping[str, Any],
        finish_reason: str | None,
        model: str,
        usage: Mapping[str, Any] | None,
        source: str,
        sha256: str | None = None,
    ) -> bool:
        """Record the answer to the request at a position; whether it is the first, which alone is kept."""
        if self.is_answered(key):
            return False
        told = {"message": message, "finish_reason": finish_reason, "model": model, "usage": usage}
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        return self._add("answer", key, {**told, "source": source, "sha256": sha256, "at": at})

    def add_verdict(
        self, key: str, *, gate: str, environment: str, problems: Sequence[Mapping[str, Any]], result: Any = None
    ) -> bool:
        """Record what a gate found in the products of this hash; whether that was new."""
        told = {"gate": gate, "environment": environment, "problems": list(problems), "result": result}
        return self._add("verdict", key, told)

    def add_attempt(self, key: str, **told: Any) -> bool:
        """Record what an attempt was about; whether that was new."""
        return self._add("attempt", key, told)

    def add_outcome(
        self,
        environment: str,
        *,
        accepted: bool,
        problems: Iterable[Mapping[str, Any]] = (),
        content_hash: str | None = None,
    ) -> bool:
        """Record what became of an environment, in place of what was known before; whether that is news."""
        told = {"environment": environment, "accepted": accepted, "problems": list(problems)}
        return self._add("outcome", environment, {**told, "content_hash": content_hash})

    def close(self) -> None:
        """Bring the file to the disk and let go of it."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
        super().close()

    def _begin(self, settings: Mapping[str, Any]) -> None:
        """Mend the end of the file, and see that its settings are these or write them."""
        given = STRICT_DECODER.decode(to_json(escaped(settings)))
        os.ftruncate(self._descriptor, self._size)
        if self._size == 0:
            self._append({"type": "settings", "format_version": FORMAT_VERSION, "settings": given})
            self.settings = given
            return
        if os.pread(self._descriptor, 1, self._size - 1) != b"\n":  # the line is whole, only its end is missing
            os.write(self._descriptor, b"\n")
            self._size += 1
        _check_same(self.path.parent, self.settings, given)

    def _add(self, type: str, key: str, told: Mapping[str, Any]) -> bool:
        record = escaped({**told, "type": type, "key": key})
        with self._lock:
            place = self._places[type].get(key)
            if place is not None and os.pread(self._descriptor, place.length, place.offset) == to_line(record).encode():
                return False
            self._put(record, self._append(record))
        return True

    def _append(self, record: Record) -> _Place:
        """Write a line as a whole; what a full disk leaves of one is taken back."""
        line = to_line(record).encode() + b"\n"
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        place = _Place(self._size, len(line) - 1)
        self._size += len(line)
        return place


def read_store(folder: str | os.PathLike[str]) -> Records:
    """What the store of an output folder holds; a run may be working on it.

    Raises:
        DataError: there is none, or it is damaged.
    """
    path = Path(folder) / FILE
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        step = "name the output folder of `awm-hub synthesize`"
        raise DataError(f"{folder} holds no run", next_step=step) from None
    return Records(path, descriptor)


def wording_of(body: Mapping[str, Any]) -> str:
    """Hash of what a request says: its messages, tools and response format, and not who is asked and how.

    Raises:
        RecordError: the body is no JSON.
    """
    return sha256_of(escaped({name: body[name] for name in _WORDING if name in body}))


def _record(line: bytes) -> Record:
    """A line's record.

    Raises:
        ValueError: it is none.
    """
    try:
        found = STRICT_DECODER.decode(line.decode())
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _settings_of(found: Record, path: Path) -> dict[str, Any]:
    settings = found.get("settings")
    if found.get("type") != "settings" or not isinstance(settings, dict):
        raise DataError(f"{path} does not begin with the settings of a run", next_step=_OTHER_FOLDER)
    if found.get("format_version") != FORMAT_VERSION:
        raise DataError(f"{path} was written by another version of awm-hub", next_step="pip install -U awm-hub")
    return settings


def _damaged(path: Path, number: int) -> DataError:
    step = "remove this line, whose request is then asked again, or restore the file from a copy"
    return DataError(f"line {number} of {path} is damaged", next_step=step)


def _check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """See that the settings are those that the run was begun with.

    Raises:
        UsageError: one differs.
    """
    old, new = dict(_leaves(before)), dict(_leaves(now))
    for name in sorted({*old, *new}):
        if (name in old, old.get(name)) != (name in new, new.get(name)):
            told = f"{name} is {new.get(name, 'not set')}, and the run in {folder} has {old.get(name, 'none')}"
            raise UsageError(told, next_step=f"give the setting that it has, or {_OTHER_FOLDER}")


def _leaves(found: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names of settings, with dots where they are nested, and their values as JSON."""
    for name, value in found.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", to_json(value)
