"""`awm-hub subset`: sound tasks to train on, chosen by audit results and a seed, or right rollouts of them."""

import argparse
from typing import TYPE_CHECKING

from awm_hub.cli.options import Verbs, add_dataset, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line, counted

if TYPE_CHECKING:
    from awm_hub.hub import Subset


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "subset",
        "Choose environments and tasks to train on, or rollouts to learn from.",
        details="""Only audited tasks of the train split are chosen, whose checks hold: doing nothing fails, the seed
does not satisfy them, their environment is deterministic and keeps no state outside its database. The same dataset and
seed give the same subset. The default size is that of the paper's training set.

With --rollouts, rollouts are chosen instead: those of such tasks that were judged COMPLETED, each conversation once.
They are written as a dataset of trajectories.""",
        examples=(
            "awm-hub subset --dataset awm/envs-1k --revision v1 -o subset.json",
            "awm-hub subset --dataset out --environments 10 --tasks 40 --seed 1 -o subset.json",
            "awm-hub subset --dataset out --rollouts runs/qwen3 -o sft",
        ),
    )
    add_dataset(parser)
    parser.add_argument("-o", "--out", metavar="PATH", required=True, help="JSON file, or with --rollouts a folder")
    rollouts = "choose among these rollouts, a run's directory or a dataset of trajectories; may be given again"
    parser.add_argument("--rollouts", metavar="RUN", action="append", help=rollouts)
    parser.add_argument("--environments", type=int, default=526, metavar="N", help="at most so many (default 526)")
    parser.add_argument("--tasks", type=int, default=3315, metavar="N", help="at most so many (default 3315)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed, another subset (default 0)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Choose a subset; a smaller one where there are fewer sound tasks than asked for."""
    from awm_hub.hub import load, training_subset

    environments = load(arguments.dataset, revision=arguments.revision)
    subset = training_subset(
        environments,
        environments_count=arguments.environments,
        tasks_count=arguments.tasks,
        seed=arguments.seed,
    )
    if arguments.rollouts:
        return _examples(subset, arguments, console)
    subset.save(arguments.out)
    from awm_hub.cli.reports import SubsetReport

    report = SubsetReport(
        out=arguments.out,
        source=subset.source,
        revision=subset.revision,
        environments_count=len(subset.environments),
        tasks_count=len(subset.tasks),
        sound_environments=subset.sound_environments,
        sound_tasks=subset.sound_tasks,
        left_out=subset.left_out,
        fingerprint=subset.fingerprint,
    )
    console.say(
        clean_line(
            f"{counted(report.environments_count, 'environment')} with {counted(report.tasks_count, 'task')}, of "
            f"{report.sound_environments} with {report.sound_tasks} that are sound: {report.out}"
        )
    )
    for reason, count in report.left_out.items():
        console.say(clean_line(f"  left out, {reason}: {counted(count, 'task')}"))
    return Finished(data=report)


def _examples(subset: "Subset", arguments: argparse.Namespace, console: Console) -> Finished:
    """Write the rollouts that are examples to learn from."""
    from awm_hub.rollouts import write_examples

    selection = write_examples(arguments.rollouts, subset, arguments.out)
    from awm_hub.cli.reports import ExamplesReport

    report = ExamplesReport(
        out=arguments.out,
        source=subset.source,
        revision=subset.revision,
        rollouts_count=len(selection.kept),
        tasks_count=selection.tasks_count,
        left_out=selection.left_out,
    )
    kept = f"{counted(report.rollouts_count, 'rollout')} of {counted(report.tasks_count, 'task')}"
    console.say(clean_line(f"{kept}: {report.out}"))
    for reason, count in report.left_out.items():
        console.say(f"  left out, {reason}: {counted(count, 'rollout')}")
    return Finished(data=report)
