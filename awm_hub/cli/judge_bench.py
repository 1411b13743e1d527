"""`awm-hub judge-bench`: measure how good a judge is, on attempts whose right outcomes are known."""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from awm_hub.cli.choosing import naming_dataset
from awm_hub.cli.endpoints import KEYS
from awm_hub.cli.judges import add_judge, chosen_judge
from awm_hub.cli.options import Verbs, add_dataset, add_trust, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line, counted, table
from awm_hub.errors import DataError, UsageError

if TYPE_CHECKING:
    from awm_hub.bench.judges import JudgeQuality, Rate, Score
    from awm_hub.bench.labelled import Labelled
    from awm_hub.environment import Environment, Task
    from awm_hub.trajectory import Verdict

_SHOWN_MISTAKES, _REASON_WIDTH = 20, 60
_DETAILS = f"""Attempts are made from the reference solutions of the environments' tasks and labelled by their making:
the solution and equivalents of it must pass; doing nothing, mutants, wrong answers, another task's solution and planted
instructions must not. --labelled adds attempts that somebody has labelled, as JSON lines.

Reported: accuracy (by outcome and by kind of attempt), false-pass and false-fail rate and, with several votes or
repeats, self-consistency, pairwise agreement, Fleiss' kappa and how often two votes lead to different rewards.
{KEYS}

Exit code 1 says that some attempts could not be judged."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "judge-bench",
        "Measure how good a judge is.",
        details=_DETAILS,
        examples=(
            "awm-hub judge-bench public_library_1",
            "awm-hub judge-bench --judge llm --model m --base-url http://127.0.0.1:8000/v1 --votes 3 --per-kind 2",
            "awm-hub judge-bench --kinds injection,solution --blind --judge llm --model Qwen3-32B",
        ),
    )
    parser.add_argument("environments", metavar="ENV", nargs="*", help="ids of environments (default: all)")
    parser.add_argument("--task", metavar="TASK", action="append", help="only this task; may be given again")
    parser.add_argument("--kinds", metavar="K,K", help="only these kinds of attempts (none: hand-labelled ones alone)")
    parser.add_argument("--per-kind", metavar="N", type=int, help="at most N attempts of a kind at a task")
    parser.add_argument("--labelled", metavar="FILE", help="also the hand-labelled attempts of this JSONL file")
    parser.add_argument("--repeats", metavar="N", type=int, default=1, help="judge each attempt N times (default 1)")
    parser.add_argument("-o", "--out", metavar="FILE", help="also write the report as JSON")
    add_judge(parser)
    add_dataset(parser)
    add_trust(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Make attempts, judge them, print the figures."""
    from awm_hub.bench.judges import measure_judge
    from awm_hub.runtime import sync

    with chosen_judge(arguments) as judge:
        attempts, unsettled = sync.run(_attempts, arguments, console)
        report = sync.run(
            measure_judge,
            judge,
            attempts,
            repeats=arguments.repeats,
            concurrency=arguments.concurrency,
            unsettled=unsettled,
            on_judged=_Progress(console, len(attempts)),
        )
    for line in _lines(report, console):
        console.say(line)
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(report.to_dict(), indent=1) + "\n", encoding="utf-8")
    return Finished(data=report.to_dict(), exit_code=1 if report.unjudged else 0)


class _Progress:
    """A line for each attempt that is not judged as it should be, and for every hundredth."""

    def __init__(self, console: Console, total: int) -> None:
        self._console, self._total, self._count = console, total, 0

    def __call__(self, attempt: "Labelled", verdict: "Verdict | None") -> None:
        self._count += 1
        outcome = "not judged" if verdict is None else str(verdict.outcome)
        is_right = verdict is not None and verdict.outcome in attempt.accepted
        if self._console.is_json or not is_right or self._count % 100 == 0:
            event = "judged" if is_right else "mistake"
            self._console.progress(event, id=attempt.id, outcome=outcome, position=self._count, total=self._total)


async def _attempts(arguments: argparse.Namespace, console: Console) -> "tuple[list[Labelled], int]":
    """What is to be judged, and how many attempts were left out."""
    from awm_hub.bench.labelled import hand_labelled, made_attempts
    from awm_hub.hub import load

    trust = arguments.trust_remote_code
    found: list[Labelled] = []
    unsettled = 0
    with naming_dataset(arguments):
        environments = load(arguments.dataset, revision=arguments.revision)
        kinds = _kinds(arguments.kinds)
        tasks = list(_tasks(arguments, environments)) if kinds else []
        for position, (environment, task) in enumerate(tasks, 1):
            made, left_out = await made_attempts(
                environment, task, kinds=kinds, per_kind=arguments.per_kind, trust_remote_code=trust
            )
            found += made
            unsettled += left_out
            console.progress("made", task=task.id, attempts=len(made), position=position, total=len(tasks))
        if arguments.labelled:
            found += await hand_labelled(arguments.labelled, environments, trust_remote_code=trust)
    if not found:
        step = "name a dataset whose tasks have solutions, or a file with --labelled"
        raise DataError("there are no attempts to judge", next_step=step)
    return found, unsettled


def _kinds(text: str | None) -> tuple[str, ...]:
    from awm_hub.variants import KINDS

    if text is None:
        return KINDS
    chosen = tuple(word.strip() for word in text.split(",") if word.strip() not in ("", "none"))
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        raise UsageError(f"no kind of attempt named {unknown[0]!r}", next_step=f"choose from {', '.join(KINDS)}, none")
    return chosen


def _tasks(
    arguments: argparse.Namespace, environments: "Mapping[str, Environment]"
) -> "Iterator[tuple[Environment, Task]]":
    """Tasks with a solution, in the environments asked for."""
    for name in arguments.environments or environments:
        environment = environments[name]
        asked = None if arguments.task is None else [environment.task(task) for task in arguments.task]
        for task in environment.tasks if asked is None else asked:
            if task.solution is not None:
                yield environment, task


def _lines(report: "JudgeQuality", console: Console) -> Iterator[str]:
    wrong, right = report.false_pass, report.false_fail
    yield f"rejected {wrong.total - wrong.count} of {counted(wrong.total, 'wrong attempt')}"
    yield f"passed {right.total - right.count} of {counted(right.total, 'right attempt')}"
    yield ""
    rows = [["accuracy", *_cells(report.accuracy.right, report.accuracy)]]
    rows += [[f"  {name}", *_cells(score.right, score)] for name, score in report.by_outcome.items()]
    rows += [["false pass", *_cells(wrong.count, wrong)], ["false fail", *_cells(right.count, right)]]
    rows += [[f"{kind} right", *_cells(score.right, score)] for kind, score in report.by_kind.items()]
    for name in ("self_consistency", "pairwise_agreement", "fleiss_kappa", "reward_flip_rate"):
        value = getattr(report, name)
        if value is not None:
            rows.append([name.replace("_", " "), f"{value:.3f}", ""])
    yield from table(rows)
    if report.mistakes:
        yield ""
        yield from _mistake_lines(report, console)
    if report.unsettled:
        yield f"left out: {report.unsettled} attempts whose label only judging could tell"
    for name, reason in report.unjudged:
        yield console.style(clean_line(f"not judged: {name}: {reason}"), "yellow")


def _cells(count: int, of: "Score | Rate") -> list[str]:
    share = "-" if of.share is None else f"{100 * of.share:.1f} %"
    return [share, f"{count} of {of.total}"]


def _mistake_lines(report: "JudgeQuality", console: Console) -> Iterator[str]:
    rows = [["mistake", "found", "why"]]
    for one in report.mistakes[:_SHOWN_MISTAKES]:
        rows.append([clean_line(one.id, 90), one.found, clean_line(one.reasoning, _REASON_WIDTH)])
    head, *rest = table(rows)
    yield console.style(head, "dim")
    yield from rest
    if len(report.mistakes) > _SHOWN_MISTAKES:
        yield f"and {len(report.mistakes) - _SHOWN_MISTAKES} more; --json and -o list all"
