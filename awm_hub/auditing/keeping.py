"""The run file: finished environments, so that an interrupted audit goes on where it was.

One JSON line per environment, appended and flushed to disk when it is done. A line is taken over only if the version of
the audit and the whole row are the same: the key covers every column, not the content hash that the row itself states.
A line that a killed process left half written is passed over.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from awm_hub.auditing.findings import AuditedEnvironment
from awm_hub.auditing.rules import AUDIT_VERSION
from awm_hub.canonical import from_json, sha256_of, to_line
from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError, DataError, UsageError


def default_path() -> Path:
    """The run file where none is named: in the Hub's cache, one for each version of the audit."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "awm-hub" / f"audits-{AUDIT_VERSION}.jsonl"


def key_of(environment: Environment) -> str:
    """What a result belongs to: the row without its earlier audit, and the version of the audit."""
    row = environment.to_row()
    quality, image = row.pop("quality"), row.pop("database")
    is_hidden = bool(quality and quality["hidden_state"])
    plain = {name: value for name, value in row.items() if name not in ("clock", "provenance")}
    clock, image_hash = environment.clock.isoformat(), hashlib.sha256(image).hexdigest()
    return sha256_of([AUDIT_VERSION, plain, clock, image_hash, is_hidden])


def read_report(path: Path) -> dict[str, AuditedEnvironment]:
    """The environments of a report that was written earlier, by id.

    Raises:
        DataError: the file is no report.
    """
    try:
        found = json.loads(path.read_bytes())["environments"]
        return {one.id: one for one in map(AuditedEnvironment.from_dict, found)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        step = "name a file that `awm-hub audit -o REPORT` has written"
        raise DataError(f"{path} is no report of an audit: {type(error).__name__}", next_step=step) from error


class RunFile:
    """Results by key, as they are added.

    Raises:
        UsageError: the file is something else.
    """

    def __init__(self, path: Path, *, is_fresh: bool = False) -> None:
        self.path = path
        if path.is_dir() or not _may_be_run_file(path):
            step = "name a new file, or that of an earlier run"
            raise UsageError(f"{path} is no run file of an audit", next_step=step)
        self._lines: dict[str, Mapping[str, Any]] = {} if is_fresh else _read(path)

    def get(self, key: str) -> AuditedEnvironment | None:
        """The kept result, if there is one."""
        found = self._lines.get(key)
        try:
            return None if found is None else AuditedEnvironment.from_dict(found)
        except (KeyError, TypeError, ValueError):
            return None

    def add(self, key: str, result: AuditedEnvironment) -> None:
        """Keep a result; it is on disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = to_line({"key": key, "result": result.to_dict()}) + "\n"
        with open(self.path, "ab+") as file:
            if file.tell() and not _ends_a_line(file):
                file.write(b"\n")
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


def _may_be_run_file(path: Path) -> bool:
    """Whether nothing is lost by adding to a file: it is new, empty, or has a line of a run, perhaps a broken one."""
    if not path.exists():
        return True
    with open(path, "rb") as file:
        start = file.read(8)
    return not start or start.startswith(b'{"key":')


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def _read(path: Path) -> dict[str, Mapping[str, Any]]:
    if not path.is_file():
        return {}
    found: dict[str, Mapping[str, Any]] = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                entry = from_json(line, "a line of the run file")
                found[entry["key"]] = entry["result"]
            except (AwmHubError, KeyError, TypeError):
                continue
    return found
