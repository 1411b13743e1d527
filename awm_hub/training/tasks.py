"""Tasks to train on, as light rows: what TRL calls the training dataset.

A row is what a rollout begins with: the opening messages, word for word those of `ChatPolicy(protocol="text")`, and
which task of which environment it is, so that `reset(**row)` finds the rest. Neither database nor code is in it.

The dataset's `tasks` config has no briefings, so the rows are made from the environments' own, each read once an epoch.
These lie in row groups, about a megabyte each on the Hub, and fetching a group for every task would read a dataset
over and over. So a stream goes block by block: a block is as many row groups, drawn at random, as hold 64 environments,
and its tasks are shuffled among themselves. The price: an environment's tasks come close together, and a batch mixes
the tasks of one block or two and not of the whole dataset. The gain: training begins after one block, each group is
fetched once an epoch, and instances of an environment find it prepared. `streaming=False` reads everything first (25 MB
for 1,000 environments, some seconds of work) and shuffles all rows together; they take some 5 kB each.
"""

import functools
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from awm_hub.environment import Quality
from awm_hub.errors import DataError, UsageError
from awm_hub.hub import Environments, load
from awm_hub.hub.filters import TASK_CHECKS, check_filters, passes, task_holds
from awm_hub.hub.subsets import SOUND, Subset
from awm_hub.policy import opening
from awm_hub.rollouts.plans import derived_seed, place_of

if TYPE_CHECKING:
    import datasets

Chosen = Mapping[str, tuple[str, ...] | None]
"""Environments with the ids of their tasks to train on; None: all of them."""
Row = dict[str, Any]
Block = dict[str, Any]
"""A part of a stream, as JSON: `epoch`, and `environments`, a list of `[id, task ids or None]`."""

BLOCK_ENVIRONMENTS = 64
"""The paper's batch has 64 tasks (§5): so many environments let a batch have each task from another one."""


def training_tasks(
    dataset: str | os.PathLike[str] | Environments | None = None,
    *,
    revision: str | None = None,
    subset: Subset | str | os.PathLike[str] | None = None,
    split: str = "train",
    requires: Mapping[str, bool | int] | None = SOUND,
    streaming: bool = True,
    seed: int = 0,
    repeat: int = 1,
    block_environments: int = BLOCK_ENVIRONMENTS,
) -> "datasets.IterableDataset | datasets.Dataset":
    """Rows to train on: `prompt`, `environment_id`, `environment_hash`, `task_id`, `seed`.

    The order follows from the arguments alone. A stream's `state_dict` brings it back to where it was, by reading one
    block again. TRL needs `max_steps` with a stream. Environments that are for evaluation only are never in it.

    Args:
        dataset: What `awm_hub.load` takes or returns; None: the bundled set.
        revision: Branch, tag or commit on the Hub.
        subset: A training subset or its file: exactly these tasks. Nothing else is required of them then.
        split: Of the environments.
        requires: Results of the audit that a task needs, by default those of `awm_hub.hub.subsets`; a reference
            solution that fails excludes too. None: nothing needs to be audited.
        streaming: Read as it goes, block by block, or everything first.
        seed: Of the order, and of the rows' `seed`, which instances are launched with: one for each task and epoch.
        repeat: Epochs, each in an order of its own; give many to a stream, which ends with the last.
        block_environments: Environments of a block, at least, where there are so many.

    Raises:
        DataError: there is no such dataset, no task passes, or the subset is of other environments.
        UsageError: an argument makes no sense, or the package `datasets` is missing.
    """
    for name, number in (("repeat", repeat), ("block_environments", block_environments)):
        if number < 1:
            raise UsageError(f"{name} is {number}", next_step="give a number from 1")
    library = _library()
    environments = _loaded(dataset, revision)
    chosen = chosen_tasks(environments, subset=subset, split=split, requires=requires)
    least = block_environments if streaming else len(chosen)
    plan = [b for epoch in range(repeat) for b in blocks(environments, chosen, seed=seed, epoch=epoch, least=least)]
    text = library.Value("string")
    features = library.Features(
        {
            "prompt": [{"role": text, "content": text}],
            "environment_id": text,
            "environment_hash": text,
            "task_id": text,
            "seed": library.Value("int64"),
        }
    )
    if not streaming:
        rows = [row for block in plan for row in rows_of_block(environments, block, seed=seed)]
        whole: datasets.Dataset = library.Dataset.from_list(rows, features=features)
        return whole
    source, found_revision = place_of(environments)
    given = {"plan": plan, "source": source, "revision": found_revision, "seed": seed}
    stream: datasets.IterableDataset = library.IterableDataset.from_generator(
        _streamed, features=features, gen_kwargs=given
    )
    return stream


def chosen_tasks(
    environments: Environments,
    *,
    subset: Subset | str | os.PathLike[str] | None = None,
    split: str = "train",
    requires: Mapping[str, bool | int] | None = SOUND,
) -> Chosen:
    """Which tasks may be trained on; of the environments, only the index and their audit results are read.

    Raises:
        UsageError: there is no such split or check.
        DataError: no task passes, or the subset is of other environments, or of such as are not to be trained on.
    """
    check_filters({"split": split, "quality": requires})
    if subset is not None:
        return _of_subset(environments, subset if isinstance(subset, Subset) else Subset.read(subset), split)
    entries = {e.id: e for e in environments.entries.values() if e.split == split and e.usage == "train"}
    if requires is None:
        found: Chosen = {name: None for name, entry in entries.items() if entry.tasks_count}
    else:
        qualities = environments.qualities()
        sound = {name: sound_tasks(qualities.get(name), requires) for name in entries}
        found = {name: tasks for name, tasks in sound.items() if tasks}
    if not found:
        what = "no task" if requires is None else "no sound task"
        step = "name another split" if requires is None else "`awm-hub audit` it first, or require less"
        raise DataError(f"{environments.source} has {what} to train on in the split {split}", next_step=step)
    return found


def sound_tasks(quality: Quality | None, requires: Mapping[str, bool | int]) -> tuple[str, ...]:
    """Ids of an environment's tasks that pass: the checks of the environment, their own, and no failing solution.

    Args:
        quality: Audit results of the environment in its present content; None: not audited, so nothing passes.
        requires: Name of a check → what it has to give; see `awm_hub.hub.Filters`.
    """
    of_tasks = {name: wanted for name, wanted in requires.items() if name in TASK_CHECKS}
    of_all = {name: wanted for name, wanted in requires.items() if name not in TASK_CHECKS}
    if quality is None or not passes(quality, of_all):
        return ()
    return tuple(
        task.id
        for task in quality.tasks
        if task.solution_passes is not False and all(task_holds(task, c, w) for c, w in of_tasks.items())
    )


def blocks(environments: Environments, chosen: Chosen, *, seed: int, epoch: int, least: int) -> list[Block]:
    """The chosen environments in blocks of whole row groups, the groups in an order drawn for this epoch.

    Args:
        environments: The dataset.
        chosen: Which of it.
        seed: Of the order.
        epoch: Of the order too.
        least: Environments of a block; the last one may have fewer.
    """
    groups: dict[str, list[str]] = {}
    for name in chosen:
        entry = environments.entries[name]
        groups.setdefault(f"{entry.file}:{entry.row_group}", []).append(name)
    found: list[Block] = []
    held: list[str] = []
    for group in sorted(groups, key=lambda g: _rank(seed, epoch, g)):
        held += groups[group]
        if len(held) >= least:
            found.append(_block(held, chosen, epoch))
            held = []
    return [*found, _block(held, chosen, epoch)] if held else found


def rows_of_block(environments: Mapping[str, Any], block: Block, *, seed: int) -> list[Row]:
    """The rows of a block in their order. Each environment is read, and only its texts are kept.

    Raises:
        DataError: an environment cannot be read, or has changed.
    """
    rows: list[Row] = []
    for name, wanted in block["environments"]:
        environment = environments[name]
        tasks = environment.tasks if wanted is None else [environment.task(task) for task in wanted]
        for task in tasks:
            rows.append(
                {
                    "prompt": opening("text", environment.briefing, task.prompt),
                    "environment_id": name,
                    "environment_hash": environment.content_hash,
                    "task_id": task.id,
                    "seed": derived_seed(seed, name, task.slug, block["epoch"]),
                }
            )
    return sorted(rows, key=lambda row: _rank(seed, block["epoch"], row["task_id"]))


def _streamed(plan: Sequence[Block], source: str | None, revision: str | None, seed: int) -> Iterator[Row]:
    """A stream's rows. Everything it is given can be pickled and hashed; `plan` is what `datasets` shards by."""
    for block in plan:
        yield from rows_of_block(_opened(source, revision), block, seed=seed)


@functools.lru_cache(maxsize=2)
def _opened(source: str | None, revision: str | None) -> Environments:
    return load(source, revision=revision)


def _loaded(dataset: str | os.PathLike[str] | Environments | None, revision: str | None) -> Environments:
    if not isinstance(dataset, Environments):
        return load(dataset, revision=revision)
    if revision is not None:
        raise UsageError("an open dataset is at a revision already", next_step="leave out revision")
    return dataset


def _of_subset(environments: Environments, subset: Subset, split: str) -> Chosen:
    found = subset.of(environments)
    barred = [e.id for e in found.entries.values() if e.usage != "train" or e.split != split]
    if barred:
        message = f"of the subset, {', '.join(barred[:5])} are for evaluation only or not of the split {split}"
        raise DataError(message, next_step="make the subset again")
    return {e.id: e.tasks for e in subset.environments}


def _block(names: Sequence[str], chosen: Chosen, epoch: int) -> Block:
    tasks = {name: chosen[name] for name in sorted(names)}
    listed = [[name, None if wanted is None else list(wanted)] for name, wanted in tasks.items()]
    return {"epoch": epoch, "environments": listed}


def _rank(seed: int, epoch: int, name: str) -> str:
    return hashlib.sha256(f"{seed}:{epoch}:{name}".encode()).hexdigest()


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        step = "pip install 'awm-hub[train]'"
        raise UsageError("rows to train on need the package datasets", next_step=step) from error
    return datasets
