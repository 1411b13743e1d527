import json

import pytest
from synthesis.recorded import Recording, problem

from awm_hub.errors import DataError
from awm_hub.inference import Price
from awm_hub.synthesis.diversity import Diversity, DiversityPoint
from awm_hub.synthesis.figures import PAPER, PAPER_TOTAL
from awm_hub.synthesis.reporting import Figures, figures_of, stage_lines
from awm_hub.synthesis.scenarios import Dropped, Pool, Scenario
from awm_hub.synthesis.store import Store

FAULT = problem("code", "tool_fault", "list_items", "IndexError")
ADVICE = problem("code", "advice", "", "a hint", severity="warning")
BLIND = problem("verification", "blind", "pay", "the verifier sees nothing")
SCENARIO = Scenario(
    id="clinic_1", name="Clinic", outline="", category="health", suitability="high", origin="seed", round=0
)


def story(made: Recording) -> None:
    """Four environments: right at once, right after corrections, rejected, and one that waits."""
    made.ask("scenarios/suitability/1")
    for name in ("straight_1", "mended_1", "rejected_1", "waiting_1"):
        made.write(name, "database")
    made.write("straight_1", "code", "verification")
    made.solve("straight_1/solution/pay/1", ["a"])
    made.solve("straight_1/solution/book/1", ["a"])
    made.end("straight_1", accepted=True)

    made.attempt("mended_1/code/1", unreadable="no Python is found")
    made.attempt("mended_1/code/2", found_by="code", because=[problem("code", "unreadable_answer")])
    made.attempt("mended_1/database/2", found_by="audit", because=[problem("database", "foreign_key")])
    made.write("mended_1", "verification")
    made.solve("mended_1/solution/pay/1", ["a"], blames="solution", reason="no")
    made.solve("mended_1/solution/pay/2", ["a"])
    made.solve("mended_1/solution/pay/3", ["a"])
    made.attempt("mended_1/verification/2", found_by="solution", because=[BLIND], source="batch", usage=None)
    made.end("mended_1", ADVICE, accepted=True)

    for number in range(1, 6):
        made.attempt(f"rejected_1/code/{number}", found_by="code", because=[FAULT])
    made.end("rejected_1", FAULT, BLIND, ADVICE, accepted=False)

    made.attempt("waiting_1/code/1", earlier=True)
    made.ask("waiting_1/code/2", is_open=True)


@pytest.fixture
def figures(tmp_path) -> Figures:
    with Store.open(tmp_path, {}) as store:
        story(Recording(store))
    return figures_of(tmp_path)


def stage(figures: Figures, name: str):
    return next(s for s in figures.stages if s.stage == name)


def test_stages_are_counted_by_environment(figures):
    code = stage(figures, "code")
    assert code.reached == 4
    assert code.first_success == pytest.approx(1 / 3), "who sent the fourth back is not known while it waits"
    assert code.final_success == pytest.approx(3 / 4)
    assert code.attempts == pytest.approx((1 + 2 + 5 + 1) / 4)
    assert (code.asked_by_later, code.paper) == (0, PAPER["code"])
    assert (code.prompt_tokens, code.completion_tokens) == (900, 90)
    assert code.cost_per_100_usd == pytest.approx(9 * 0.5 / 2 * 100)


def test_what_a_later_gate_asks_for_is_no_failure_of_the_first_attempt(figures):
    database = stage(figures, "database")
    assert (database.first_success, database.asked_by_later, database.attempts) == (1.0, 1, 5 / 4)


def test_a_first_attempt_that_was_sent_back_for_warnings_alone_has_no_error(tmp_path):
    with Store.open(tmp_path, {}) as store:
        made = Recording(store)
        made.attempt("a/code/1")
        made.attempt("a/code/2", found_by="code", because=[ADVICE])
    code = stage(figures_of(tmp_path), "code")
    assert (code.first_success, code.first_without_error) == (0.0, 1.0)


def test_a_stage_that_was_not_reached_has_no_figures(figures):
    task = stage(figures, "task")
    assert (task.reached, task.first_success, task.final_success, task.attempts) == (0, None, None, None)
    assert task.cost_per_100_usd is None


def test_attempts_at_tasks_are_counted_by_task(figures):
    solution = stage(figures, "solution")
    assert solution.reached == 2
    assert solution.first_success == pytest.approx(2 / 3)
    assert (solution.final_success, solution.attempts, solution.asked_by_later) == (1.0, 5 / 3, 1)
    told = figures.solving
    assert (told.tasks, told.attempts, told.agreed_first, told.agreed, told.open) == (3, 5, 2, 3, 0)
    assert (told.arbiter_requests, told.at_fault) == (1, {"solution": 1})


def test_it_is_told_who_answered_and_what_is_an_estimate(figures):
    told = figures.answers
    answers = figures.total.answers
    assert told.models == {"m": answers}
    assert told.sources == {"batch": 1, "live": answers - 1}
    assert (told.counted, told.estimated, told.unpriced, told.open) == (answers - 1, 1, 1, 1)
    assert told.reworded == ("waiting_1/code/1",)
    assert told.unreadable == {"mended_1/code/1": "no Python is found"}


def test_each_environment_is_told_with_what_is_left(figures):
    states = {e.id: (e.state, e.exhausted, len(e.problems)) for e in figures.environments}
    assert states == {
        "straight_1": ("accepted", "", 0),
        "mended_1": ("accepted", "", 1),
        "rejected_1": ("rejected", "code", 3),
        "waiting_1": ("unfinished", "", 0),
    }
    mended = next(e for e in figures.environments if e.id == "mended_1")
    assert mended.attempts == {"database": 2, "code": 2, "verification": 2, "solution": 3}
    assert (mended.requests, mended.cost_usd) == (13, 6.0)


def test_failures_are_grouped_by_rule_without_the_warnings(figures):
    assert [(f.stage, f.rule, f.environments, f.problems, f.example) for f in figures.failures] == [
        ("code", "tool_fault", ("rejected_1",), 1, "IndexError"),
        ("verification", "blind", ("rejected_1",), 1, "the verifier sees nothing"),
    ]


def test_costs_are_unknown_without_prices_and_a_price_gives_them(tmp_path):
    with Store.open(tmp_path, {}) as store:
        made = Recording(store)
        made.attempt("a/code/1", usage={"prompt_tokens": 100, "completion_tokens": 10})
        made.end("a", accepted=True)
        free = figures_of(store)
        paid = figures_of(store, price=Price(prompt_per_million_usd=10_000, completion_per_million_usd=0))
    assert (free.cost_per_100_usd, free.environments[0].cost_usd, stage(free, "code").cost_per_100_usd) == (None,) * 3
    assert "| – | 12.81 |" in free.markdown()
    assert (paid.cost_per_100_usd, paid.environments[0].cost_usd) == (100.0, 1.0)


def test_a_run_that_has_only_begun_has_a_report(tmp_path):
    with Store.open(tmp_path, {}) as store:
        Recording(store).ask("scenarios/suitability/1", is_open=True)
    figures = figures_of(tmp_path)
    assert figures.environments == ()
    assert "Nobody so far." in figures.markdown()
    json.dumps(figures.to_dict())
    assert len(stage_lines(figures)) == 10


def test_the_papers_stages_sum_up_to_its_total():
    assert sum(p.cost_per_100_usd or 0 for p in PAPER.values()) == pytest.approx(PAPER_TOTAL.cost_per_100_usd)


def test_the_table_for_the_terminal_stands_in_columns(figures):
    lines = stage_lines(figures)
    assert [line.split()[0] for line in lines[1:]] == [*PAPER, "total"]
    assert len({len(line) for line in lines}) == 1
    assert lines[6].split() == ["code", "4", "33.3", "%", "75.0", "%", "2.25", "0", "990", "225.00", "12.81"]


def test_the_page_tells_all_of_it(figures):
    page = figures.markdown()
    assert "4 environments: 2 accepted, 1 rejected, 1 unfinished." in page
    row = "| `code` | 4 | 33.3 % | 33.3 % | 86.8 % | 75.0 % | 2.25 | 1.13 | 0 | 900 | 90 | 225.00 | 12.81 |"
    assert row in page
    assert "### `rejected_1`, given up at `code`" in page
    assert "- `code` `advice` (warning): a hint" in page
    assert "| `mended_1/code/1` | no Python is found |" in page
    assert "- given to an earlier wording: 1, `waiting_1/code/1`" in page


def test_the_pool_and_its_diversity_are_told_where_they_are_known(tmp_path):
    with Store.open(tmp_path, {}) as store:
        story(Recording(store))
        point = DiversityPoint(size=1, distance_mean=None, nearest_mean=None, nearest_max=None, categories=1)
        pool = Pool(
            scenarios=(SCENARIO,),
            dropped=(Dropped(name="Poker | <b>", reason="unsuitable"),),
            notes=("scenarios/invent/1: no JSON",),
            rounds=1,
            is_stalled=True,
            full=("health",),
        )
        figures = figures_of(store, pool=pool, diversity=Diversity(embedder="words 1", points=(point,)))
    page = figures.markdown()
    assert "| Clinic | `clinic_1` | `health` | seed | high |" in page
    assert "| Poker &#124; &#60;b&#62; | unsuitable |" in page
    assert "The pool stalled below its target. Full categories: `health`." in page
    assert "| 1 | – | – | – | 1 |" in page
    found = figures.to_dict()
    assert found["pool"]["dropped"] == ({"name": "Poker | <b>", "reason": "unsuitable"},)
    assert found["diversity"]["embedder"] == "words 1"


def test_what_a_model_wrote_stays_in_its_cell(tmp_path):
    evil = "`</td>|<script>alert(1)</script>\n# heading [x](javascript:1) \x1b[2J"
    with Store.open(tmp_path, {}) as store:
        made = Recording(store, model="m` | <img src=x>\n# m")
        made.attempt("a/code/1", unreadable=evil)
        made.end("a", problem("code", "rule", evil, evil), accepted=False)
    page = figures_of(tmp_path).markdown()
    assert not [line for line in page.split("\n") if line.startswith("# ") and line != "# Synthesis report"]
    for piece in ("<script", "<img", "](javascript", "\x1b", "`</td>"):
        assert piece not in page
    width = {line.count("|") for line in page.split("\n") if "alert" in line and line.startswith("|")}
    assert width == {3, 5}


def test_a_folder_without_a_run_has_no_figures(tmp_path):
    with pytest.raises(DataError, match="holds no run"):
        figures_of(tmp_path)
