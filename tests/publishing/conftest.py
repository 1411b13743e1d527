"""Datasets to publish, a loopback Hub to push to, and processes that use it."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from loopback_hub import TOKEN, LoopbackHub, loopback_hub

from awm_hub import packing
from awm_hub.environment import Environment, Quality, TaskQuality

__all__ = ["loopback_hub"]


@pytest.fixture(scope="session")
def audited(renamed: Callable[..., Environment]) -> Callable[..., Environment]:
    """Makes environments like `notes` that have passed an audit, fields and results as given."""

    def make(name: str, *, results: dict[str, Any] | None = None, **changes: Any) -> Environment:
        environment = renamed(name, **changes)
        tasks = tuple(TaskQuality(id=t.id, noop_rejected=True, solution_passes=True) for t in environment.tasks)
        found: dict[str, Any] = {"audited_hash": environment.content_hash, "seed_errors": 0, "deterministic": True}
        return dataclasses.replace(environment, quality=Quality(**{**found, "tasks": tasks, **(results or {})}))

    return make


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes environments as a dataset folder of this name."""

    def write(name: str, *environments: Environment) -> Path:
        packing.write_dataset(environments, tmp_path / name)
        return tmp_path / name

    return write


@pytest.fixture
def settings(loopback_hub: LoopbackHub, tmp_path: Path) -> dict[str, str]:
    """The environment variables of a process that uses the Hub."""
    return {**os.environ, **loopback_hub.environ(tmp_path / "hf")}


@pytest.fixture
def start(settings: dict[str, str], tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Starts Python with these words in a process that uses the Hub."""

    def run(words: Sequence[object], *, stdin: int | None = None, **more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, *map(str, words)],
            env={**settings, **more},
            cwd=tmp_path,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.fixture
def run_program(start: Callable[..., "subprocess.Popen[str]"]) -> Callable[..., list[Any]]:
    """Runs a Python program with these words; the JSON values that it prints, one a line."""

    def run(program: str, *words: object) -> list[Any]:
        process = start(["-c", program, *words])
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()]

    return run


@pytest.fixture
def awm_hub(start: Callable[..., "subprocess.Popen[str]"]) -> Callable[..., dict[str, Any]]:
    """Runs `awm-hub … --json`; its object, with exit code and stderr beside."""

    def run(*words: object, **more: str) -> dict[str, Any]:
        process = start(["-m", "awm_hub", *words, "--json"], **more)
        out, err = process.communicate(timeout=300)
        assert TOKEN not in out + err
        return {**json.loads(out), "exit_code": process.returncode, "stderr": err}

    return run
