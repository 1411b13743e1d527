"""Batch files: requests out, answers in, as OpenAI's Batch API has them; `vllm run-batch` reads and writes the same.

    FOLDER/round-001.requests.jsonl    written here, to be sent
    FOLDER/*.jsonl                     answers, under any other name

A run without an endpoint gets as far as answers reach; the requests that can be asked at that point are a round. A
request that is in a file already waits for its answer and is not written again, unless an answer says that it failed.
Where the answers of a round will never come, remove its file: then its requests are in the next one.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from awm_hub.canonical import sha256_of, to_line
from awm_hub.errors import DataError
from awm_hub.inference.replies import Reply, reply_of
from awm_hub.synthesis.asking import Desk
from awm_hub.synthesis.store import FILE, Records, Store, wording_of

URL = "/v1/chat/completions"
MAX_REQUESTS = 50_000
"""Of one file (OpenAI's Batch API)."""
MAX_BYTES = 100 * 10**6
"""Of one file: what OpenAI-compatible batch services take at least; OpenAI itself takes twice as much."""

_REQUESTS = re.compile(r"round-(\d+)\.requests\.jsonl")
_UNREADABLE = (ValueError, TypeError, AttributeError, KeyError, RecursionError)
"""What reading a completion of another form ends in."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What became of requests that want an answer."""

    written: tuple[Path, ...] = ()
    """New files, to be sent; none where every request is in an earlier file."""
    requests: int = 0
    """In the new files."""
    waiting: tuple[Path, ...] = ()
    """Earlier files with requests that wait."""
    waiting_requests: int = 0
    """In the earlier files."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        paths = {"written": [str(p) for p in self.written], "waiting": [str(p) for p in self.waiting]}
        return {**asdict(self), **paths}


@dataclass(frozen=True, kw_only=True)
class AnswersReport:
    """What was found in the answers' files."""

    files: int = 0
    taken: int = 0
    """Answers that are new."""
    known: int = 0
    """Answers to what was answered already."""
    failed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Request without an answer → why it failed, each time that it did."""
    unknown: tuple[str, ...] = ()
    """Ids that no request of the run has."""


def write_round(desk: Desk, folder: str | os.PathLike[str]) -> Round:
    """Write the requests that wait at a desk to a new file, or several where one would be too large.

    Args:
        desk: Where they were asked.
        folder: Of the batch files; made where it does not exist.

    Raises:
        DataError: a file in the folder is damaged.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    asked: Counter[str] = Counter()
    latest: dict[str, tuple[str, Path]] = {}
    for path in _rounds(place):
        for key, body in _requests(path):
            asked[key] += 1
            latest[key] = (sha256_of(body), path)
    failed = Counter(found.key for found in _answers(place, among=desk.waiting) if found.failure)
    new, waiting = list[str](), list[Path]()
    for key in desk.waiting:
        body_hash, path = latest.get(key, ("", place))
        if asked[key] > failed[key] and body_hash == sha256_of(desk.store.body(key)):
            waiting.append(path)
        else:
            new.append(key)
    return Round(
        written=tuple(_write(desk.store, place, new)),
        requests=len(new),
        waiting=tuple(sorted(set(waiting))),
        waiting_requests=len(waiting),
    )


def read_answers(folder: str | os.PathLike[str], store: Store) -> AnswersReport:
    """Take the answers in a folder into the store. Reading them again changes nothing.

    Raises:
        DataError: a line of a file is no answer of a batch.
    """
    place = Path(folder)
    paths = _answer_files(place)
    wordings = _wordings(place) if paths else {}
    asked = frozenset(store.keys("request"))
    taken = known = 0
    failed: dict[str, list[str]] = {}
    unknown: dict[str, None] = {}
    for found in _answers(place, among=asked):
        if found.key not in asked:
            unknown[found.key] = None
        elif found.reply is None:
            failed.setdefault(found.key, []).append(found.failure)
        elif store.is_answered(found.key):
            known += 1
        else:
            _take(found, found.reply, store, wordings.get(found.key))
            taken += 1
    return AnswersReport(
        files=len(paths),
        taken=taken,
        known=known,
        failed={key: tuple(reasons) for key, reasons in failed.items() if not store.is_answered(key)},
        unknown=tuple(unknown),
    )


def _rounds(folder: Path) -> list[Path]:
    """Files with requests, in the order of their numbers."""
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _REQUESTS.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def _requests(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in _lines(path):
        key, body = line.get("custom_id"), line.get("body")
        if not isinstance(key, str) or not isinstance(body, dict):
            raise _damaged(path, number, "it is no request")
        yield key, body


def _wordings(folder: Path) -> dict[str, str | None]:
    """Wording of the request with each id; None where rounds worded it differently, so that it is not known which."""
    found: dict[str, str | None] = {}
    for path in _rounds(folder):
        for key, body in _requests(path):
            wording = wording_of(body)
            found[key] = wording if found.get(key, wording) == wording else None
    return found


def _write(records: Records, folder: Path, keys: Sequence[str]) -> Iterator[Path]:
    """Write files, each of which appears whole or not at all."""
    last = _rounds(folder)[-1:]
    number = int(_REQUESTS.fullmatch(last[0].name)[1]) if last else 0  # type: ignore[index]
    lines: list[bytes] = []
    size = 0
    for key in keys:
        request = {"custom_id": key, "method": "POST", "url": URL, "body": records.body(key)}
        line = to_line(request).encode() + b"\n"
        if lines and (len(lines) == MAX_REQUESTS or size + len(line) > MAX_BYTES):
            number += 1
            yield _put(folder, number, lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield _put(folder, number + 1, lines)


def _put(folder: Path, number: int, lines: Sequence[bytes]) -> Path:
    path = folder / f"round-{number:03}.requests.jsonl"
    unfinished = folder / f".{path.name}.tmp"
    with open(unfinished, "wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    return unfinished.replace(path)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbers and objects of a file's lines, empty ones left out; only a line feed ends a line.

    Raises:
        DataError: a line is no JSON object.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                raise _damaged(path, number, f"it is not valid JSON: {error}") from error
            if not isinstance(found, dict):
                raise _damaged(path, number, "it is no JSON object")
            yield number, found


def _damaged(path: Path, number: int, why: str) -> DataError:
    step = "is the file whole, and one of the batch? get it again, or move it away"
    return DataError(f"line {number} of {path} cannot be read: {why}", next_step=step)


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """One line of a file with answers."""

    key: str
    reply: Reply | None = None
    """None where the request failed, or is not among those that were looked for."""
    model: str | None = None
    failure: str = ""


def _answer_files(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.glob("*.jsonl")) if p.name != FILE and not _REQUESTS.fullmatch(p.name)]


def _answers(folder: Path, among: Collection[str]) -> Iterator[_Answer]:
    """The lines of all files with answers; what they say is read for some keys only."""
    wanted = frozenset(among)
    for path in _answer_files(folder):
        for number, line in _lines(path):
            key = line.get("custom_id")
            if not isinstance(key, str) or not ("response" in line or "error" in line):
                raise _damaged(path, number, "it is no answer of a batch")
            yield _answer(key, line) if key in wanted else _Answer(key=key)


def _answer(key: str, line: Mapping[str, Any]) -> _Answer:
    response = line.get("response")
    if line.get("error"):
        return _Answer(key=key, failure=_said(line["error"]))
    if not isinstance(response, dict):
        return _Answer(key=key, failure="there is no response")
    status, body = response.get("status_code", 200), response.get("body")
    if status != 200:
        return _Answer(key=key, failure=f"{status}: {_said(body)}")
    try:
        reply = reply_of(body)
    except _UNREADABLE as error:
        return _Answer(key=key, failure=f"it is no chat completion: {error}")
    model = body.get("model") if isinstance(body, dict) else None
    return _Answer(key=key, reply=reply, model=model if isinstance(model, str) else None)


def _said(error: Any) -> str:
    """The message in an error, on one line."""
    while isinstance(error, dict):
        error = next((error[name] for name in ("error", "message", "detail", "code") if error.get(name)), "no reason")
    return " ".join(str(error).split())[:300]


def _take(found: _Answer, reply: Reply, store: Store, wording: str | None) -> None:
    """Take an answer into the store."""
    is_counted = reply.usage.prompt_tokens is not None or reply.usage.completion_tokens is not None
    store.add_answer(
        found.key,
        message=reply.message(),
        finish_reason=reply.finish_reason,
        model=found.model or str(store.body(found.key)["model"]),
        usage=replace(reply.usage, requests=1).to_dict() if is_counted else None,
        source="batch",
        sha256=wording,
    )
