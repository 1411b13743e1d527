import dataclasses
import json

import pytest

from awm_hub.environment import Quality, TaskQuality
from awm_hub.hub import Subset
from awm_hub.packing import write_dataset

pytestmark = pytest.mark.usefixtures("notes_dataset")


@pytest.fixture
def audited(renamed, tmp_path):
    """A dataset of two environments to train on, one of them with audit results."""
    first, second = renamed("desk_1"), renamed("desk_5")
    tasks = tuple(TaskQuality(id=t.id, noop_rejected=True, seed_unsatisfied=True) for t in first.tasks)
    quality = Quality(deterministic=True, hidden_state=False, tasks=tasks, audited_hash=first.content_hash)
    write_dataset([dataclasses.replace(first, quality=quality), second], tmp_path / "out")
    return str(tmp_path / "out")


def test_a_subset_is_written_and_reported(cli, audited, tmp_path):
    file = str(tmp_path / "subset.json")
    code, found, _ = cli("subset", "--dataset", audited, "--environments", "1", "--tasks", "3", "-o", file, "--json")
    subset = Subset.read(file)
    assert code == 0
    assert found["data"] == {
        "out": file,
        "source": audited,
        "revision": None,
        "environments_count": 1,
        "tasks_count": 3,
        "sound_environments": 1,
        "sound_tasks": 4,
        "left_out": {"not audited": 4},
        "fingerprint": subset.fingerprint,
    }
    assert len(subset.tasks) == 3
    assert json.loads((tmp_path / "subset.json").read_text())["seed"] == 0


def test_fewer_sound_tasks_than_asked_for_are_a_smaller_subset(cli, audited, tmp_path):
    code, out, _ = cli("subset", "--dataset", audited, "-o", str(tmp_path / "subset.json"))
    assert code == 0
    assert out == (
        f"1 environment with 4 tasks, of 1 with 4 that are sound: {tmp_path}/subset.json\n"
        "  left out, not audited: 4 tasks\n"
    )


def test_a_dataset_that_was_not_audited_leaves_with_3(cli, notes_dataset, tmp_path):
    code, _, err = cli("subset", "--dataset", str(notes_dataset), "-o", str(tmp_path / "subset.json"))
    assert code == 3
    assert "has no sound task" in err
