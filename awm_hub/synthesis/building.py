"""From a draft to an environment, by the code that packs any source folder.

What that code refuses becomes a problem of the stage that wrote the file at fault: `tools.py` is for `code` to mend,
`seed.sql` for `sample_data`, and so on. Nothing that a model wrote raises here; only this machine's own failures do.
"""

import re
import tempfile
from pathlib import Path

from tomlkit.exceptions import TOMLKitError

from awm_hub.environment import Environment, Provenance
from awm_hub.errors import LoadError, RecordError, SealError, SourceError, WorkerError
from awm_hub.packing import Source, read_source
from awm_hub.packing.building import Built, build_with_advice
from awm_hub.synthesis.drafts import Draft, write_draft
from awm_hub.synthesis.problems import STAGES, Problem

STAGE_OF_FILE = {
    "scenario.toml": "scenario",
    "schema.sql": "database",
    "seed.sql": "sample_data",
    "tools.py": "code",
    "tasks.toml": "verification",
    "verifiers.py": "verification",
}
"""The stage that writes each file of a source; of `tasks.toml`, the stage that writes most of its keys."""
_STAGE_OF_KEY = {"instruction": "task", "kind": "task", "solution": "solution"}
_FILE = re.compile(r"[a-z0-9_]+/([a-z]+\.(?:toml|sql|py))\b(?:, \[(\w+)[\w.]*\])?(?:: (\w+))?")
_STEP = re.compile(r"\btask [a-z0-9_]+/(\w+), step \d+(?: \((\S+)\))?:(?: (\w+)\()?")
_TASK = re.compile(r"\b[a-z0-9_]+/(\w+)\b")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


async def build(
    draft: Draft, folder: Path, provenance: Provenance | None = None, *, trust_remote_code: bool = False
) -> tuple[Built | None, tuple[Problem, ...]]:
    """Build the environment of a draft.

    Args:
        draft: What is built.
        folder: Gets the source folder, by the draft's id.
        provenance: What `scenario.toml` says of its origin.
        trust_remote_code: Run its code without a seal where this machine has none.

    Returns:
        The environment, or the problem that keeps it from being built.

    Raises:
        SealError: this machine cannot seal, and the code is not trusted.
        SandboxError: a process could not be started.
    """
    source, problems = read(draft, folder, provenance)
    if source is None:
        return None, problems
    try:
        return await build_with_advice(source, trust_remote_code=trust_remote_code), ()
    except SourceError as error:
        return None, (source_problem(error, draft),)
    except SealError:
        raise
    except (LoadError, WorkerError) as error:
        return None, (_problem("code", "does_not_load", "", error.message),)
    except RecordError as error:
        return None, (_problem("database", "unreadable_database", "", error.message),)


async def build_unsolved(
    draft: Draft, *, trust_remote_code: bool = False
) -> tuple[Environment | None, tuple[Problem, ...]]:
    """The environment without solutions; answers are as `verification` gives them.

    Raises:
        SandboxError: the sandbox itself failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        bare = draft.having("solution", {})
        built, problems = await build(bare, Path(folder), trust_remote_code=trust_remote_code)
    return None if built is None else built.environment, problems


def read(draft: Draft, folder: Path, provenance: Provenance | None = None) -> tuple[Source | None, tuple[Problem, ...]]:
    """The draft as a source, which runs nothing of it; or the problem that keeps it from being one."""
    try:
        write_draft(draft, folder / draft.id, provenance)
    except UnicodeEncodeError as error:
        told = f"a text holds {error.object[error.start : error.end]!r}, half of a surrogate pair, which no file can"
        return None, (_problem(_unencodable(draft), "unreadable_text", "", told),)
    except (TOMLKitError, ValueError, TypeError) as error:
        told = f"a value cannot be written into tasks.toml: {type(error).__name__} {error}"
        return None, (_problem("verification", "unreadable_value", "", told),)
    try:
        return read_source(folder / draft.id), ()
    except SourceError as error:
        return None, (source_problem(error, draft),)


def source_problem(error: SourceError, draft: Draft) -> Problem:
    """What packing refused, for the stage that wrote it."""
    stage, subject = blamed(error.message, draft)
    told = f"{error.message}; {error.next_step}" if error.next_step else error.message
    return _problem(stage, "source_error", subject, told)


def blamed(message: str, draft: Draft) -> tuple[str, str]:
    """The stage at fault, and the part of its product, as far as a message of packing tells."""
    if step := _STEP.search(message):
        if " in tools.py" in message:
            return "code", step[2] or step[3] or ""
        return "solution", step[1]
    if (place := _FILE.search(message)) and place[1] in STAGE_OF_FILE:
        stage = STAGE_OF_FILE[place[1]]
        if place[2]:
            return _STAGE_OF_KEY.get(place[3], stage), place[2]
        return stage, _named(message, draft, stage)
    of_solution = draft.solutions and any(sign in message for sign in ("but its solution", " the solution of "))
    stage = "solution" if of_solution or message.startswith("7 seconds later") else "verification"
    found = [slug for slug in _TASK.findall(message) if slug in draft.tasks]
    return stage, found[0] if found else ""


def steady(text: str) -> str:
    """A text without addresses in memory, which differ from run to run."""
    return _ADDRESS.sub("0x…", text)


def _named(message: str, draft: Draft, stage: str) -> str:
    """The part of a stage's product that a message names first."""
    words = re.findall(r"\w+", message)
    names = {name.rpartition(" ")[2]: name for name in draft.parts(stage)}
    return next((names[word] for word in words if word in names), "")


def _unencodable(draft: Draft) -> str:
    """The first stage that holds a text that is no UTF-8."""
    for stage in STAGES:
        for name, text in draft.parts(stage).items():
            if f"{name}{text}".encode(errors="replace").decode() != f"{name}{text}":
                return stage
    return "verification"


def _problem(stage: str, rule: str, subject: str, message: str) -> Problem:
    return Problem(stage=stage, rule=rule, subject=subject, message=steady(message))
