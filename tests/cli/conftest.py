"""A dataset whose every text is hostile, and a way to run the command line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awm_hub.cli import main
from awm_hub.packing import pack

HOSTILE = "<script>{{7*7}} --- | \x1b]0;owned\x07\x1b[2J \u202egnp.exe \u2028\x85 café"
_TOML = HOSTILE.replace("\\", "\\\\").translate({c: f"\\u{c:04x}" for c in (7, 0x1B, 0x85, 0x2028, 0x202E)})

_SOURCE = {
    "scenario.toml": f"""
title = "{_TOML}"
description = "{_TOML}"
categories = ["inventory"]
rules = "{_TOML}"
clock = 2026-03-02T09:00:00Z
interface = "functions"
provenance = {{ license = "{_TOML}" }}
""",
    "schema.sql": "CREATE TABLE parcels (code TEXT PRIMARY KEY, label TEXT NOT NULL, weight_g INTEGER NOT NULL);",
    "seed.sql": f"INSERT INTO parcels (code, label, weight_g) VALUES ('{HOSTILE}', '{HOSTILE}', 10);",
    "tools.py": f'''
import sqlite3


def register(db: sqlite3.Connection, code: str, label: str, weight_g: int = 0, tags: list[str] | None = None) -> dict:
    """{_TOML}

    Args:
        code: {_TOML}
    """
    if weight_g < 0:
        raise ValueError("{_TOML}")
    db.execute("INSERT INTO parcels (code, label, weight_g) VALUES (?, ?, ?)", (code, label, weight_g))
    return {{"code": code, "label": label, "weight_g": weight_g, "tags": tags}}


def read(db: sqlite3.Connection) -> str:
    """Read the first label."""
    return db.execute("SELECT label FROM parcels").fetchone()[0]


def fail(db: sqlite3.Connection) -> None:
    """Fail."""
    raise KeyError("{_TOML}")
''',
    "tasks.toml": f"""
[label_it]
instruction = "{_TOML}"
kind = "both"
answer = "{_TOML}"
answer_sql = "SELECT label FROM parcels WHERE code = 'a'"
solution = [{{ tool = "register", arguments = {{ code = "a", label = "{_TOML}" }} }}]
success = "{_TOML}"
failure = "{_TOML}"
""",
    "verifiers.py": 'def signals_label_it(initial, final, changes):\n    """Say nothing."""\n    return {}\n',
}


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset with one environment, `parcel_desk_1`, that tries to act on the terminal wherever it can."""
    folder = tmp_path_factory.mktemp("hostile")
    source = folder / "parcel_desk_1"
    source.mkdir()
    for name, text in _SOURCE.items():
        (source / name).write_text(text, encoding="utf-8")
    pack(source, folder / "out")
    return str(folder / "out")


@pytest.fixture
def hostile_text() -> str:
    """The text that stands in every string of `hostile`."""
    return HOSTILE


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command in this process: `(exit code, stdout, stderr)`, or with `--json` `(exit code, object, stderr)`."""

    def run(*words: str) -> tuple[int, Any, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in words else out, err

    return run


def program(*words: str, cwd: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as a program of its own."""
    command = [sys.executable, "-m", "awm_hub", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, env={**os.environ}, **options)
