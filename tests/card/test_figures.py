"""Statistics are those of the data, beside the paper's."""

from awm_hub.card.audits import audit_summary, environment_checks, task_checks
from awm_hub.card.figures import Spread, categories, difficulties, spread, statistics_table, toolset_sizes
from awm_hub.environment import Quality, TaskQuality


def test_a_spread_has_mean_median_and_nearest_rank():
    assert spread(range(1, 11)) == Spread(mean=5.5, median=5.5, p90=9)
    assert spread([3]) == Spread(mean=3, median=3, p90=3)
    assert spread([]) is None


def test_the_table_has_the_papers_means_in_the_last_column(facts):
    lines = statistics_table([facts("a_1")]).splitlines()
    assert [line.split(" | ")[-1] for line in lines[2:9]] == [
        "18.5 |",
        "129 |",
        "35.1 |",
        "1,985 |",
        "10 |",
        "8.5 |",
        "7.1 |",
    ]


def test_rare_categories_stand_together(facts):
    many = [facts(f"e_{i}", categories=(f"c{min(i, 14):02}", "all")) for i in range(16)]
    found = categories(many)
    assert found[0] == ("all", 16)
    assert found[1] == ("c14", 2)
    assert found[-1] == ("4 others", 4)
    assert sum(n for _, n in found) == 32


def test_plots_leave_out_empty_ends(facts):
    assert toolset_sizes([]) == []
    (only,) = toolset_sizes([facts("a_1")])
    assert only[1] == 1
    assert sum(n for _, n in difficulties([facts("a_1")])) == sum(t.calls is not None for t in facts("a_1").tasks)


def test_a_check_counts_only_where_it_was_made(facts, renamed):
    name = renamed("a_1").content_hash
    tasks = (
        TaskQuality(id="a_1/x", noop_rejected=True, mutants_rejected=9, mutants_tried=10),
        TaskQuality(id="a_1/y", noop_rejected=False),
        TaskQuality(id="a_1/z"),
    )
    audited = facts("a_1", quality=Quality(audited_hash=name, seed_errors=2, hidden_state=False, tasks=tasks))
    found = [audited, facts("b_1")]
    assert {c.name: (c.passed, c.made) for c in task_checks(found)} == {
        "doing nothing fails": (1, 2),
        "mutants rejected": (9, 10),
    }
    checks = {c.name: (c.passed, c.made) for c in environment_checks(found)}
    assert checks["sample data loads"] == (0, 1)
    assert checks["no state outside the database"] == (1, 1)
    assert "two runs are identical" not in checks
    assert audit_summary(found).startswith("1 of 2 environments were audited")
