"""`awm-hub audit`: find out what environments are worth, and write it where trainers filter by it."""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.cli.options import Verbs, add_trust, add_verb
from awm_hub.cli.outcomes import Failure, Finished
from awm_hub.cli.terminal import Console, clean_line, counted, table
from awm_hub.errors import UsageError

if TYPE_CHECKING:
    from awm_hub.auditing import AuditedEnvironment, AuditReport, Finding

_FINDINGS_SHOWN = 12
_SEVERITIES = ("error", "warning")
_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}
_DETAILS = """Every environment is built again, its tools are called with plausible and with odd arguments, instances
are compared, and each task is attempted in ways of which it is known whether they should pass. Interrupt it at any time
and repeat the command: finished environments are not audited again, unless --fresh is given.

SOURCE is a source folder, a folder of them, a packed folder, a Parquet file or a Hub repo id; without it the bundled
set is audited. Exit code 1 says that a finding reaches --fail-on, or that an environment could not be audited."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "audit",
        "Find faults in environments and their tasks, and measure their verifiers.",
        details=_DETAILS,
        examples=(
            "awm-hub audit environments",
            "awm-hub audit out --jobs 8 --write-quality -o audit.json",
            "awm-hub audit awm/envs-1k --env e_commerce_33 --fail-on never",
        ),
    )
    add = parser.add_argument
    add("source", metavar="SOURCE", nargs="?", help="what to audit")
    add("--env", metavar="ID", action="append", help="only this environment; may be given again")
    add("--revision", metavar="REF", help="branch, tag or commit of a Hub dataset")
    add("--jobs", metavar="N", type=int, help="environments at a time (default: number of cores)")
    add(
        "--fail-on",
        choices=(*_SEVERITIES, "never"),
        default="error",
        help="severity at which the exit code is 1 (default error)",
    )
    add("--write-quality", action="store_true", help="write quality.json beside sources, the column of a dataset")
    add("-o", "--out", metavar="REPORT", help="write the whole report to this file, as JSON")
    add(
        "--run", metavar="FILE", dest="run_file", help="where finished environments are kept (default: the Hub's cache)"
    )
    add("--baseline", metavar="REPORT", help="an earlier report; tools that do otherwise than there are findings")
    add("--fresh", action="store_true", help="audit again what is kept")
    add_trust(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished | Failure:
    """Audit environments."""
    from awm_hub.auditing import audit, write_quality

    _check_places(arguments)
    try:
        report = audit(
            arguments.source,
            revision=arguments.revision,
            ids=arguments.env,
            jobs=arguments.jobs,
            run_file=arguments.run_file,
            baseline=arguments.baseline,
            is_fresh=arguments.fresh,
            trust_remote_code=arguments.trust_remote_code,
            progress=console.pass_on if console.is_json else _Narrator(console),
        )
    except KeyboardInterrupt:
        step = "repeat the command: what is finished is kept"
        return Failure(type="Interrupted", message="interrupted", next=step, exit_code=130)
    if arguments.out:
        _write(Path(arguments.out), report)
    written = write_quality(report) if arguments.write_quality else ()
    for line in _lines(report, written, arguments, console):
        console.say(line)
    has_failed = arguments.fail_on != "never" and report.reaches(arguments.fail_on)
    return Finished(data={**report.to_dict(), "written": list(written)}, exit_code=1 if has_failed else 0)


def _check_places(arguments: argparse.Namespace) -> None:
    """Refuse what could not be written in the end, before the work."""
    if arguments.out and Path(arguments.out).is_dir():
        raise UsageError(f"{arguments.out} is a folder", next_step="-o names a file")
    if arguments.out and not Path(arguments.out).absolute().parent.is_dir():
        raise UsageError(f"there is no folder for {arguments.out}", next_step="make it, or name another file")
    if arguments.write_quality and not (arguments.source and Path(arguments.source).exists()):
        step = "audit a local folder and push it, or leave out --write-quality"
        raise UsageError(f"{arguments.source or 'the bundled set'} cannot be written to", next_step=step)


class _Narrator:
    """Progress for people, one line for each environment."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: Mapping[str, Any]) -> None:
        place = f"({event['position']} of {event['total']})"
        if "error" in event:
            told = f"could not be audited: {event['error']}"
        else:
            how = "kept" if event["is_kept"] else f"{event['seconds']:.1f} s"
            told = f"{counted(event['errors'], 'error')}, {counted(event['warnings'], 'warning')}, {how}"
        self._console.complain(clean_line(f"{event['id']}  {told}  {place}", 160))


def _write(path: Path, report: "AuditReport") -> None:
    place = path.with_name(f".{path.name}.tmp")
    place.write_text(json.dumps(report.to_dict(), indent=1, default=str) + "\n", encoding="utf-8", newline="\n")
    os.replace(place, path)


def _lines(
    report: "AuditReport", written: tuple[str, ...], arguments: argparse.Namespace, console: Console
) -> Iterator[str]:
    if report.environments:
        head = ("id", "tasks", "errors", "warnings", "equivalents", "mutants", "held out", "seconds")
        yield from table([head, *(_row(e) for e in report.environments)])
    for environment in report.environments:
        yield from _finding_lines(environment, console)
    for left in report.unaudited:
        yield console.style(f"not audited: {clean_line(left.id)}", "red")
        yield f"  {clean_line(left.message, 160)}"
    totals = report.totals
    yield ""
    counts = [counted(totals["errors"], "error"), counted(totals["warnings"], "warning")]
    kept = f", {report.taken_over} kept from an earlier run" if report.taken_over else ""
    tasks = counted(totals["tasks"], "task")
    yield f"{counted(totals['environments'], 'environment')}, {tasks}, {', '.join(counts)}{kept}"
    for name in ("equivalents", "mutants"):
        if (share := totals[name]["share"]) is not None:
            what = "accepted" if name == "equivalents" else "rejected"
            yield f"{name} {what}: {totals[name]['right']} of {totals[name]['tried']} ({share:.1%})"
    for path in written:
        yield f"written: {clean_line(path)}"
    yield _next(report, arguments)


def _row(environment: "AuditedEnvironment") -> tuple[str, ...]:
    tasks = environment.quality.tasks
    return (
        environment.id,
        str(len(tasks)),
        str(environment.count("error")),
        str(environment.count("warning")),
        f"{sum(t.equivalents_accepted or 0 for t in tasks)}/{sum(t.equivalents_tried or 0 for t in tasks)}",
        f"{sum(t.mutants_rejected or 0 for t in tasks)}/{sum(t.mutants_tried or 0 for t in tasks)}",
        f"{environment.held_out.right}/{environment.held_out.tried}",
        f"{environment.seconds:.1f}",
    )


def _finding_lines(environment: "AuditedEnvironment", console: Console) -> Iterator[str]:
    shown = [f for f in environment.findings if f.severity in _SEVERITIES]
    if not shown:
        return
    yield console.style(f"\n{clean_line(environment.id)}", "bold")
    for finding in shown[:_FINDINGS_SHOWN]:
        yield from _told(finding, console)
    if len(shown) > _FINDINGS_SHOWN:
        yield f"  … {len(shown) - _FINDINGS_SHOWN} more; -o REPORT has all"


def _told(finding: "Finding", console: Console) -> Iterator[str]:
    severity = console.style(finding.severity, _COLOURS[finding.severity])
    yield f"  {severity} {finding.rule} {clean_line(finding.subject)}: {clean_line(finding.message, 200)}"
    yield f"    next: {clean_line(finding.next_step)}"


def _next(report: "AuditReport", arguments: argparse.Namespace) -> str:
    if arguments.out:
        return f"the whole report: {clean_line(arguments.out)}"
    return "next: the same with -o REPORT writes the whole report; the rules are explained in docs/audit.md"
