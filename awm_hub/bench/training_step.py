"""What environments add to a training step: real episodes and verdicts, simulated sampling.

    python -m awm_hub.bench.training_step [-o FOLDER]

A step is as in the paper (§5): 64 tasks, 16 rollouts of each, 20 assistant messages a rollout. Everything is real but
the model: instances (`awm_hub.training.Episodes`, launched ahead), attempts with their rules and records, calls in
batches, and the reward with the decision judge. In the model's place a script writes messages of about 300 tokens:
`list_tools`, reads drawn from the environment's solutions, the task's own solution, the answer. Each task is in an
environment of its own, a copy of a bundled one under another id, as 64 draws from the paper's 526 environments nearly
are; so each batch loads 64 environments, and nothing is kept of the one before.

Sampling takes `tokens / tokens_per_s`; a part of it (`pace`) is really waited for. A turn is sampled once all attempts
have asked for it, so environments and sampler never work at the same time: what environments take is added to the step.
The gradient step, prefill and stragglers are left out of the step, which makes the share larger than it is, and
launching counts although the gradient step hides it. `step_report.memory_bound` says what `tokens_per_s` can be.

CPU time is the kernel's, of three: this process (the host), the zygote, which forks, and the workers with the forks
that judge. Host and zygote take one core each, so on so many cores

    all CPU time / cores  <=  seconds added  <=  host + zygote + workers / cores

The left assumes that everything overlaps, the right that nothing does; both that work is even over workers. Not
counted: what the kernel does to end a process, tokenisation, an LLM judge.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import datetime as dt
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from awm_hub import hub
from awm_hub.bench import suite
from awm_hub.bench.figures import cpu_seconds, descendants
from awm_hub.bench.report import describe_machine
from awm_hub.bench.step_report import TARGET, Phase, StepForm, StepReport, table, to_dict
from awm_hub.environment import Call, Environment
from awm_hub.errors import UsageError
from awm_hub.inference import Reply
from awm_hub.policy import Action, View
from awm_hub.policy.protocols import CALL_TOOL, Naming, action_of
from awm_hub.runtime import Limits, sync
from awm_hub.runtime.processes import Process
from awm_hub.training.episodes import Episode, Episodes
from awm_hub.training.generating import Ask, Written
from awm_hub.training.playing import Counter, Desk, play
from awm_hub.training.rewards import HybridReward
from awm_hub.training.sft import SolutionWriter, message_text
from awm_hub.trajectory import Outcome

_CHARS_PER_TOKEN = 4
_PATIENT = Limits(call_soft_s=120.0, call_hard_s=180.0)
"""Calls of hundreds of instances on few cores wait for each other, and on a busy machine for others."""
_LAUNCH_S = 120.0
"""Whatever is not launched then is launched when it is needed, and shows in `launched_ahead`."""


class SimulatedPolicy(SolutionWriter):
    """A model's part in one episode: long messages, reads, then the task's solution."""

    def __init__(
        self, episode: Episode, desk: Desk, *, position: int, form: StepForm, reads: Sequence[Call] = ()
    ) -> None:
        environment = episode.environment
        super().__init__({environment.id: environment}, thinking=self._thought)
        self.episode, self._desk, self._position, self._form = episode, desk, position, form
        count = form.turns - 2 - len(episode.task.solution or ())
        self._reads = random.Random(position).choices(reads or reads_of(environment), k=count)

    async def act(self, view: View) -> Action:
        """What a message of the script says, once the sampler has had its time."""
        turn, before = len(view.turns), len(self._reads)
        await self._desk.ask(Ask(prompt=[], position=self._position, turn=turn))
        if not 0 < turn <= before:
            return await super().act(view if turn == 0 else dataclasses.replace(view, turns=view.turns[before:]))
        read = self._reads[turn - 1]
        call = (CALL_TOOL, {"tool_name": read.tool, "arguments": dict(read.arguments)})
        reply = Reply(content=message_text(self._thought(read, turn), call=call))
        return action_of(reply, Naming(tools=view.tools), is_text=True, is_strict=True, turn=turn)

    def _thought(self, call: Call | None, turn: int) -> str:
        return ("Let me think it over. " * (self._form.tokens_per_message * _CHARS_PER_TOKEN // 22)).strip()


def reads_of(environment: Environment) -> list[Call]:
    """The calls with which the environment's solutions begin and which only read, so that they fit its first state."""
    reading = {tool.name for tool in environment.tools if tool.effect == "read"}
    found = []
    for task in environment.tasks:
        for call in task.solution or ():
            if call.tool not in reading:
                break
            found.append(call)
    return found


def batch_of(
    environments: Sequence[Environment], form: StepForm
) -> tuple[dict[str, Environment], list[dict[str, Any]]]:
    """Copies of environments, and the rows of a batch: each task in a copy of its own, so many rollouts of it.

    Raises:
        UsageError: no task has a solution that fits the turns.
    """
    choices = [
        [task for task in one.tasks if task.solution is not None and len(task.solution) <= form.turns - 2]
        for one in environments
    ]
    if not all(choices):
        raise UsageError(f"no solution fits {form.turns} turns", next_step="allow more turns")
    copies, rows = {}, []
    for number in range(form.prompts):
        which, round_ = number % len(environments), number // len(environments)
        name = f"copy_{number}"
        copies[name] = dataclasses.replace(environments[which], id=name, content_hash=f"{number:064x}")
        task = choices[which][round_ % len(choices[which])]
        rows += [{"environment_id": name, "task_id": task.id, "seed": seed} for seed in range(form.rollouts)]
    return copies, rows


def simulate(environments: Sequence[Environment], form: StepForm, *, reads: Sequence[Call] = ()) -> StepReport:
    """Play one training step.

    Args:
        environments: Of one interface.
        form: The step.
        reads: What is drawn from; default: what the environments' solutions read.

    Raises:
        UsageError: no task has a solution that fits the turns.
        SandboxError: the sandbox failed.
    """
    copies, rows = batch_of(environments, form)
    episodes = Episodes(copies, most_instances=form.instances, limits=_PATIENT)
    batch = [Episode(episodes) for _ in rows]
    with contextlib.closing(episodes), _Ledger.kept() as ledger:
        for episode, row in zip(batch, rows, strict=True):
            episode.reset(**row)
        phases = [_launched(episodes, rows, form, ledger), *_played(batch, form, ledger, reads)]
        ledger.look()
        scored = sync.run(HybridReward().score, batch)
        phases.append(ledger.phase("judge"))
    return StepReport(
        interface=environments[0].interface,
        form=form,
        phases=tuple(phases),
        calls=sum(len(one.trajectory.steps) for one in scored),
        completed=sum(one.outcome is Outcome.COMPLETED for one in scored),
        launched_ahead=episodes.launched_ahead,
    )


def _launched(episodes: Episodes, rows: Sequence[Mapping[str, Any]], form: StepForm, ledger: "_Ledger") -> Phase:
    """Launch the batch's instances while a gradient step goes on."""
    ledger.look()
    started = time.perf_counter()
    episodes.prepare(rows)
    while episodes.live_instances < len(rows) and time.perf_counter() - started < _LAUNCH_S:
        time.sleep(0.02)
    phase = ledger.phase("launch")
    time.sleep(max(0.0, form.gradient_s * form.pace - phase.wall_s))
    return phase


def _played(batch: Sequence[Episode], form: StepForm, ledger: "_Ledger", reads: Sequence[Call]) -> tuple[Phase, Phase]:
    """Play the episodes to their ends; the phases `turns` and `endings`."""
    ledger.look()
    desk = Desk(len(batch))
    plays = sync.run(_begin, batch, desk, form, reads)
    turns = None
    while asked := sync.run(desk.gathered):
        if asked[0].turn == form.turns - 1:
            turns = ledger.phase("turns")
            ledger.look()
        with ledger.standing():
            time.sleep(len(asked) * form.tokens_per_message / form.tokens_per_s * form.pace)
        sync.run(desk.answer, [Written(output=[])] * len(asked))
    sync.run(_ended, plays)
    if turns is None:
        raise UsageError("the rollouts ended before their last turn", next_step="look at how they ended")
    return turns, ledger.phase("endings")


async def _begin(
    batch: Sequence[Episode], desk: Desk, form: StepForm, reads: Sequence[Call]
) -> list["asyncio.Task[None]"]:
    counter = Counter(episodes=batch[0].episodes)
    plays = []
    for position, episode in enumerate(batch):
        policy: Any = SimulatedPolicy(episode, desk, position=position, form=form, reads=reads)
        plays.append(asyncio.ensure_future(play(policy, desk, counter, max_turns=form.turns)))
    return plays


async def _ended(plays: Sequence["asyncio.Task[None]"]) -> None:
    await asyncio.gather(*plays)


class _Ledger:
    """CPU and wall time between looks, of host, zygote and workers.

    A fork that judges is gone before anybody could look at it, and the zygote waits for none of its children, so that
    the kernel keeps nothing of them: each process is looked at just before it is killed.
    """

    def __init__(self) -> None:
        self._ended: dict[int, float] = {}
        self.look()

    @classmethod
    @contextlib.contextmanager
    def kept(cls) -> Iterator["_Ledger"]:
        """A ledger that sees every process end, until the block does."""
        ledger, kill = cls(), Process.kill

        def seen(process: Process) -> None:
            if not process.is_dead:
                ledger._ended[process.pid] = cpu_seconds(process.pid)
            kill(process)

        setattr(Process, "kill", seen)  # noqa: B010
        try:
            yield ledger
        finally:
            setattr(Process, "kill", kill)  # noqa: B010

    def look(self) -> None:
        """Begin to count."""
        self._ended.clear()
        self._before, self._host_s, self._wall_s = self._others(), time.process_time(), time.perf_counter()

    @contextlib.contextmanager
    def standing(self) -> Iterator[None]:
        """Wall time that is not counted."""
        began = time.perf_counter()
        yield
        self._wall_s += time.perf_counter() - began

    def phase(self, name: str) -> Phase:
        """What was used since the last look."""
        wall_s, host_s = time.perf_counter() - self._wall_s, time.process_time() - self._host_s
        used = {p: s - self._before.get(p, 0.0) for p, s in {**self._others(), **self._ended}.items()}
        forkers = self._forkers(used)
        zygote_s = sum(used[pid] for pid in forkers)
        return Phase(
            name=name, wall_s=wall_s, host_s=host_s, zygote_s=zygote_s, workers_s=sum(used.values()) - zygote_s
        )

    @staticmethod
    def _others() -> dict[int, float]:
        return {pid: cpu_seconds(pid) for pid in descendants(os.getpid())}

    @staticmethod
    def _forkers(pids: Mapping[int, float]) -> list[int]:
        return [pid for pid in pids if descendants(pid)]


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns 0 if the share is within the target for every interface, else 1."""
    parser = argparse.ArgumentParser(prog="python -m awm_hub.bench.training_step", description=__doc__)
    form = StepForm()
    for one in dataclasses.fields(StepForm):
        option, default = "--" + one.name.replace("_", "-"), getattr(form, one.name)
        parser.add_argument(option, type=type(default), default=default, metavar="N", help=f"default {default:g}")
    parser.add_argument("--cores", type=int, default=16, metavar="N", help="of the machine that trains; default 16")
    parser.add_argument(
        "--fastapi-prompts", type=int, default=4, metavar="N", help="tasks played with `fastapi`; 0: none"
    )
    parser.add_argument("-o", "--out", type=Path, help="folder for training_step.md and training_step.json")
    given = parser.parse_args(argv)
    form = StepForm(**{one.name: getattr(given, one.name) for one in dataclasses.fields(StepForm)})
    reports = [simulate(list(hub.load().values()), form)]
    if given.fastapi_prompts:
        subject = asyncio.run(suite._fastapi_subject())
        reads = [Call(tool=subject.read[0], arguments=subject.read[1])]
        fewer = dataclasses.replace(form, prompts=given.fastapi_prompts)
        reports.append(simulate([subject.environment], fewer, reads=reads))
    about = {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        **describe_machine(),
        "load average": f"{os.getloadavg()[1]:.1f}",
    }
    text = table(reports, cores=given.cores, about=about)
    print(text, end="")
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "training_step.md").write_text(text, encoding="utf-8")
        found = to_dict(reports, cores=given.cores, about=about)
        (given.out / "training_step.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    most = max(report.scaled(form).shares(given.cores, form.tokens_per_s)[1] for report in reports)
    return 0 if most <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
