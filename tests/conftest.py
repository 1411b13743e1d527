"""What all tests share: the `notes` environment, built once per session by packing its sources."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

import awm_hub
from awm_hub import packing
from awm_hub.environment import Environment

NOTES = Path(__file__).parent / "fixtures" / "notes"


@pytest.fixture(scope="session")
def notes_source() -> Path:
    """The source folder of the `notes` environment."""
    return NOTES


@pytest.fixture(scope="session")
def notes_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset folder that holds the `notes` environment; not to be changed."""
    out = tmp_path_factory.mktemp("dataset") / "notes"
    packing.pack(NOTES, out)
    return out


@pytest.fixture(scope="session")
def notes_environment(notes_dataset: Path) -> Environment:
    """The `notes` environment, as read from its dataset."""
    return awm_hub.load(notes_dataset)["notes"]


@pytest.fixture(scope="session")
def renamed(notes_environment: Environment) -> Callable[..., Environment]:
    """Makes environments like `notes` under another id, with other fields where given."""

    def rename(name: str, **changes: object) -> Environment:
        tasks = tuple(dataclasses.replace(t, id=f"{name}/{t.slug}") for t in notes_environment.tasks)
        found = dataclasses.replace(notes_environment, **{"id": name, "tasks": tasks, **changes})
        return found.with_hash("0" * 64)

    return rename
