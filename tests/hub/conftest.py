"""Datasets to read and to damage."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from awm_hub import packing
from awm_hub.environment import Environment

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
