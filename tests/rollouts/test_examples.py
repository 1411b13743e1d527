import dataclasses

import pytest

import awm_hub as awm
from awm_hub.errors import DataError, UsageError
from awm_hub.hub import training_subset
from awm_hub.rollouts import read_trajectories, rollout, write_examples


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run that does four tasks right and one that does nothing, on the bundled library."""
    library = awm.load()["public_library_1"]
    tasks = [task.slug for task in library.tasks][:4]
    folder = tmp_path_factory.mktemp("runs")
    for policy in ("solution", "noop"):
        rollout(library, policy, tasks=tasks, out=folder / policy)
    return folder, [f"public_library_1/{slug}" for slug in tasks]


@pytest.fixture
def subset():
    return training_subset(awm.load(), environments_count=100, tasks_count=1000)


def test_right_rollouts_of_sound_tasks_are_kept_and_others_counted(runs, subset, tmp_path):
    folder, tasks = runs
    found = write_examples([folder / "solution", folder / "noop"], subset, tmp_path / "sft")
    assert found.left_out == {"not completed": 4}
    assert found.tasks_count == 4
    written = list(read_trajectories(tmp_path / "sft"))
    assert sorted(t.task_id for t in written) == sorted(tasks)
    assert {str(t.verdicts[-1].outcome) for t in written} == {"COMPLETED"}


def test_a_conversation_that_comes_twice_is_kept_once(runs, subset, tmp_path):
    folder, _ = runs
    found = write_examples([folder / "solution", folder / "solution"], subset, tmp_path / "sft")
    assert (len(found.kept), found.left_out) == (4, {"the same as another one": 4})


def test_rollouts_of_another_version_of_an_environment_are_left_out(runs, subset, tmp_path):
    folder, _ = runs
    other = tuple(dataclasses.replace(e, content_hash="0" * 64) for e in subset.environments)
    with pytest.raises(DataError, match=r"made on another version of the environment: 4"):
        write_examples([folder / "solution"], dataclasses.replace(subset, environments=other), tmp_path / "sft")
    assert not (tmp_path / "sft").exists()


def test_tasks_that_are_not_sound_give_no_example(runs, subset, tmp_path):
    folder, tasks = runs
    less = tuple(dataclasses.replace(e, tasks=tuple(t for t in e.tasks if t != tasks[0])) for e in subset.environments)
    found = write_examples([folder / "solution"], dataclasses.replace(subset, environments=less), tmp_path / "sft")
    assert (len(found.kept), found.left_out) == (3, {"task not sound": 1})


def test_a_folder_with_other_things_is_not_replaced(runs, subset, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="holds something other"):
        write_examples([runs[0] / "solution"], subset, tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_the_command_writes_them_and_says_why_others_were_left_out(runs, tmp_path, capsys):
    from awm_hub.cli import main

    folder, _ = runs
    arguments = ["subset", "--rollouts", str(folder / "solution"), "--rollouts", str(folder / "noop")]
    assert main([*arguments, "-o", str(tmp_path / "sft")]) == 0
    assert capsys.readouterr().out == f"4 rollouts of 4 tasks: {tmp_path}/sft\n  left out, not completed: 4 rollouts\n"
