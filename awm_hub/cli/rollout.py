"""`awm-hub rollout`: a policy attempts tasks, many at once; what it did is stored, judged and counted."""

import argparse
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.cli.choosing import naming_dataset
from awm_hub.cli.endpoints import KEYS, add_endpoint, endpoint_of
from awm_hub.cli.options import Parser, Verbs, add_dataset, add_trust, add_verb
from awm_hub.cli.outcomes import Failure, Finished
from awm_hub.cli.terminal import Console, clean_line, counted, table
from awm_hub.errors import RemoteError, UsageError

if TYPE_CHECKING:
    from awm_hub.environment import Environment
    from awm_hub.hub import Environments
    from awm_hub.inference import Endpoint
    from awm_hub.policy.acting import Policy
    from awm_hub.rollouts import Metrics, Run

_TASKS_SHOWN = 40
_MODEL_OPTIONS = {
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            "model", "base_url", "provider", "temperature", "top_p", "top_k", "max_tokens", "requests_per_minute",
            "price", "protocol", "window_turns", "window_tokens", "result_chars", "tool_prefix",
        )
    },
    "is_strict": "--strict or --lenient",
    "keeps_thoughts": "--keep-thoughts",
}  # fmt: skip
"""Options that only mean something to a model, by their names among the arguments."""
_DETAILS = f"""Interrupt it at any time and repeat the command: it goes on where it was, and nothing that is stored runs
again. Attempts that the endpoint or the policy's own code failed are made again then, and those whose files were
damaged; such a file is kept as ID.json.broken.

Policies: chat (a model; --model names it), solution (the reference solution), noop (answers at once), random (calls
drawn from the schemas), replay:FILE (a stored trajectory). {KEYS}

By default a model on the text protocol (--protocol text) is held to the paper's format rules, the first broken one ends
the rollout; one with native tool calls is not. --strict and --lenient say otherwise.

Exit code 1 says that some attempts have no verdict, as the endpoint, the policy or the judge failed."""


@dataclass(frozen=True, kw_only=True)
class RolloutReport:
    """`rollout`: what the run in a directory comes to."""

    directory: str
    policy: Mapping[str, Any]
    planned: int
    stored: int
    unscored: tuple[str, ...]
    """Attempts without a verdict, though there should be one."""
    metrics: Mapping[str, Any]
    """`overall`, `environments`, `tasks`: success, effort, errors and cost of each."""
    dataset: str
    """Folder of the same as Parquet."""
    plot: str | None = None


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "rollout",
        "Let a policy attempt tasks; store, judge and count what it did.",
        details=_DETAILS,
        examples=(
            "awm-hub rollout public_library_1 --policy solution -o runs/solution",
            "awm-hub rollout all --model Qwen3-4B --base-url http://127.0.0.1:8000/v1 -n 4 -o runs/qwen3",
            "awm-hub rollout public_library_1 --policy replay:runs/qwen3/rollouts/ID.json -o runs/replay",
        ),
    )
    parser.add_argument("environment", metavar="ENV", help="id of an environment, or all")
    parser.add_argument("-o", "--out", metavar="DIR", required=True, help="directory of the run; made, or gone on with")
    parser.add_argument(
        "--policy", metavar="NAME", help="what attempts the tasks (default: chat where --model is given)"
    )
    parser.add_argument("--task", metavar="TASK", action="append", help="only this task; may be given again")
    parser.add_argument("-n", "--rollouts", metavar="K", type=int, default=1, help="attempts at each task (default 1)")
    parser.add_argument("--concurrency", metavar="C", type=int, default=8, help="attempts at a time (default 8)")
    parser.add_argument("--max-turns", metavar="N", type=int, default=20, help="messages of an attempt (default 20)")
    parser.add_argument(
        "--judge", choices=("decision", "reference", "none"), default="decision", help="how to judge (default decision)"
    )
    parser.add_argument("--plot", metavar="FILE.svg", help="draw pass@1 of each task")
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="all other seeds follow from it, the model's too (default 0)"
    )
    add_dataset(parser)
    add_trust(parser)
    _add_model(parser)
    parser.set_defaults(run=run)


def _add_model(parser: Parser) -> None:
    """The options of the chat policy; None leaves the default to it."""
    add_endpoint(parser)
    add = parser.add_argument
    add("--top-p", metavar="P", type=float, help="nucleus sampling")
    add("--top-k", metavar="K", type=int, help="sample among the K likeliest")
    add("--protocol", choices=("native", "text"), help="tool calls of the endpoint, or the paper's (default native)")
    add("--window-turns", metavar="N", type=int, help="turns that the model sees, beside the first (paper: 10)")
    add("--window-tokens", metavar="N", type=int, help="tokens of turns that the model sees")
    add("--result-chars", metavar="N", type=int, help="characters of a result that the model sees")
    strictness = parser.add_mutually_exclusive_group()
    strictness.add_argument("--strict", dest="is_strict", action="store_true", default=None, help="rules end attempts")
    strictness.add_argument("--lenient", dest="is_strict", action="store_false", help="broken rules are only recorded")
    add("--tool-prefix", metavar="TEXT", help="before tool names, such as mcp_tool_ for upstream's checkpoints")
    thoughts = "leave earlier thoughts in what the model sees"
    add("--keep-thoughts", dest="keeps_thoughts", action="store_true", default=None, help=thoughts)


def run(arguments: argparse.Namespace, console: Console) -> Finished | Failure:
    """Run attempts, or what is left of them."""
    from awm_hub.rollouts import rollout
    from awm_hub.rollouts.charts import check_chart_path
    from awm_hub.runtime import sync

    name = _policy_name(arguments)
    if arguments.plot:
        check_chart_path(Path(arguments.plot))
    with naming_dataset(arguments):
        environments = _environments(arguments)
        endpoint = _endpoint(arguments)
        policy = _policy(name, arguments, environments, endpoint)
        try:
            stored = rollout(
                environments,
                policy,
                out=arguments.out,
                tasks=arguments.task,
                rollouts_per_task=arguments.rollouts,
                concurrency=arguments.concurrency,
                seed=arguments.seed,
                max_turns=arguments.max_turns,
                judge=None if arguments.judge == "none" else arguments.judge,
                trust_remote_code=arguments.trust_remote_code,
                progress=console.pass_on if console.is_json else _Narrator(console),
            )
        except KeyboardInterrupt:
            message = f"interrupted; what is done is in {arguments.out}"
            return Failure(type="Interrupted", message=message, next="repeat the command to go on", exit_code=130)
        finally:
            if endpoint is not None:
                sync.run(endpoint.aclose)
    return _finished(stored, arguments, console)


class _Narrator:
    """Progress for people, one line for each attempt."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "begun":
            if event["stored"]:
                left = counted(event["total"] - event["stored"], "attempt")
                self._console.complain(f"going on: {event['stored']} are stored, {left} to make")
            return
        if event["event"] == "broken":
            line = f"{event['id']} was stored in a file that is damaged: kept as {event['kept']}, and made again"
            self._console.complain(clean_line(line))
            return
        ended = event["outcome"] or event["termination"]
        self._console.complain(
            clean_line(
                f"{event['id']}  {ended}  ({event['position']} of {event['total']}, "
                f"{event['successes']} of {event['scored']} succeeded)"
            )
        )


def _environments(arguments: argparse.Namespace) -> "Mapping[str, Environment]":
    from awm_hub.hub import load

    dataset = load(arguments.dataset, revision=arguments.revision)
    return dataset if arguments.environment == "all" else _One(dataset, arguments.environment)


class _One(dict[str, "Environment"]):
    """One environment of a dataset, and where that was found."""

    def __init__(self, dataset: "Environments", name: str) -> None:
        super().__init__({name: dataset[name]})
        self.source, self.revision = dataset.source, dataset.revision


def _endpoint(arguments: argparse.Namespace) -> "Endpoint | None":
    if arguments.model is None:
        return None
    endpoint = endpoint_of(arguments)
    further = {"top_p": arguments.top_p, "top_k": arguments.top_k, "seed": arguments.seed}
    endpoint.sampling = replace(endpoint.sampling, **further)
    return endpoint


def _policy_name(arguments: argparse.Namespace) -> str:
    """Which policy is asked for.

    Raises:
        UsageError: none is, or one that would not heed an option that is given.
    """
    given = [option for name, option in _MODEL_OPTIONS.items() if getattr(arguments, name) is not None]
    name: str | None = arguments.policy or ("chat" if arguments.model is not None else None)
    if name is None:
        step = "--policy solution, noop, random or replay:FILE, or a model with --model"
        raise UsageError("rollout needs a policy", next_step=step)
    if given and name != "chat":
        step = f"leave out {' and '.join(given)}, or --policy"
        raise UsageError(f"the policy {name} asks no model, and {given[0]} is for one", next_step=step)
    return name


def _policy(
    name: str, arguments: argparse.Namespace, environments: "Mapping[str, Environment]", endpoint: "Endpoint | None"
) -> "Policy":
    from awm_hub.history import Window
    from awm_hub.policy import policy_from

    if name != "chat":
        return policy_from(name, environments=environments)
    names = ("protocol", "is_strict", "result_chars", "tool_prefix", "keeps_thoughts")
    settings = {name: getattr(arguments, name) for name in names}
    window = Window(turns=arguments.window_turns, tokens=arguments.window_tokens)
    given = {name: value for name, value in settings.items() if value is not None}
    return policy_from(name, environments=environments, endpoint=endpoint, window=window, **given)


def _finished(stored: "Run", arguments: argparse.Namespace, console: Console) -> Finished:
    """The report on a whole run, printed."""
    from awm_hub.rollouts import measure, write_chart

    metrics = measure(stored.values())
    unscored = tuple(name for name, rollout in stored.items() if not _is_settled(rollout, arguments.judge))
    if arguments.plot:
        write_chart(metrics.tasks, Path(arguments.plot))
    report = RolloutReport(
        directory=arguments.out,
        policy=stored.policy,
        planned=len(stored.plan),
        stored=len(stored),
        unscored=unscored,
        metrics=metrics.to_dict(),
        dataset=str(stored.directory / "dataset"),
        plot=arguments.plot,
    )
    for line in _lines(report, metrics, console):
        console.say(line)
    if unscored and len(unscored) == report.stored:
        _refuse_all_failed(stored)
    return Finished(data=report, exit_code=1 if unscored else 0)


def _is_settled(rollout: Any, judge: str) -> bool:
    """Whether an attempt came to what was asked for: a verdict, or an ending where no judge was asked for."""
    from awm_hub.reward import UNFINISHED

    if rollout.trajectory.termination in UNFINISHED:
        return False
    return judge == "none" or rollout.verdict is not None


def _refuse_all_failed(stored: "Run") -> None:
    """Say that the endpoint answered to nobody, where it is that.

    Raises:
        RemoteError: every attempt ended with an error of the endpoint.
    """
    trajectories = [rollout.trajectory for rollout in stored.values()]
    if all(t.termination == "endpoint_error" for t in trajectories):
        told = trajectories[-1].usage.get("error", {})
        message = f"the endpoint failed for every attempt, lastly: {told.get('message', 'no reason is known')}"
        raise RemoteError(message, next_step=told.get("next", "see that it works"))


def _lines(report: RolloutReport, metrics: "Metrics", console: Console) -> Iterator[str]:
    from awm_hub.rollouts import measures

    levels = [*metrics.tasks] if len(metrics.tasks) <= _TASKS_SHOWN else []
    levels += [*metrics.environments] if len(metrics.environments) > 1 else []
    yield from table([[clean_line(cell) for cell in row] for row in measures.table([*levels, metrics.overall])])
    overall = metrics.overall
    yield ""
    yield "outcomes: " + ", ".join(f"{n} {name}" for name, n in overall.outcomes.items())
    yield "ended by: " + clean_line(", ".join(f"{n} {name}" for name, n in overall.terminations.items()))
    for what, counts in (("failed calls", overall.tool_errors), ("broken rules", overall.format_errors)):
        if counts:
            yield f"{what}: " + clean_line(", ".join(f"{n} {name}" for name, n in counts.items()))
    if overall.ledger.requests:
        spent = overall.ledger
        tokens = f"{spent.prompt_tokens} prompt and {spent.completion_tokens} completion tokens"
        paid = "" if spent.cost_usd is None else f", {spent.cost_usd:.4f} USD"
        yield f"used: {tokens} in {counted(spent.requests, 'request')}{paid}"
    if report.unscored:
        yield console.style(f"without a verdict: {counted(len(report.unscored), 'attempt')}", "yellow")
    out = clean_line(shlex.quote(report.directory))
    yield f"as Parquet: {clean_line(report.dataset)}"
    yield f"next: awm-hub view {out}"
