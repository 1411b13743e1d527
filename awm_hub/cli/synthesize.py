"""`awm-hub synthesize`: names become audited environments, with any model, live or in batches."""

import argparse
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.cli.endpoints import KEYS, add_endpoint, endpoint_of, price_of, sampling_of
from awm_hub.cli.options import Verbs, add_verb
from awm_hub.cli.outcomes import Failure, Finished
from awm_hub.cli.terminal import Console, clean_line, counted, table
from awm_hub.errors import UsageError

if TYPE_CHECKING:
    from awm_hub.synthesis import SynthesisReport

_DETAILS = f"""Each name becomes a scenario with tasks, a database, sample data, tools and verifiers, written stage by
stage by the model. Every product is run in the sandbox; what is wrong goes back to the stage that can mend it. An
environment is accepted when a solver has done every task with its tools and the audit finds no error.

Everything is kept in DIR: interrupt it at any time and repeat the command. SEEDS is a text file with a name on each
line, or `Name: what is known of it`; without it, a list of 100 domains is used.

With --batch no model is asked. Requests are written to files in the form of OpenAI's batches, as vLLM's run-batch and
batch services read it; put the answers beside them and repeat the command, until nothing is left to ask.

{KEYS}

Exit code 1 says that an environment was rejected or could not be finished, or that the budget is used up."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "synthesize",
        "Make environments from names of scenarios, with a model.",
        details=_DETAILS,
        examples=(
            "awm-hub synthesize names.txt -o made --model Qwen3-32B --base-url http://127.0.0.1:8000/v1",
            "awm-hub synthesize -o made --model openai/gpt-oss-120b --target 1000 --budget-usd 300",
            "awm-hub synthesize names.txt -o made --model Qwen3-32B --batch rounds",
            "awm-hub synthesize -o made --explain marina_berths_1",
        ),
    )
    add = parser.add_argument
    add("seeds", metavar="SEEDS", nargs="?", help="text file with a name on each line (default: 100 domains)")
    add("-o", "--out", metavar="DIR", required=True, help="folder of the run; made, or gone on with")
    add("--target", metavar="N", type=int, help="scenarios wanted; more than SEEDS holds are invented")
    add("--batch", metavar="FOLDER", help="write requests to files there, and read the answers")
    add("--budget-usd", metavar="USD", type=float, help="ask nothing more once this much is spent")
    add("--budget-tokens", metavar="N", type=int, help="the same in tokens, of prompts and answers")
    add(
        "--interface",
        choices=("functions", "fastapi"),
        default="functions",
        help="form of the code (default functions)",
    )
    for name, what, count in (("tables", "tables", 12), ("rows", "rows of sample data", 150), ("tools", "tools", 25)):
        add(f"--{name}", metavar="N", type=int, default=count, help=f"{what} of an environment, at least ({count})")
    add("--tasks", metavar="N", type=int, default=10, help="tasks of an environment (10)")
    add("--embedder", metavar="NAME", default="wordllama", help="compares scenarios: wordllama, or module:Class")
    add("--license", metavar="ID", help="recorded for what is made, such as CC-BY-4.0")
    add("--concurrency", metavar="N", type=int, default=16, help="requests at a time (default 16)")
    add("--explain", metavar="ENV", help="tell how this environment came about, and do nothing else")
    add_endpoint(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished | Failure:
    """Go on with a run, or explain one of its environments."""
    if arguments.explain is not None:
        return _explain(arguments, console)
    from awm_hub.synthesis import Budget, Sizes, read_seeds, synthesize
    from awm_hub.synthesis.scenarios import default_seeds

    sizes = Sizes(tables=arguments.tables, rows=arguments.rows, tools=arguments.tools, tasks=arguments.tasks)
    endpoint = None if arguments.batch else endpoint_of(arguments)
    if arguments.model is None:
        step = "the batch's requests name it: --model NAME"
        raise UsageError("there is no model", next_step=step)
    try:
        report = synthesize(
            read_seeds(arguments.seeds) if arguments.seeds else default_seeds(),
            arguments.out,
            endpoint=endpoint,
            batch=arguments.batch,
            model=arguments.model,
            sampling=sampling_of(arguments) if endpoint is None else None,
            price=price_of(arguments.price) if endpoint is None else None,
            target=arguments.target,
            interface=arguments.interface,
            sizes=sizes,
            budget=Budget(usd=arguments.budget_usd, tokens=arguments.budget_tokens),
            embedder=arguments.embedder,
            license=arguments.license,
            progress=console.pass_on if console.is_json else _Narrator(console),
        )
    except KeyboardInterrupt:
        message = f"interrupted; what is answered and checked is in {arguments.out}"
        return Failure(type="Interrupted", message=message, next="repeat the command to go on", exit_code=130)
    for line in _lines(report, arguments, console):
        console.say(line)
    is_wanting = bool(report.rejected) or (report.state != "waiting" and bool(report.unfinished))
    return Finished(data=report.to_dict(), exit_code=1 if is_wanting else 0)


def _explain(arguments: argparse.Namespace, console: Console) -> Finished:
    from awm_hub.synthesis import explain

    story = explain(Path(arguments.out), arguments.explain)
    for line in story.lines():
        console.say(clean_line(line, 400))
    return Finished(data=story.to_dict(), exit_code=0)


class _Narrator:
    """Progress for people, one line for each thing that is done."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: Mapping[str, Any]) -> None:
        told = _TOLD.get(str(event["event"]))
        if told is not None:
            place = event.get("environment") or "scenarios"
            self._console.complain(clean_line(f"{place}  {told(event)}", 200))


def _attempt(event: Mapping[str, Any]) -> str:
    again = "" if event["number"] == 1 else f", attempt {event['number']} for {counted(event['problems'], 'problem')}"
    return f"{event['stage']}: answered{again}{'' if event['is_readable'] else ', but it cannot be read'}"


def _gate(event: Mapping[str, Any]) -> str:
    return f"{event['gate']}: {'passed' if not event['problems'] else counted(event['problems'], 'problem')}"


def _made(event: Mapping[str, Any]) -> str:
    return "ACCEPTED" if event["accepted"] else "rejected"


_TOLD = {"attempt": _attempt, "gate": _gate, "made": _made}


def _lines(report: "SynthesisReport", arguments: argparse.Namespace, console: Console) -> Iterator[str]:
    from awm_hub.synthesis.report_page import stage_lines

    counts = {"accepted": len(report.accepted), "rejected": len(report.rejected), "unfinished": len(report.unfinished)}
    scenarios = counted(report.scenarios, "scenario")
    yield f"{scenarios}: " + ", ".join(f"{count} {what}" for what, count in counts.items())
    if report.is_stalled:
        yield console.style("the pool stalled: no more scenarios that differ enough were found", "yellow")
    yield from table([[clean_line(name), "accepted"] for name in report.accepted])
    yield from table([[clean_line(name), "rejected"] for name in report.rejected])
    yield from table([[clean_line(left.id), clean_line(left.reason, 160)] for left in report.unfinished])
    yield ""
    yield from (clean_line(line, 160) for line in stage_lines(report.figures))
    out = shlex.quote(report.out)
    yield f"report: {clean_line(report.out)}/report.md"
    yield "next: " + clean_line(_next(report, out))


def _next(report: "SynthesisReport", out: str) -> str:
    if report.state == "waiting":
        files = [*report.batch["written"], *report.batch["waiting"]] if report.batch else []
        return f"answer the {counted(report.waiting, 'request')} of {', '.join(files)}, and repeat the command"
    if report.state == "budget":
        return "repeat the command with a larger budget to go on"
    if report.accepted:
        return f"awm-hub pack {out}/environments -o DATASET"
    if report.rejected:
        return f"awm-hub synthesize -o {out} --explain {report.rejected[0]}"
    return "repeat the command to go on"
