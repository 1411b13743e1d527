"""The stages whose products a model writes, in the paper's order (§1), each a module with its prompt and its gate."""

from awm_hub.synthesis.stages import code, database, sample_data, scenario, task, toolset, verification
from awm_hub.synthesis.stages.base import Stage

WRITTEN: tuple[Stage, ...] = (
    scenario.STAGE,
    task.STAGE,
    database.STAGE,
    sample_data.STAGE,
    toolset.STAGE,
    code.STAGE,
    verification.STAGE,
)
"""In order; a draft has the products of the first, then of more of them."""
STAGES_BY_NAME = {stage.name: stage for stage in WRITTEN}

__all__ = ["STAGES_BY_NAME", "WRITTEN", "Stage"]
