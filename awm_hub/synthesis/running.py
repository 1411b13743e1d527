"""A run: names become a pool of scenarios, and each scenario an environment, as far as answers reach.

An output folder holds the store, from which a run goes on wherever it was stopped; accepted environments as source
folders, ready for `awm-hub pack` and `push`; what was not accepted, with the reasons, apart from them; and the report.
With an endpoint a run asks until all is done. Without one it collects the requests that can be asked at this point,
which are a round of a batch, and goes on from the answers when it is started again.
"""

import asyncio
import dataclasses
import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from awm_hub.errors import AwmHubError, ContextFullError, RemoteError, SealError, UsageError
from awm_hub.inference import Endpoint, Price, Sampling
from awm_hub.runtime.sync import run as run_sync
from awm_hub.synthesis import batches, scenarios
from awm_hub.synthesis.asking import Budget, BudgetError, Desk, Waiting
from awm_hub.synthesis.diversity import diversity
from awm_hub.synthesis.drafts import Draft, Sizes
from awm_hub.synthesis.embedding import embedder_from
from awm_hub.synthesis.loop import Made, Maker, Progress
from awm_hub.synthesis.outputs import Outputs
from awm_hub.synthesis.reporting import Figures, figures_of
from awm_hub.synthesis.scenarios import Pool, Scenario
from awm_hub.synthesis.store import Store

CLOCK = dt.datetime(2026, 6, 1, 8, tzinfo=dt.UTC)
"""\"Now\" in every environment of a run, unless it is said otherwise."""
CONCURRENCY = 4
"""Environments at a time; their gates are computing."""


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """An environment that is neither accepted nor rejected."""

    id: str
    reason: str
    """`waiting` for answers, `budget`, or what failed."""


@dataclass(frozen=True, kw_only=True)
class SynthesisReport:
    """What a run has come to."""

    out: str
    state: str
    """`done`; `waiting` for the answers to a batch; `budget` where that is used up."""
    model: str
    scenarios: int
    dropped: int
    """Names that are no scenario: unsuitable, or too much like another one."""
    is_stalled: bool
    """Whether fewer scenarios were found than asked for."""
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]
    unfinished: tuple[Unfinished, ...]
    trajectories: int
    """Right attempts of the solver, in the folder `trajectories` of the output."""
    figures: Figures
    """By stage and environment: attempts, tokens, cost, what failed; also in `report.md` and `report.json`."""
    waiting: int
    """Requests without an answer."""
    batch: dict[str, Any] | None
    """In batch mode: what was read, and the files that want answers."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**plain, "unfinished": [asdict(u) for u in self.unfinished], "figures": self.figures.to_dict()}


def synthesize(
    seeds: Sequence[scenarios.Seed],
    out: str | os.PathLike[str],
    *,
    endpoint: Endpoint | None = None,
    batch: str | os.PathLike[str] | None = None,
    model: str = "",
    sampling: Sampling | None = None,
    price: Price | None = None,
    target: int | None = None,
    interface: str = "functions",
    sizes: Sizes | None = None,
    clock: dt.datetime = CLOCK,
    budget: Budget | None = None,
    embedder: str = "wordllama",
    license: str | None = None,
    concurrency: int = CONCURRENCY,
    progress: Progress | None = None,
) -> SynthesisReport:
    """Turn names of scenarios into audited environments, or go on with a run that was stopped.

    Args:
        seeds: Names, from `read_seeds`; the first ones of the pool.
        out: Folder of the run; a new one, or one to go on with.
        endpoint: Asked for answers; None with `batch`.
        batch: Folder of batch files: answers are read from it and the next round of requests is written to it.
        model: In the batch's requests; with an endpoint, its own.
        sampling: In the batch's requests; an endpoint has its own.
        price: Of a batch's tokens, for the ledger and a budget; an endpoint has its own.
        target: Scenarios wanted; more than there are seeds are invented. None takes the seeds.
        interface: `functions`, or `fastapi` as the paper did.
        sizes: How large an environment has to be.
        clock: "Now" inside the environments.
        budget: No further request once it is reached; the run stops and can go on with a larger one.
        embedder: Compares scenarios: `wordllama`, or `module:Class`.
        license: Recorded in the environments' provenance, as an SPDX identifier; None records none.
        concurrency: Environments at a time.
        progress: Called with one object per event.

    Raises:
        UsageError: an argument makes no sense, or `out` holds a run with other settings.
        DataError: a batch file or the store is damaged.
        RemoteError: the endpoint failed for good; everything answered is kept.
        SealError: this machine cannot seal a process: what a model has just written runs nowhere else.
    """
    _check(endpoint, batch, target, sizes or Sizes())
    settings = {
        "seeds": [asdict(seed) for seed in seeds],
        "target": target,
        "interface": interface,
        "sizes": asdict(sizes or Sizes()),
        "clock": clock.isoformat(),
        "embedder": embedder,
    }
    with Store.open(Path(out), settings) as store:
        named = model or (endpoint.model if endpoint else "")
        desk = Desk(store, endpoint, model=named, sampling=sampling, price=price, budget=budget)
        run = _Run(
            outputs=Outputs(folder=Path(out), license=license),
            store=store,
            desk=desk,
            seeds=tuple(seeds),
            target=target,
            draft=Draft(id="", name="", interface=interface, sizes=sizes or Sizes(), clock=clock),
            embedder=embedder,
            room=concurrency,
            progress=progress or (lambda event: None),
        )
        return run_sync(run.go, batch)


def _check(endpoint: Endpoint | None, batch: str | os.PathLike[str] | None, target: int | None, sizes: Sizes) -> None:
    if (endpoint is None) == (batch is None):
        raise UsageError("answers come from an endpoint or from a batch", next_step="name a model, or --batch DIR")
    if target is not None and target < 1:
        raise UsageError(f"target is {target}", next_step="ask for at least one scenario")
    for name, size in asdict(sizes).items():
        if size < 1:
            raise UsageError(f"{name} is {size}", next_step="an environment has at least one of each")


@dataclass(kw_only=True)
class _Run:
    """One start of a run."""

    outputs: Outputs
    store: Store
    desk: Desk
    seeds: tuple[scenarios.Seed, ...]
    target: int | None
    draft: Draft
    """What all drafts have in common."""
    embedder: str
    room: int
    progress: Progress
    accepted: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    failures: list[AwmHubError] = field(default_factory=list)
    """What is wrong with the endpoint or this machine, and not with one environment."""

    async def go(self, batch: str | os.PathLike[str] | None) -> SynthesisReport:
        """Go as far as answers and budget reach."""
        self.outputs.clear()
        read = None if batch is None else batches.read_answers(Path(batch), self.store)
        pool = await self._started()
        while read is not None and (more := batches.read_answers(Path(str(batch)), self.store)).taken:
            read = replace(more, taken=read.taken + more.taken)  # answers to what is only asked now
            pool = await self._started()
        trajectories = self.outputs.gather_trajectories()
        asked = None if batch is None else batches.write_round(self.desk, Path(batch))
        report = self._report(pool, trajectories, batch=None if read is None else _batch(read, asked))
        if self.failures and not self.desk.waiting:
            raise self.failures[0]
        return report

    def _figures(self, pool: Pool | None) -> Figures:
        """What the store and the pool tell, as a whole."""
        spread = diversity(pool.scenarios, embedder_from(self.embedder)) if pool and pool.scenarios else None
        figures = figures_of(self.store, price=self.desk.price, pool=pool, diversity=spread)
        self.outputs.write_report(figures)
        return figures

    async def _started(self) -> Pool | None:
        """The pool, and all environments as far as the answers reach."""
        for found in (self.accepted, self.rejected, self.unfinished, self.failures):
            found.clear()
        pool = await self._pool()
        if pool is not None:
            await self._make_all(pool)
        return pool

    async def _pool(self) -> Pool | None:
        """The scenarios; None while they cannot be known."""
        try:
            return await scenarios.grow(
                self.seeds, self.desk.ask, embedder=embedder_from(self.embedder), target=self.target
            )
        except (Waiting, BudgetError) as error:
            self.unfinished.append(Unfinished(id="scenarios", reason=_reason(error)))
            return None

    async def _make_all(self, pool: Pool) -> None:
        room = asyncio.Semaphore(self.room)

        async def one(scenario: Scenario) -> None:
            async with room:
                await self._make(scenario)

        async with asyncio.TaskGroup() as group:
            for scenario in pool.scenarios:
                group.create_task(one(scenario))

    async def _make(self, scenario: Scenario) -> None:
        """One environment; what keeps it from being finished stops no other."""
        maker = Maker(
            draft=_begun(self.draft, scenario),
            desk=self.desk,
            store=self.store,
            progress=self.progress,
        )
        try:
            made = await maker.make()
            await self._keep(made)
        except Exception as error:  # the boundary of an environment: its faults must not cost the others
            self.unfinished.append(Unfinished(id=scenario.id, reason=_reason(error)))
            if isinstance(error, RemoteError | SealError) and not isinstance(error, ContextFullError):
                self.failures.append(error)

    async def _keep(self, made: Made) -> None:
        """Write what became of an environment; where that is news, in place of what was there."""
        name = made.draft.id
        outcome: dict[str, Any] = {
            "accepted": made.is_accepted,
            "problems": [p.to_dict() for p in made.problems],
            "content_hash": None if made.audited is None else made.audited.content_hash,
        }
        known = next(self.store.records("outcome", name), {})
        if any(known.get(key) != value for key, value in outcome.items()):
            self.outputs.forget(name)
        await self.outputs.keep(made, self.desk, self.store)
        self.store.add_outcome(name, **outcome)
        (self.accepted if made.is_accepted else self.rejected).append(name)
        self.progress({"event": "made", "environment": name, "accepted": made.is_accepted})

    def _report(self, pool: Pool | None, trajectories: int, batch: dict[str, Any] | None) -> SynthesisReport:
        figures = self._figures(pool)
        reasons = {left.reason for left in self.unfinished}
        state = "waiting" if self.desk.waiting else "budget" if BUDGET in reasons else "done"
        return SynthesisReport(
            out=str(self.outputs.folder),
            state=state,
            model=self.desk.model,
            scenarios=0 if pool is None else len(pool.scenarios),
            dropped=0 if pool is None else len(pool.dropped),
            is_stalled=pool is not None and pool.is_stalled,
            accepted=tuple(sorted(self.accepted)),
            rejected=tuple(sorted(self.rejected)),
            unfinished=tuple(sorted(self.unfinished, key=lambda left: left.id)),
            trajectories=trajectories,
            figures=figures,
            waiting=len(self.desk.waiting),
            batch=batch,
        )


WAITING, BUDGET = "waiting", "budget"


def _reason(error: Exception) -> str:
    if isinstance(error, Waiting):
        return WAITING
    if isinstance(error, AwmHubError):
        return BUDGET if isinstance(error, BudgetError) else str(error)
    return f"a fault of awm-hub: {type(error).__name__}: {error}"


def _begun(common: Draft, scenario: Scenario) -> Draft:
    return dataclasses.replace(common, id=scenario.id, name=scenario.name, outline=scenario.outline)


def _batch(read: batches.AnswersReport, asked: batches.Round | None) -> dict[str, Any]:
    return {**asdict(read), **(batches.Round() if asked is None else asked).to_dict()}
