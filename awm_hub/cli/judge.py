"""`awm-hub judge`: judge stored rollouts again, and say where judges disagree."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.cli.endpoints import KEYS
from awm_hub.cli.judges import add_judge, chosen_judge
from awm_hub.cli.options import Verbs, add_dataset, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line, counted, table
from awm_hub.errors import JudgeError, RemoteError, UnknownNameError

if TYPE_CHECKING:
    import asyncio

    from awm_hub.environment import Environment
    from awm_hub.judging import Judge
    from awm_hub.rollouts import Rollout
    from awm_hub.trajectory import Trajectory, Verdict

_REASON_WIDTH = 70
_DETAILS = f"""RUNS is a run's directory, one trajectory (JSON), or trajectories as Parquet. No call of a rollout is
repeated: the final database comes from the stored delta. Verdicts are added to those that a rollout has; the last one
counts. Parquet is read only; name a new dataset with -o.

A model's opinions on a run are kept beside it, so an interrupted command goes on where it was. {KEYS}

Exit code 1 says that some rollouts could not be judged."""


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """A rollout in which judges differ: the latest outcome of each."""

    id: str
    outcomes: Mapping[str, str]
    reasoning: str
    """Of the verdict just given."""


@dataclass(frozen=True, kw_only=True)
class JudgeReport:
    """`judge`: what one judge found in stored rollouts."""

    source: str
    judge: Mapping[str, Any]
    judged: int
    skipped: tuple[str, ...]
    """Rollouts that the policy or its endpoint cut short: nothing can be concluded from them."""
    unjudged: tuple[Mapping[str, str], ...]
    """Rollouts that could not be judged, with the error."""
    outcomes: Mapping[str, int]
    agreement: Mapping[str, Mapping[str, int]]
    """Per other judge, whose verdicts were stored: of how many (`rollouts`) the outcome is the same (`equal`)."""
    disagreements: tuple[Disagreement, ...]
    usage: Mapping[str, Any]
    written: str | None
    """Where the verdicts are now; null: nowhere but here."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "judge",
        "Judge stored rollouts again, and compare judges.",
        details=_DETAILS,
        examples=(
            "awm-hub judge runs/first --judge reference",
            "awm-hub judge runs/first --judge llm --model Qwen3-32B --base-url http://127.0.0.1:8000/v1 --votes 3",
        ),
    )
    parser.add_argument(
        "runs", metavar="RUNS", help="a run's directory, a trajectory (JSON), or trajectories (Parquet)"
    )
    parser.add_argument("-o", "--out", metavar="OUT", help="write the judged rollouts as a new Parquet dataset")
    add_judge(parser)
    add_dataset(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Judge rollouts, add the verdicts, compare them with earlier ones."""
    from awm_hub.cli.stored import opened
    from awm_hub.runtime import sync

    with opened(Path(arguments.runs)) as stored, chosen_judge(arguments, cache=stored.cache) as judge:
        work = _Judging(arguments, console, judge, stored)
        sync.run(work.all)
    report = work.report()
    for line in _lines(report, console):
        console.say(line)
    return Finished(data=report, exit_code=1 if report.unjudged else 0)


class _Judging:
    """One judge on all rollouts of a source."""

    def __init__(self, arguments: argparse.Namespace, console: Console, judge: "str | Judge", stored: Any) -> None:
        self._arguments, self._console, self._judge, self._stored = arguments, console, judge, stored
        self._environments = _Environments(arguments, stored.source)
        self._found: dict[str, dict[str, Verdict]] = {}
        self._unjudged: dict[str, JudgeError] = {}
        self._skipped: list[str] = []

    async def all(self) -> None:
        """Judge each; what fails for one does not stop the others."""
        import asyncio

        from awm_hub.rollouts import write_trajectories

        room = asyncio.Semaphore(self._arguments.concurrency)
        names = list(self._stored.rollouts)
        await asyncio.gather(*(self._one(room, name, position, len(names)) for position, name in enumerate(names, 1)))
        if self._unjudged and not self._found:
            error = next(iter(self._unjudged.values()))
            raise error.__cause__ if isinstance(error.__cause__, RemoteError) else error
        if self._arguments.out:
            write_trajectories(self._stored.rollouts.values(), self._arguments.out)

    async def _one(self, room: "asyncio.Semaphore", name: str, position: int, total: int) -> None:
        from awm_hub.judging import judge_async

        async with room:
            rollout = self._stored.rollouts[name]
            trajectory = rollout.trajectory
            if rollout.is_cut_short:
                self._skipped.append(name)
                return
            try:
                environment = self._environments.of(trajectory)
                verdict = await judge_async(trajectory, environment=environment, judge=self._judge)
            except JudgeError as error:
                self._unjudged[name] = error
                self._console.progress("failed", id=name, reason=error.message, position=position, total=total)
                return
            self._found[name] = _latest(self._kept(name, rollout, verdict))
            self._console.progress("judged", id=name, outcome=str(verdict.outcome), position=position, total=total)

    def _kept(self, name: str, rollout: "Rollout", verdict: "Verdict") -> "Rollout":
        """With the verdict at the end; one that says what the last one says is not added again."""
        last = rollout.verdict
        if last is not None and _content(last) == _content(verdict):
            return rollout
        judged = replace(rollout.trajectory, verdicts=(*rollout.trajectory.verdicts, verdict))
        changed = replace(rollout, trajectory=judged, judge_error=None)
        self._stored.keep(name, changed)
        return changed

    def report(self) -> JudgeReport:
        """What came of it."""
        from awm_hub.inference import Usage

        verdicts = dict(sorted(self._found.items()))
        described = {"kind": self._judge} if isinstance(self._judge, str) else self._judge.describe()
        own = " ".join(described[part] for part in ("kind", "model") if part in described)
        spent = [
            Usage.from_dict({k: v[own].usage[k] for k in Usage().to_dict()}) for v in verdicts.values() if v[own].usage
        ]
        return JudgeReport(
            source=str(self._arguments.runs),
            judge=described,
            judged=len(verdicts),
            skipped=tuple(sorted(self._skipped)),
            unjudged=tuple(_failure(name, error) for name, error in sorted(self._unjudged.items())),
            outcomes=dict(Counter(str(found[own].outcome) for found in verdicts.values())),
            agreement=_agreement(own, verdicts),
            disagreements=tuple(_disagreements(own, verdicts)),
            usage=sum(spent, Usage()).to_dict() if spent else {},
            written=self._arguments.out or self._stored.written,
        )


class _Environments:
    """The environments of a dataset, found by id."""

    def __init__(self, arguments: argparse.Namespace, source: tuple[str | None, str | None]) -> None:
        self._asked = (arguments.dataset, arguments.revision) if arguments.dataset else source
        self._found: Mapping[str, Environment] | None = None

    def of(self, trajectory: "Trajectory") -> "Environment":
        """Where a trajectory was made.

        Raises:
            JudgeError: the dataset has no such environment.
        """
        from awm_hub.hub import load

        if self._found is None:
            dataset, revision = self._asked
            self._found = load(dataset, revision=revision)
        try:
            return self._found[trajectory.environment_id]
        except UnknownNameError as error:
            message = f"its environment {trajectory.environment_id!r} is not at hand"
            raise JudgeError(message, next_step="--dataset names where it is") from error


def _latest(rollout: "Rollout") -> "dict[str, Verdict]":
    """The latest verdict of each judge; models are told apart by their names."""
    return {_named(verdict): verdict for verdict in rollout.trajectory.verdicts}


def _content(verdict: "Verdict") -> "Verdict":
    """A verdict without what it cost."""
    return replace(verdict, usage={"judge": verdict.usage.get("judge")})


def _named(verdict: "Verdict") -> str:
    told = verdict.usage.get("judge")
    model = told.get("model") if isinstance(told, dict) else None
    return verdict.judge if model is None else f"{verdict.judge} {model}"


def _failure(name: str, error: JudgeError) -> dict[str, str]:
    return {"id": name, "type": type(error).__name__, "message": error.message, "next": error.next_step}


def _agreement(own: str, verdicts: "Mapping[str, Mapping[str, Verdict]]") -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for found in verdicts.values():
        for judge in found.keys() - {own}:
            count = counts.setdefault(judge, {"equal": 0, "rollouts": 0})
            count["rollouts"] += 1
            count["equal"] += found[judge].outcome is found[own].outcome
    return dict(sorted(counts.items()))


def _disagreements(own: str, verdicts: "Mapping[str, Mapping[str, Verdict]]") -> Iterator[Disagreement]:
    for name, found in verdicts.items():
        outcomes = {judge: str(verdict.outcome) for judge, verdict in sorted(found.items())}
        if len(set(outcomes.values())) > 1:
            yield Disagreement(id=name, outcomes=outcomes, reasoning=found[own].reasoning)


def _lines(report: JudgeReport, console: Console) -> Iterator[str]:
    judge = clean_line(" ".join(report.judge[part] for part in ("kind", "model") if part in report.judge))
    outcomes = ", ".join(f"{n} {name}" for name, n in sorted(report.outcomes.items()))
    yield f"{judge} judged {counted(report.judged, 'rollout')}: {outcomes or 'none'}"
    for other, count in report.agreement.items():
        yield f"as {clean_line(other)}: {count['equal']} of {count['rollouts']}"
    if report.disagreements:
        yield ""
        yield from _disagreement_lines(report.disagreements, console)
    for failure in report.unjudged:
        yield console.style(clean_line(f"not judged: {failure['id']}: {failure['message']}"), "yellow")
    if report.skipped:
        yield f"left out: {counted(len(report.skipped), 'rollout')} that the policy or its endpoint cut short"
    if report.usage:
        tokens = f"{report.usage['prompt_tokens']} prompt and {report.usage['completion_tokens']} completion tokens"
        yield f"used: {tokens} in {counted(report.usage['requests'], 'request')}"
    if report.written is None:
        yield "the verdicts are written nowhere: name a new dataset with -o"


def _disagreement_lines(found: Sequence[Disagreement], console: Console) -> Iterator[str]:
    judges = sorted({judge for one in found for judge in one.outcomes})
    rows = [["rollout", *map(clean_line, judges), "why"]]
    for one in found:
        outcomes = [one.outcomes.get(judge, "-") for judge in judges]
        rows.append([clean_line(one.id), *outcomes, clean_line(one.reasoning, _REASON_WIDTH)])
    head, *rest = table(rows)
    yield console.style(head, "dim")
    yield from rest
