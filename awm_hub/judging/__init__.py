"""Judging: what an attempt was worth, decided from its answer and from the database it left behind."""

from awm_hub.judging.deciding import judge, judge_async

__all__ = ["judge", "judge_async"]
