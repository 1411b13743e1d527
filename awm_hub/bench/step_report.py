"""A simulated training step in numbers: its form, what its phases took, and the share of it on more cores.

`awm_hub.bench.training_step` says how it is measured, and with what model the share is extrapolated.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub.training.planning import QWEN3

TARGET = 0.05
"""Share of a step that environments may add at most."""


def memory_bound(*, model: str = "Qwen3-4B", context_tokens: int = 8000, bytes_per_s: float = 4.8e12) -> float:
    """Tokens per second that one GPU samples at most, since each reads the keys and values of its whole context.

    Weights and arithmetic cost more on top. Kernels that read a prefix once for all rollouts of a task get beyond it.

    Args:
        model: One of `awm_hub.training.planning.QWEN3`; 8B has as large keys and values as 4B.
        context_tokens: What a turn attends to: 1,400 of the head and 6,400 of the tools' list in bundled environments
            (`planning.facts_of`, three bytes a token), and three turns with their results (paper §5).
        bytes_per_s: Of the GPU's memory: 4.8e12 for an H200, 3.35e12 for an H100 SXM (NVIDIA's data sheets).
    """
    return bytes_per_s / (QWEN3[model].kv_bytes * context_tokens)


@dataclass(frozen=True, kw_only=True)
class StepForm:
    """A step, and how it is simulated."""

    prompts: int = 64
    """Tasks, each in an environment of its own."""
    rollouts: int = 16
    """Of each task."""
    turns: int = 20
    """Assistant messages of a rollout: `list_tools`, calls, and the answer."""
    tokens_per_message: int = 300
    tokens_per_s: float = 20_000.0
    """Sampled by the whole machine; more than one H200 can (`memory_bound` is 4,069), so that the share is too high."""
    gradient_s: float = 60.0
    """Time for launching ahead. An assumption; it is no part of the step."""
    pace: float = 0.1
    """Part of the simulated seconds that is really waited for."""

    @property
    def instances(self) -> int:
        """Rollouts of the step."""
        return self.prompts * self.rollouts

    @property
    def tokens(self) -> int:
        """Sampled in the step."""
        return self.instances * self.turns * self.tokens_per_message


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What one part of a step took: wall time here, and CPU seconds."""

    name: str
    """`launch`, `turns` (attempts with their calls), `endings` (answers and records) or `judge`."""
    wall_s: float
    host_s: float
    zygote_s: float
    workers_s: float

    @property
    def cpu_s(self) -> float:
        """Of all three."""
        return self.host_s + self.zygote_s + self.workers_s

    def added_s(self, cores: int) -> tuple[float, float]:
        """Seconds added to a step on so many cores, at least and at most."""
        return self.cpu_s / cores, self.host_s + self.zygote_s + self.workers_s / cores


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """A step that was measured."""

    interface: str
    form: StepForm
    phases: tuple[Phase, ...]
    calls: int
    completed: int
    """Rollouts that were judged COMPLETED; all are meant to be."""
    launched_ahead: int

    def scaled(self, form: StepForm) -> "StepReport":
        """The same for a step with another number of tasks: everything is in proportion to it."""
        factor = form.prompts / self.form.prompts
        times = ("wall_s", "host_s", "zygote_s", "workers_s")
        phases = tuple(
            dataclasses.replace(phase, **{name: getattr(phase, name) * factor for name in times})
            for phase in self.phases
        )
        return dataclasses.replace(self, form=form, phases=phases)

    def total(self) -> Phase:
        """All phases together."""
        times = ("wall_s", "host_s", "zygote_s", "workers_s")
        return Phase(name="step", **{name: sum(getattr(phase, name) for phase in self.phases) for name in times})

    def shares(self, cores: int, tokens_per_s: float) -> tuple[float, float]:
        """Share of a step that environments add, at least and at most."""
        sampling_s = self.form.tokens / tokens_per_s
        least, most = self.total().added_s(cores)
        return least / (least + sampling_s), most / (most + sampling_s)

    def fastest_sampler(self, cores: int) -> tuple[float, float]:
        """Tokens per second up to which the share stays within the target, by the bound at most and at least."""
        least, most = self.total().added_s(cores)
        room = TARGET / (1 - TARGET) * self.form.tokens
        return room / most, room / least


def table(reports: Sequence[StepReport], *, cores: int, about: Mapping[str, Any]) -> str:
    """Markdown: the machine, CPU seconds by phase, and the share on so many cores at several speeds of sampling."""
    form = reports[0].form
    lines = [
        "# What environments add to a training step",
        "",
        "Measured with " + ", ".join(f"{name} {value}" for name, value in about.items()) + ".",
        "",
        f"{form.instances:,} rollouts in {form.prompts} environments, {form.turns} messages of "
        f"{form.tokens_per_message} tokens each: {form.tokens:,} tokens. How: `awm_hub/bench/training_step.py`.",
    ]
    return "\n".join([*lines, *(line for report in reports for line in _lines(report, form, cores))]) + "\n"


def _lines(report: StepReport, form: StepForm, cores: int) -> Iterator[str]:
    whole = report.scaled(form)
    yield f"\n## {report.interface}\n"
    yield (
        f"{report.form.instances:,} rollouts with {report.calls:,} calls played; {report.completed:,} judged "
        f"COMPLETED, {report.launched_ahead:,} launched ahead."
    )
    if report.completed < report.form.instances:
        yield "**The others failed, so these figures are not those of a whole step.**"
    if whole.form != report.form:
        yield f"What follows is in proportion to that, for {form.instances:,} rollouts."
    yield f"\n| phase | wall here | CPU | host | zygote | workers | on {cores} cores, at least | at most |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for phase in (*whole.phases, whole.total()):
        seconds = (phase.wall_s, phase.cpu_s, phase.host_s, phase.zygote_s, phase.workers_s, *phase.added_s(cores))
        yield f"| {phase.name} | " + " | ".join(f"{s:.1f} s" for s in seconds) + " |"
    yield f"\n| tokens per second | sampling | share on {cores} cores |"
    yield "|--:|--:|--:|"
    for speed in _speeds(form):
        least, most = whole.shares(cores, speed)
        yield f"| {speed:,.0f} | {form.tokens / speed:,.0f} s | {least:.1%} to {most:.1%} |"
    slow, fast = whole.fastest_sampler(cores)
    yield f"\nWithin {TARGET:.0%} up to {slow:,.0f} tokens per second by the upper bound, {fast:,.0f} by the lower."


def _speeds(form: StepForm) -> list[float]:
    """The bound of one H200, that of eight, and the one assumed."""
    return sorted({memory_bound(), 8 * memory_bound(), form.tokens_per_s})


def to_dict(reports: Sequence[StepReport], *, cores: int, about: Mapping[str, Any]) -> dict[str, Any]:
    """JSON form: what was measured, unscaled, and the shares of the whole step."""
    form = reports[0].form
    shares = [
        {
            "interface": report.interface,
            "tokens_per_s": speed,
            "share": dict(zip(("least", "most"), report.scaled(form).shares(cores, speed), strict=True)),
        }
        for report in reports
        for speed in _speeds(form)
    ]
    measured = [dataclasses.asdict(report) for report in reports]
    return {"about": dict(about), "cores": cores, "target": TARGET, "measured": measured, "shares": shares}
