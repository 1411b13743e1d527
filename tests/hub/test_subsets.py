import dataclasses
import json

import pytest

import awm_hub
from awm_hub import hub, packing
from awm_hub.environment import Quality, TaskQuality, split_of
from awm_hub.errors import DataError, RecordError, UsageError

TRAIN = [n for n in (f"n_{i}" for i in range(20)) if split_of(n) == "train"][:8]
TEST = next(n for n in (f"n_{i}" for i in range(99)) if split_of(n) == "test")


def audited(environment, *failed, **results):
    """The environment, audited; each of `failed` is a check that the task of its place fails."""
    checks = {"noop_rejected": True, "seed_unsatisfied": True}
    tasks = tuple(
        TaskQuality(id=t.id, **{**checks, **({failed[n]: False} if n < len(failed) and failed[n] else {})})
        for n, t in enumerate(environment.tasks)
    )
    kept = {"deterministic": True, "hidden_state": False, **results}
    return dataclasses.replace(environment, quality=Quality(tasks=tasks, audited_hash=environment.content_hash, **kept))


@pytest.fixture
def environments(renamed, tmp_path):
    """Eight environments to train on with four tasks each, some of them unsound, and one of the test split."""
    a, b, c, d, *others = (renamed(n) for n in TRAIN)
    rows = [
        audited(a, "noop_rejected", "seed_unsatisfied", "solution_passes"),
        audited(b, deterministic=False),
        audited(dataclasses.replace(c, usage="eval_only")),
        d,
        *(audited(e) for e in others),
        audited(renamed(TEST)),
    ]
    packing.write_dataset(rows, tmp_path / "out")
    return awm_hub.load(tmp_path / "out")


def test_only_sound_tasks_of_the_train_split_are_chosen_and_the_reasons_are_counted(environments):
    subset = hub.training_subset(environments)
    assert [e.id for e in subset.environments] == sorted([TRAIN[0], *TRAIN[4:]])
    assert [len(e.tasks) for e in subset.environments] == [1, 4, 4, 4, 4]
    assert (subset.sound_environments, subset.sound_tasks) == (5, 17)
    assert subset.left_out == {
        "deterministic": 4,
        "for evaluation only": 4,
        "not audited": 4,
        "noop_rejected": 1,
        "of the test split": 4,
        "seed_unsatisfied": 1,
        "solution_passes": 1,
    }


def test_each_environment_gives_a_task_before_one_gives_two(environments):
    def counted(tasks):
        subset = hub.training_subset(environments, environments_count=5, tasks_count=tasks)
        return sorted(len(e.tasks) for e in subset.environments)

    counts = {tasks: counted(tasks) for tasks in (5, 7, 9, 17, 30)}
    assert counts == {
        5: [1, 1, 1, 1, 1],
        7: [1, 1, 1, 2, 2],
        9: [1, 2, 2, 2, 2],
        17: [1, 4, 4, 4, 4],
        30: [1, 4, 4, 4, 4],
    }


def test_the_same_seed_gives_the_same_subset_and_another_seed_another(environments):
    def made(seed):
        return hub.training_subset(environments, environments_count=3, tasks_count=5, seed=seed)

    assert made(0) == made(0)
    assert len({made(seed).fingerprint for seed in range(6)}) > 1
    assert made(0).seed == 0
    assert [len(made(seed).tasks) for seed in range(3)] == [5, 5, 5]


def test_the_choice_is_fixed_for_all_versions():
    """Ranks come from SHA-256 of seed and id: a set that was published can be made again."""
    from awm_hub.hub.subsets import _rank

    assert _rank(0, "e_commerce_33")[:16] == "b8f5521ddfe386ba"


def test_other_checks_can_be_required(environments):
    subset = hub.training_subset(environments, requires={"noop_rejected": True})
    assert [len(e.tasks) for e in subset.environments] == [2, 4, 4, 4, 4, 4]
    with pytest.raises(UsageError, match="the audit has no check 'nice'"):
        hub.training_subset(environments, requires={"nice": True})


def test_a_subset_is_saved_and_read_back_and_a_changed_file_is_refused(environments, tmp_path):
    subset = hub.training_subset(environments, environments_count=3, tasks_count=5)
    subset.save(tmp_path / "subset.json")
    assert hub.Subset.read(tmp_path / "subset.json") == subset
    found = json.loads((tmp_path / "subset.json").read_text())
    assert (found["environments_count"], found["tasks_count"], found["fingerprint"]) == (3, 5, subset.fingerprint)
    found["environments"][0]["tasks"] = []
    (tmp_path / "subset.json").write_text(json.dumps(found))
    with pytest.raises(RecordError, match="the subset was changed"):
        hub.Subset.read(tmp_path / "subset.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"environments": [{}]}', '{"environments": 3}'])
def test_what_is_no_subset_is_refused(tmp_path, text):
    (tmp_path / "subset.json").write_text(text)
    with pytest.raises(RecordError):
        hub.Subset.read(tmp_path / "subset.json")
    with pytest.raises(DataError, match="cannot be read"):
        hub.Subset.read(tmp_path / "absent.json")


def test_a_subset_gives_its_environments_of_the_dataset_and_notices_another_content(environments, renamed, tmp_path):
    subset = hub.training_subset(environments, environments_count=3, tasks_count=3)
    names = [e.id for e in subset.environments]
    assert list(subset.of(environments)) == names
    rows = (renamed(n, rules="Others.") if n == names[1] else renamed(n) for n in names)
    packing.write_dataset(rows, tmp_path / "later")
    later = awm_hub.load(tmp_path / "later")
    with pytest.raises(DataError, match=f"lacks or has changed 1 of the subset: {names[1]}"):
        subset.of(later)


def test_more_environments_than_tasks_are_a_usage_error(environments):
    with pytest.raises(UsageError, match="5 environments with 3 tasks: each needs one"):
        hub.training_subset(environments, environments_count=5, tasks_count=3)
    with pytest.raises(UsageError, match="0 environments"):
        hub.training_subset(environments, environments_count=0)


def test_a_dataset_that_was_not_audited_has_none(notes_dataset):
    with pytest.raises(
        DataError, match=r"has no sound task \((not audited|of the test split): 4\)\n  next: `awm-hub audit`"
    ):
        hub.training_subset(awm_hub.load(notes_dataset))
