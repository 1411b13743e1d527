import dataclasses

import pytest

import awm_hub
from awm_hub import packing
from awm_hub.environment import Quality, TaskQuality
from awm_hub.errors import UnknownNameError, UsageError
from awm_hub.hub import filters

SOUND = {"noop_rejected": True, "seed_unsatisfied": True, "solution_passes": True}


def audited(environment, tasks=(), **results):
    """The environment with audit results; each of `tasks` is what differs from `SOUND` for one task."""
    found = tuple(
        TaskQuality(id=f"{environment.id}/t{n}", **{**SOUND, **different}) for n, different in enumerate(tasks or ({},))
    )
    quality = Quality(**{"tasks": found, "audited_hash": environment.content_hash, **results})
    return dataclasses.replace(environment, quality=quality)


@pytest.fixture
def environments(renamed, tmp_path):
    """Five environments that differ in all that can be filtered by."""
    a, b, c, d, e = (renamed(n) for n in ("a_1", "b_2", "c_3", "d_4", "garden_1"))
    rows = [
        audited(a, deterministic=True, hidden_state=False, tool_faults=0, dropped_tools=("x", "y")),
        audited(
            dataclasses.replace(b, categories=("library", "music"), tools=b.tools[:2]),
            ({}, {"noop_rejected": False}),
            deterministic=False,
            tool_faults=3,
        ),
        audited(dataclasses.replace(c, usage="eval_only"), ({"solution_passes": None},), hidden_state=True),
        dataclasses.replace(d, interface="fastapi", tables=d.tables[:1]),
        audited(e, deterministic=True, audited_hash="0" * 64),
    ]
    packing.write_dataset(rows, tmp_path / "out")
    return awm_hub.load(tmp_path / "out")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ["a_1", "b_2", "c_3", "d_4", "garden_1"]),
        ({"split": "test"}, ["garden_1"]),
        ({"split": None, "category": None, "quality": None}, ["a_1", "b_2", "c_3", "d_4", "garden_1"]),
        ({"category": "music"}, ["b_2"]),
        ({"category": ["music", "productivity"]}, ["a_1", "b_2", "c_3", "d_4", "garden_1"]),
        ({"category": "agriculture"}, []),
        ({"interface": "fastapi"}, ["d_4"]),
        ({"usage": "eval_only"}, ["c_3"]),
        ({"max_tools": 2}, ["b_2"]),
        ({"min_tools": 3, "max_tables": 1}, ["d_4"]),
        ({"min_tables": 2, "split": "train", "usage": "train"}, ["a_1", "b_2"]),
        ({"ids": {"a_1", "garden_1", "gone"}}, ["a_1", "garden_1"]),
        ({"quality": {}}, ["a_1", "b_2", "c_3"]),
        ({"quality": {"deterministic": True}}, ["a_1"]),
        ({"quality": {"hidden_state": False}}, ["a_1"]),
        ({"quality": {"tool_faults": 3}}, ["a_1", "b_2"]),
        ({"quality": {"tool_faults": 2}}, ["a_1"]),
        ({"quality": {"dropped_tools": 1}}, ["b_2", "c_3"]),
        ({"quality": {"noop_rejected": True}}, ["a_1", "c_3"]),
        ({"quality": {"solution_passes": True}}, ["a_1", "b_2"]),
        ({"quality": {"noop_rejected": True, "hidden_state": True}, "usage": "eval_only"}, ["c_3"]),
    ],
)
def test_environments_are_chosen_by(environments, wanted, expected):
    assert list(environments.where(**wanted)) == expected
    assert list(awm_hub.load(environments.source, **wanted)) == expected


def test_filters_narrow_each_other_and_leave_the_first_mapping_as_it_was(environments):
    assert list(environments.where(split="train").where(category="productivity").where(max_tables=1)) == ["d_4"]
    assert len(environments) == 5


def test_what_was_filtered_out_is_not_there(environments):
    chosen = environments.where(category="music")
    assert chosen["b_2"].id == "b_2"
    with pytest.raises(UnknownNameError, match="no environment named 'a_1'"):
        chosen["a_1"]


def test_audit_results_are_given_by_id_for_what_was_audited_as_it_is(environments):
    found = environments.qualities()
    assert sorted(found) == ["a_1", "b_2", "c_3"]
    assert found["b_2"] == environments["b_2"].quality
    assert environments["garden_1"].quality.audited_hash == "0" * 64


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"kind": "query"}, "there is no filter 'kind'\n  next: one of ids, split, category"),
        ({"split": "dev"}, "there is no split 'dev'\n  next: one of train, test"),
        ({"interface": "rest"}, "there is no interface 'rest'\n  next: one of functions, fastapi"),
        ({"usage": "all"}, "there is no usage 'all'\n  next: one of train, eval_only"),
        ({"quality": {"green": True}}, "the audit has no check 'green'\n  next: one of schema_errors, seed_errors"),
        ({"quality": {"deterministic": 1}}, "deterministic is true or false, not 1"),
        ({"quality": {"tool_faults": False}}, "tool_faults is a number, how much there may be at most, not False"),
    ],
)
def test_a_filter_that_does_not_exist_is_a_usage_error(notes_dataset, wanted, message):
    with pytest.raises(UsageError, match=message):
        awm_hub.load(notes_dataset, **wanted)


def test_the_checks_are_those_of_the_record():
    assert filters.CHECKS == (
        "schema_errors",
        "seed_errors",
        "foreign_key_violations",
        "dropped_tools",
        "tool_faults",
        "false_effects",
        "errors",
        "hidden_state",
        "deterministic",
        "noop_rejected",
        "seed_unsatisfied",
        "solution_passes",
    )
