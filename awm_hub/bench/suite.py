"""What is measured, in its short form (a minute or two, anywhere) and its long form (`make bench`)."""

import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from awm_hub import hub, packing
from awm_hub.bench import ours, served, upstream
from awm_hub.bench.figures import Figure
from awm_hub.bench.ours import Subject
from awm_hub.bench.report import BenchReport, describe_machine

_FASTAPI = Path(__file__).parent / "environments" / "equipment_rental_1"
Progress = Callable[[Figure], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Form:
    """How much is measured."""

    repeat: int
    densities: tuple[int, ...]
    throng: tuple[int, int, int]
    """Environments, instances, calls of each."""
    upstream_counts: tuple[int, ...]


SHORT = Form(repeat=100, densities=(1, 64, 512), throng=(8, 256, 5), upstream_counts=(1, 4))
LONG = Form(repeat=500, densities=(1, 64, 1024, 4096), throng=(16, 1024, 20), upstream_counts=(1, 4, 16))


async def run_suite(form: Form = SHORT, *, on_figure: Progress | None = None) -> BenchReport:
    """Measure everything, in one run.

    Raises:
        SandboxError: the sandbox, or a process of the upstream way, failed.
    """
    figures = []
    async for figure in _figures(form):
        figures.append(figure)
        if on_figure is not None:
            on_figure(figure)
    return BenchReport(machine=describe_machine(), figures=tuple(figures))


async def _figures(form: Form) -> AsyncIterator[Figure]:
    plain, rows = _functions_subject(), await _fastapi_subject()
    for subject in (plain, rows):
        async for figure in ours.verbs(subject, repeat=form.repeat):
            yield figure
    async for figure in served.figures(rows, repeat=form.repeat):
        yield figure
    for subject in (plain, rows):
        async for figure in ours.density(subject, form.densities):
            yield figure
        environments, instances, calls = form.throng
        async for figure in ours.throng(subject, environments=environments, instances=instances, calls=calls):
            yield figure
    for count in form.upstream_counts:
        async for figure in upstream.figures(rows, count=count, repeat=form.repeat):
            yield figure


def _functions_subject() -> Subject:
    environment = hub.load()["public_library_1"]
    return Subject(environment=environment, read=("search_members", {"query": "Mateo"}), task="renew_mateos_loans")


async def _fastapi_subject() -> Subject:
    """The environment of the `fastapi` interface that comes with this module, built on the spot."""
    environment = await packing.build_environment(packing.read_source(_FASTAPI))
    task = next(t for t in environment.tasks if t.kind == "change")
    return Subject(environment=environment, read=("get_account", {"account_id": 1}), task=task.slug)
