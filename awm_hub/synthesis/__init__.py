"""Synthesis: from names of scenarios to audited environments, with any model.

Seven stages in the paper's order (§1) write a scenario, its tasks, database, sample data, toolset, code and
verification; a solver attempts the tasks. Every product is run, and what is wrong goes back to the stage that can mend
it (`awm_hub.synthesis.loop`). All that is asked and answered is in one store, from which a run goes on.
"""

from awm_hub.synthesis.asking import Budget
from awm_hub.synthesis.drafts import Sizes
from awm_hub.synthesis.explaining import Story, explain
from awm_hub.synthesis.running import SynthesisReport, synthesize
from awm_hub.synthesis.seeds import Seed, default_seeds, read_seeds

__all__ = [
    "Budget",
    "Seed",
    "Sizes",
    "Story",
    "SynthesisReport",
    "default_seeds",
    "explain",
    "read_seeds",
    "synthesize",
]
