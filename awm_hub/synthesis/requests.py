"""Requests: the conversation in which a stage's product is asked for.

What is common comes first, so that servers which cache prompts by their beginning read it once: the system message is
the same for all stages and environments, then come the products that the stage stands on, in the order of the stages,
and last the stage's own instruction. A correction goes on with that conversation.
"""

from collections.abc import Sequence
from typing import Any

from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.prompting import fill
from awm_hub.synthesis.stages import STAGES_BY_NAME
from awm_hub.synthesis.stages.base import Stage

_HEADINGS = {
    "scenario": "Scenario",
    "task": "Tasks",
    "database": "Schema",
    "sample_data": "Sample data",
    "toolset": "Toolset",
    "code": "Code",
    "verification": "Verification",
}
_QUOTED_CHARS = 4_000
"""Of an answer that could not be read, in the request for another one."""


def request(stage: Stage, draft: Draft) -> list[dict[str, Any]]:
    """The messages that ask for a stage's product."""
    system = fill("common")
    if draft.interface == "fastapi":
        system += "\n" + fill("fastapi")
    shown = [f"# {_HEADINGS[name]}\n\n{rendered(name, draft)}" for name in stage.shows if draft.parts(name)]
    return [
        {"role": "system", "content": system.strip()},
        {"role": "user", "content": "\n\n".join([*shown, stage.prompt(draft).strip()])},
    ]


def correction(
    stage: Stage, draft: Draft, problems: Sequence[Problem], unreadable: str | None = None
) -> list[dict[str, Any]]:
    """The messages that ask for a correction.

    Args:
        stage: Whose product is to be corrected.
        draft: With the present product, if there is one.
        problems: What is wrong.
        unreadable: The last answer, where that could not be read.
    """
    product = rendered(stage.name, draft) if draft.parts(stage.name) else ""
    said = product if unreadable is None else unreadable[-_QUOTED_CHARS:]
    told = "\n".join(f"- {problem}" for problem in problems)
    named = sorted({p.subject for p in problems if p.subject} - set(draft.parts(stage.name)))
    later = [name for name in ("code", "verification") if name not in (stage.name, *stage.shows)]
    beside = [_definition(name, part, draft) for name in later for part in named if part in draft.parts(name)]
    elsewhere = "".join(f"{text}\n\n" for text in beside)
    return [
        *request(stage, draft),
        {"role": "assistant", "content": said or "(nothing)"},
        {"role": "user", "content": fill("correction", problems=told, elsewhere=elsewhere).strip()},
    ]


def rendered(stage: str, draft: Draft) -> str:
    """A stage's product as requests show it."""
    return STAGES_BY_NAME[stage].render(draft.parts(stage))


def _definition(stage: str, part: str, draft: Draft) -> str:
    """A part of a later product that a problem is about, for whoever has to mend an earlier one."""
    return f"In {_HEADINGS[stage].lower()}:\n{products.fenced('python', draft.parts(stage)[part])}"
