"""Judging: what an attempt was worth, decided from its answer and from the database it left behind.

Code decides (`decision`, `reference`), or a model on the evidence that code brings (`LlmJudge`).
"""

from awm_hub.judging.deciding import JUDGES, Judge, judge, judge_async
from awm_hub.judging.llm import LlmJudge

__all__ = ["JUDGES", "Judge", "LlmJudge", "judge", "judge_async"]
