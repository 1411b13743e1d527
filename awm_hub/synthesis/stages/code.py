"""The stage `code`: the module with the tools, and the gate that runs it.

The gate goes from what is cheap to what is thorough: the text is read, the module is built in the sandbox, its tools
are compared with the toolset, each is called, and at last the audit does what it does to every environment, tasks
aside. It stops early only where going on would run code that should not run, or would take hours.

`problem_of` and `STAGE_OF_RULE` say whose a finding of the audit is; the audit at the end uses them too.
"""

import ast
import asyncio
from dataclasses import replace

from awm_hub.auditing import audit_one
from awm_hub.auditing.findings import Finding
from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError, EpisodeError, LoadError, RecordError, SourceError, WorkerError
from awm_hub.packing import Source, advice, build_environment
from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.products import Parts
from awm_hub.synthesis.prompting import fill
from awm_hub.synthesis.stages import agreeing, calling, reading
from awm_hub.synthesis.stages.base import Stage
from awm_hub.synthesis.stages.blaming import STAGE_OF_RULE, problem_of, steady
from awm_hub.synthesis.stages.reading import problem
from awm_hub.synthesis.stages.reporting import reported

__all__ = ["STAGE", "STAGE_OF_RULE", "check", "problem_of"]

_CAUGHT = (LoadError, WorkerError, EpisodeError, RecordError)
"""What code of a row can bring about; that no process starts, or none can be sealed, is for a person to mend."""
_AUDIT_S = 900.0
"""A safeguard: the audit of forty tools takes twenty seconds."""


async def check(draft: Draft) -> tuple[Problem, ...]:
    """The gate: what is wrong with the code, found by running it in the sandbox.

    Raises:
        SealError: this machine cannot seal a process.
        SandboxError: no process could be started.
    """
    return reported(await _found(draft))


async def _found(draft: Draft) -> list[Problem]:
    code = draft.code
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [problem("does_not_parse", "", f"the module does not parse: {error}")]
    found = [*agreeing.parameters(draft), *reading.read(code)] if draft.interface == "functions" else []
    if any(p.rule in (*reading.UNSAFE, "parameter_differs") for p in found):
        return found
    try:
        source = reading.source_of(draft)
        built = await build_environment(source)
    except SourceError as error:
        return [*found, *_unbuilt(error, code, found)]
    except _CAUGHT as error:
        return [*found, problem("does_not_load", "", steady(error.message))]
    found += agreeing.compare(draft, built.tools)
    found += _advice(source, built)
    return [*found, *await _run(built)]


def _unbuilt(error: SourceError, code: str, found: list[Problem]) -> list[Problem]:
    """The error of a build, unless it is one that was found by reading already."""
    told = reading.problem_of_error(error, code)
    is_known = "which no reset takes back" in told.message and any(p.rule == "hidden_state" for p in found)
    return [] if is_known else [told]


def _advice(source: Source, built: Environment) -> list[Problem]:
    """What agents would miss in the documentation of the tools."""
    if source.interface != "functions":
        return []
    told = [reading.problem_of_error(SourceError(text), source.code) for text in advice.of_tools(source, built)]
    return [problem("documentation", p.subject, p.message, "warning") for p in told]


async def _run(environment: Environment) -> list[Problem]:
    """Call the tools, then audit what has no task yet."""
    try:
        called = await calling.call_all(environment)
    except _CAUGHT as error:
        return [_ended(error)]
    if called.spent:
        return called.problems
    try:
        async with asyncio.timeout(_AUDIT_S):
            audited = await audit_one(environment)
    except TimeoutError:
        return [*called.problems, problem("deadline", "", f"calling the tools takes more than {_AUDIT_S:g} seconds")]
    except _CAUGHT as error:
        return [*called.problems, _ended(error)]
    telling = [f for f in audited.findings if f.severity != "info" and _is_telling(f, called)]
    return [
        *called.problems,
        *(replace(problem_of(f), stage="code") if _is_lost(f) else problem_of(f) for f in telling),
    ]


def _is_lost(finding: Finding) -> bool:
    """Whether a tool finds none of the rows whose ids it was given, which is the code's doing."""
    return finding.rule == "tool_untried"


def _ended(error: AwmHubError) -> Problem:
    return problem("does_not_load", "", f"the environment cannot be kept running: {steady(error.message)}")


def _is_telling(finding: Finding, called: calling.Called) -> bool:
    """Whether a finding says something before there are solutions.

    A tool that refuses every made-up call may be right: its rules leave few rows that will do. It is suspicious where
    it finds none of the rows whose ids it was given.
    """
    codes = called.refusals.get(finding.subject, set())
    return finding.rule != "tool_untried" or codes <= {"not_found", "conflict"}


def _prompt(draft: Draft) -> str:
    return fill("code" if draft.interface == "functions" else "code_fastapi")


def _render(parts: Parts) -> str:
    return products.fenced("python", products.write_python(parts))


STAGE = Stage(
    name="code",
    prompt=_prompt,
    shows=("scenario", "task", "database", "toolset"),
    read=products.read_python,
    render=_render,
    check=check,
)
