from collections.abc import Callable
from dataclasses import replace

from awm_hub.trajectory import Outcome, Trajectory
from awm_hub.viewing import Listed, listed, run_document
from awm_hub.viewing.document import Facts, Grid, Label


def test_a_line_holds_what_a_rollout_came_to(trajectory: Trajectory) -> None:
    assert listed("notes__postpone_plumber__0", trajectory) == Listed(
        id="notes__postpone_plumber__0",
        environment_id="notes",
        task_id="notes/postpone_plumber",
        policy="some/model",
        outcomes=("AGENT_ERROR",),
        reward=0.0,
        termination="answered",
        steps_count=4,
        violations_count=1,
        tokens=1234,
        seconds=1.25,
    )


def test_what_is_not_known_is_left_open(changed: Callable[..., Trajectory]) -> None:
    line = listed("x", changed(usage={}, verdicts=()))
    assert (line.tokens, line.seconds, line.reward, line.outcomes) == (None, None, None, ())


def test_the_list_counts_outcomes_first(trajectory: Trajectory, changed: Callable[..., Trajectory]) -> None:
    verdict = replace(trajectory.verdicts[0], outcome=Outcome.COMPLETED, judge="llm")
    lines = [
        listed("a", trajectory),
        listed("b", changed(verdicts=())),
        listed("c", changed(verdicts=(verdict,))),
        listed("d", changed(verdicts=(trajectory.verdicts[0], verdict))),
    ]
    document = run_document("runs/x", lines, links=["1.html", "2.html", "3.html", "4.html"])
    assert document.labels == (
        Label(text="COMPLETED 2", tone="good"), Label(text="AGENT_ERROR 2", tone="bad"), Label(text="not judged 1"),
    )  # fmt: skip
    facts, grid = document.blocks
    assert isinstance(facts, Facts)
    assert dict(facts.pairs)["rollouts"] == "4 rollouts"
    assert isinstance(grid, Grid)
    assert [(row[0].text, row[0].link, row[1].text, row[2].text) for row in grid.rows] == [
        ("a", "1.html", "AGENT_ERROR", "0"),
        ("b", "2.html", "not judged", ""),
        ("c", "3.html", "COMPLETED", "1"),
        ("d", "4.html", "AGENT_ERROR / COMPLETED", "1"),
    ]


def test_an_empty_run_is_an_empty_list() -> None:
    document = run_document("runs/x", [])
    assert [type(b) for b in document.blocks] == [Facts]
