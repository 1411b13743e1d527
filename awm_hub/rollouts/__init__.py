"""Rollouts: policies attempt tasks, many at once, and what they did is stored, judged and counted."""

from awm_hub.rollouts.attempts import MAX_TURNS, attempt
from awm_hub.rollouts.charts import chart, write_chart
from awm_hub.rollouts.dataset import read_trajectories, write_trajectories
from awm_hub.rollouts.examples import Selection, write_examples
from awm_hub.rollouts.measures import Ledger, Measure, Metrics, measure
from awm_hub.rollouts.plans import Plan, Slot
from awm_hub.rollouts.running import rollout, rollout_async
from awm_hub.rollouts.store import Rollout, Run, open_run
from awm_hub.rollouts.storing import store_trajectories

__all__ = [
    "MAX_TURNS",
    "Ledger",
    "Measure",
    "Metrics",
    "Plan",
    "Rollout",
    "Run",
    "Selection",
    "Slot",
    "attempt",
    "chart",
    "measure",
    "open_run",
    "read_trajectories",
    "rollout",
    "rollout_async",
    "store_trajectories",
    "write_chart",
    "write_examples",
    "write_trajectories",
]
