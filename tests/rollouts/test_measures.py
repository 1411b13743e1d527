"""Figures of a run: unbiased success rates over tasks, effort, errors, cost."""

import itertools
from fractions import Fraction

import pytest
from rollouts.records import BROKEN, DONE, FAILED, rollout, step, verdict

from awm_hub.rollouts import Rollout, measure
from awm_hub.rollouts.measures import Ledger, pass_at, pass_hat, table
from awm_hub.trajectory import Outcome


def attempts(task: str, *outcomes: Outcome | None) -> list[Rollout]:
    return [rollout(task, number, outcome) for number, outcome in enumerate(outcomes)]


@pytest.mark.parametrize(
    ("c", "n", "k"), [(c, n, k) for n in range(1, 6) for c in range(n + 1) for k in range(1, n + 1)]
)
def test_the_estimates_are_the_shares_over_all_choices_of_k_attempts(c: int, n: int, k: int) -> None:
    choices = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_hat(c, n, k) == pytest.approx(float(Fraction(sum(map(all, choices)), len(choices))))
    assert pass_at(c, n, k) == pytest.approx(float(Fraction(sum(map(any, choices)), len(choices))))


def test_success_rates_are_means_over_tasks() -> None:
    found = measure([*attempts("e_1/t0", DONE, DONE, DONE, DONE), *attempts("e_1/t1", DONE, FAILED)]).overall
    assert (found.tasks, found.rollouts, found.scored, found.successes) == (2, 6, 6, 5)
    assert found.pass_at == {1: 0.75, 2: 1.0}
    assert found.pass_hat == {1: 0.75, 2: 0.5}
    assert found.pass_at_1 == 0.75


def test_what_nobody_could_score_is_neither_success_nor_failure() -> None:
    gone = rollout("e_1/t0", 1, None, termination="endpoint_error")
    failed = rollout("e_1/t0", 2, None, judge_error={"judge": "decision", "type": "JudgeError", "message": ""})
    found = measure([*attempts("e_1/t0", DONE), gone, failed]).overall
    assert (found.rollouts, found.scored, found.pass_at_1, found.mean_reward) == (3, 1, 1.0, 1.0)
    assert found.outcomes == {"COMPLETED": 1, "judge failed": 1, "not judged": 1}
    assert found.terminations == {"answered": 2, "endpoint_error": 1}


def test_a_broken_format_is_no_success_whatever_the_judge_says() -> None:
    found = measure([rollout(outcome=DONE, termination="format_error")]).overall
    assert (found.successes, found.mean_reward) == (0, -1.0)


def test_a_failure_of_the_environment_counts_as_the_paper_counts_it() -> None:
    found = measure(attempts("e_1/t0", DONE, BROKEN)).overall
    assert (found.scored, found.pass_at_1, found.mean_reward) == (2, 0.5, 0.5)


def test_nothing_scored_has_no_rate() -> None:
    found = measure(attempts("e_1/t0", None)).overall
    assert (found.pass_at, found.pass_at_1, found.mean_reward) == ({}, None, None)
    assert measure([]).overall.rollouts == 0


def test_figures_are_given_per_task_and_per_environment() -> None:
    found = measure([*attempts("e_1/t0", DONE), *attempts("e_1/t1", FAILED), *attempts("f_1/t0", FAILED)])
    assert [(m.name, m.pass_at_1) for m in found.tasks] == [("e_1/t0", 1.0), ("e_1/t1", 0.0), ("f_1/t0", 0.0)]
    assert [(m.name, m.tasks, m.pass_at_1) for m in found.environments] == [("e_1", 2, 0.5), ("f_1", 1, 0.0)]


def test_errors_are_counted_by_kind() -> None:
    steps = (step(), step("refused", "not_found"), step("refused", "not_found"), step("fault", "KeyError"))
    violations = tuple({"rule": r, "name": n, "turn": 0, "message": ""} for r, n in ((3, "invalid_arguments"),) * 2)
    found = measure([rollout(steps=steps, violations=violations)]).overall
    assert found.tool_errors == {"fault KeyError": 1, "refused not_found": 2}
    assert found.format_errors == {"invalid_arguments": 2}
    assert (found.mean_turns, found.mean_calls) == (1.0, 4.0)


def test_tokens_cost_and_seconds_are_summed_with_those_of_judges() -> None:
    usage = {
        "turns": 2,
        "requests": 2,
        "prompt_tokens": 10,
        "completion_tokens": None,
        "cost_usd": 0.25,
        "seconds": 1.5,
    }
    judged = verdict(DONE, usage={"requests": 3, "prompt_tokens": 7, "cost_usd": 0.5, "agreement": 1.0})
    found = measure([rollout(usage=usage, verdicts=(judged,), steps=(step(seconds=0.5),))] * 2).overall
    assert found.ledger == Ledger(
        requests=4,
        prompt_tokens=20,
        cost_usd=0.5,
        seconds=3.0,
        calls_seconds=1.0,
        judge_requests=6,
        judge_prompt_tokens=14,
        judge_cost_usd=1.0,
    )


def test_without_a_price_no_cost_is_known() -> None:
    ledger = measure([rollout(usage={"turns": 1, "requests": 1, "prompt_tokens": 7, "cost_usd": None})]).overall.ledger
    assert (ledger.cost_usd, ledger.judge_cost_usd, ledger.prompt_tokens) == (None, None, 7)


def test_the_table_has_one_row_for_each_measure_and_gives_means_over_attempts() -> None:
    usage = {"turns": 1, "prompt_tokens": 8, "completion_tokens": 2, "seconds": 2.0}
    first = rollout("e_1/t0", 0, DONE, usage=usage, steps=(step("refused", "not_found"),))
    found = measure([first, rollout("e_1/t0", 1, FAILED), *attempts("e_1/t1", None, None)])
    assert table([*found.tasks, found.overall]) == [
        ("name", "attempts", "pass@1", "pass^2", "per attempt: reward", "turns", "calls", "tool errors",
         "format errors", "tokens", "seconds"),
        ("e_1/t0", "2", "50.0 %", "0.0 %", "0.50", "1.0", "0.5", "0.50", "0.00", "5", "1.0"),
        ("e_1/t1", "2", "–", "–", "–", "1.0", "0.0", "0.00", "0.00", "0", "0.0"),
        ("overall", "4", "50.0 %", "0.0 %", "0.50", "1.0", "0.2", "0.25", "0.00", "2", "0.5"),
    ]  # fmt: skip


def test_metrics_have_a_json_form() -> None:
    found = measure(attempts("e_1/t0", DONE)).to_dict()
    assert found["overall"]["pass_at"] == {1: 1.0}
    assert found["tasks"][0]["ledger"]["requests"] == 0
