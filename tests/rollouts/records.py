"""Rollouts for tests, made without running anything."""

from typing import Any

from awm_hub.rollouts import Rollout
from awm_hub.trajectory import Evidence, Outcome, StateDiff, Step, ToolResult, Trajectory, Verdict

DONE, FAILED, BROKEN = Outcome.COMPLETED, Outcome.AGENT_ERROR, Outcome.ENVIRONMENT_ERROR


def verdict(outcome: Outcome, **changes: Any) -> Verdict:
    values = {"outcome": outcome, "judge": "decision", "reasoning": "", "evidence": Evidence(diff=StateDiff())}
    return Verdict(**{**values, **changes})


def step(type_: str = "ok", code: str | None = None, seconds: float = 0.0) -> Step:
    return Step(tool="t", arguments={}, result=ToolResult(type=type_, code=code, seconds=seconds), state_version=0)


def rollout(
    task: str = "e_1/t0", number: int = 0, outcome: Outcome | None = DONE, *, judge_error: Any = None, **changes: Any
) -> Rollout:
    environment, _, slug = task.partition("/")
    values = {
        "environment_id": environment,
        "environment_hash": "0" * 64,
        "task_id": task,
        "seed": number,
        "tier": "sealed",
        "clock": "2026-03-02T09:00:00+00:00",
        "steps": (),
        "termination": "answered",
        "database_delta": "",
        "verdicts": () if outcome is None else (verdict(outcome),),
        "usage": {"turns": 1},
    }
    return Rollout(
        id=f"{environment}__{slug}__{number}",
        number=number,
        trajectory=Trajectory(**{**values, **changes}),
        judge_error=judge_error,
    )
