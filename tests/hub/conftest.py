"""Datasets to read and to damage, a loopback Hub that serves one, and processes that load from it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback_hub import TOKEN, LoopbackHub, loopback_hub

from awm_hub import packing
from awm_hub.environment import Environment

__all__ = ["loopback_hub"]
REPO = "awm/envs-1k"
TRAIN = "environments/train-00000-of-00001.parquet"
"""The shard that holds the `train` split of every dataset here."""


@pytest.fixture
def dataset(notes_dataset: Path, tmp_path: Path) -> Path:
    """A copy of the `notes` dataset."""
    return Path(shutil.copytree(notes_dataset, tmp_path / "dataset"))


@pytest.fixture
def written(renamed: Callable[..., Environment], tmp_path: Path) -> Callable[..., Path]:
    """Writes a dataset of environments like `notes` under these ids."""

    def write(*names: str) -> Path:
        packing.write_dataset([renamed(n) for n in names], tmp_path / "written")
        return tmp_path / "written"

    return write


@pytest.fixture
def one_file(notes_dataset: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes one Parquet file like that of `notes`, its table changed by a function, its values by name."""

    def write(change: Callable[[pa.Table], pa.Table] = lambda t: t, **values: object) -> Path:
        table = pq.read_table(notes_dataset / TRAIN)
        for name, value in values.items():
            field = table.schema.field(name)
            table = table.set_column(table.schema.get_field_index(name), field, pa.array([value], field.type))
        path = tmp_path / "one.parquet"
        pq.write_table(change(table), path)
        return path

    return write


@pytest.fixture
def hub(loopback_hub: LoopbackHub, written: Callable[..., Path]) -> LoopbackHub:
    """A Hub with one revision of the dataset `awm/envs-1k`."""
    loopback_hub.commit_folder(written("a_1", "garden_1"), REPO)
    return loopback_hub


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[..., list[Any]]:
    """Runs a program in a process of its own, since the Hub's client reads its settings when it is imported.

    It gets `argument` as `sys.argv[1]`, and gives the JSON values that it prints, one a line.
    """

    def run(program: str, argument: object = None, *, url: str, is_offline: bool = False, **more: str) -> list[Any]:
        settings = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": TOKEN}
        offline = {"HF_HUB_OFFLINE": "1"} if is_offline else {}
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(argument)],
            env={**os.environ, **settings, **offline, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        run.stderr = done.stderr  # type: ignore[attr-defined]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run
