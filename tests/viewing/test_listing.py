from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from awm_hub.errors import RecordError
from awm_hub.rollouts import Rollout
from awm_hub.trajectory import Outcome, Trajectory
from awm_hub.viewing import Listed, Unreadable, listed, run_document, survey
from awm_hub.viewing.document import Document, Facts, Grid, Label, Prose, Section

Changed = Callable[..., Trajectory]


def run_of(**trajectories: Trajectory) -> dict[str, Rollout]:
    return {name: Rollout(id=name, number=0, trajectory=found) for name, found in trajectories.items()}


class Damaged(Mapping[str, Rollout]):
    """A run with one file that cannot be read."""

    def __init__(self, rollouts: Mapping[str, Rollout]) -> None:
        self._rollouts = rollouts

    def __getitem__(self, name: str) -> Rollout:
        if name == "bad":
            raise RecordError("bad.json is not valid JSON")
        return self._rollouts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(["bad", *self._rollouts])

    def __len__(self) -> int:
        return len(self._rollouts) + 1


def grid_of(document: Document, title: str) -> Grid:
    (section,) = (b for b in document.blocks if isinstance(b, Section) and b.title == title)
    grid = section.blocks[0]
    assert isinstance(grid, Grid)
    return grid


def facts_of(document: Document) -> dict[str, str]:
    (found,) = (b for b in document.blocks if isinstance(b, Facts))
    return dict(found.pairs)


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


def test_what_is_not_known_is_left_open(changed: Changed) -> None:
    line = listed("x", changed(usage={}, verdicts=()))
    assert (line.tokens, line.seconds, line.reward, line.outcomes) == (None, None, None, ())


def test_the_list_counts_outcomes_first(trajectory: Trajectory, changed: Changed) -> None:
    verdict = replace(trajectory.verdicts[0], outcome=Outcome.COMPLETED, judge="llm")
    run = run_of(
        a=trajectory,
        b=changed(verdicts=()),
        c=changed(verdicts=(verdict,)),
        d=changed(verdicts=(trajectory.verdicts[0], verdict)),
    )
    found = replace(survey(run, planned=6), links={name: f"{name}.html" for name in run})
    document = run_document("runs/x", found)
    assert document.labels == (
        Label(text="COMPLETED 2", tone="good"), Label(text="AGENT_ERROR 2", tone="bad"), Label(text="not judged 1"),
    )  # fmt: skip
    assert facts_of(document)["rollouts"] == "4 stored of 6 planned"
    assert [(row[0].text, row[0].link, row[1].text, row[2].text) for row in grid_of(document, "Rollouts").rows] == [
        ("a", "a.html", "AGENT_ERROR", "0"),
        ("b", "b.html", "not judged", ""),
        ("c", "c.html", "COMPLETED", "1"),
        ("d", "d.html", "AGENT_ERROR / COMPLETED", "1"),
    ]


def test_figures_tokens_and_cost_are_told(trajectory: Trajectory, changed: Changed) -> None:
    verdict = replace(trajectory.verdicts[0], outcome=Outcome.COMPLETED)
    spent = {**trajectory.usage, "cost_usd": 0.25}
    found = survey(run_of(a=trajectory, b=changed(verdicts=(verdict,), usage=spent)))
    document = run_document("x", found)
    assert facts_of(document) == {
        "rollouts": "2", "tasks": "1", "policies": "some/model", "tokens": "2,400 prompt, 68 completion",
        "cost in USD": "0.25",
    }  # fmt: skip
    grid = grid_of(document, "Metrics")
    overall = dict(zip(grid.columns, (cell.text for cell in grid.rows[-1]), strict=True))
    assert (overall["name"], overall["pass@1"], overall["pass^2"]) == ("overall", "50.0 %", "0.0 %")
    assert found.metrics.overall.successes == 1


def test_a_file_that_cannot_be_read_hides_no_other(trajectory: Trajectory) -> None:
    found = survey(Damaged(run_of(a=trajectory)), folder=Path("runs/x"), planned=2, remedy="make it again")
    assert [line.id for line in found.rollouts] == ["a"]
    assert found.unreadable == (Unreadable(id="bad", path="runs/x/bad.json", reason="bad.json is not valid JSON"),)
    document = run_document("x", found)
    assert document.labels[-1] == Label(text="unreadable 1", tone="bad")
    assert facts_of(document)["rollouts"] == "2 stored of 2 planned"
    (section,) = (b for b in document.blocks if isinstance(b, Section) and b.title == "Cannot be read")
    assert section.blocks[1] == Prose(text="make it again")
    assert [cell.text for cell in grid_of(document, "Cannot be read").rows[0]] == [
        "runs/x/bad.json", "bad.json is not valid JSON",
    ]  # fmt: skip


def test_a_rollout_without_figures_cannot_be_read(changed: Changed) -> None:
    found = survey(run_of(a=changed(environment_id=5), b=changed(usage="x"), c=changed(task_id=["x"])))
    assert (found.rollouts, [u.id for u in found.unreadable]) == ((), ["a", "b", "c"])


def test_an_empty_run_is_an_empty_list() -> None:
    document = run_document("runs/x", survey({}, planned=3))
    assert [type(b) for b in document.blocks] == [Facts]
    assert facts_of(document)["rollouts"] == "0 stored of 3 planned"
