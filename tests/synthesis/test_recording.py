"""The recorded run: four environments, made from real answers, replay offline to what is bundled."""

import json
import lzma
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import awm_hub
from awm_hub.packing import source_folders
from awm_hub.rollouts.dataset import read_rollouts
from awm_hub.synthesis import Seed, SynthesisReport, explain, synthesize
from awm_hub.synthesis.store import FILE, read_store

RECORDING = Path(__file__).parents[1] / "fixtures" / "synthesis" / "four.jsonl.xz"
MARINA, FESTIVAL = "marina_berth_management_1", "film_festival_office_1"
FOUR = (FESTIVAL, "food_bank_operations_1", "language_school_enrolment_1", MARINA)


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.open(RECORDING, "rt", encoding="utf-8").read().split("\n") if line]


def replayable(out: Path, names: Iterable[str]) -> list[Seed]:
    """A store with the answers for some environments and nothing else; the seeds of its run."""
    chosen = {"", *names}
    kept = [r for r in records() if r["type"] in ("settings", "request", "answer")]
    of = {r["key"]: r["environment"] for r in kept if r["type"] == "request"}
    lines = [r for r in kept if r["type"] == "settings" or of[r["key"]] in chosen]
    out.mkdir()
    (out / FILE).write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in lines), encoding="utf-8")
    with read_store(out) as store:
        return [Seed(**seed) for seed in store.settings["seeds"]]


def replay(out: Path, seeds: list[Seed]) -> SynthesisReport:
    return synthesize(seeds, out, batch=out.parent / "batch", model="claude", license="CC-BY-4.0")


def hashes(out: Path) -> dict[str, str]:
    with read_store(out) as store:
        return {o["environment"]: o["content_hash"] for o in store.records("outcome") if o["accepted"]}


def bundled(names: Iterable[str]) -> dict[str, str]:
    environments = awm_hub.load()
    return {name: environments[name].content_hash for name in names}


def test_a_recorded_environment_is_made_again_as_it_is_bundled(tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = replay(out, replayable(out, [MARINA]))
    assert (report.accepted, report.rejected) == ((MARINA,), ())
    assert report.state == "waiting"  # for the answers of the other three, which were left out
    assert hashes(out) == bundled([MARINA])
    rollouts = list(read_rollouts(out / "trajectories"))
    assert len(rollouts) == 10
    assert all(rollout.is_success for rollout in rollouts)
    assert explain(out, MARINA).state == "accepted"


def test_the_recording_holds_no_edits_and_says_who_answered() -> None:
    with_answers = [r for r in records() if r["type"] == "answer"]
    assert {r["model"] for r in with_answers} == {"claude"}
    assert {r["source"] for r in with_answers} == {"batch"}
    found = {folder.name for folder in source_folders(RECORDING.parents[3] / "environments")}
    assert set(FOUR) < found
    assert RECORDING.stat().st_size < 20 * 2**20


@pytest.mark.slow
def test_the_whole_recording_replays_to_four_environments(tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = replay(out, replayable(out, FOUR))
    assert (report.state, report.accepted) == ("done", FOUR)
    assert hashes(out) == bundled(FOUR)
    assert report.trajectories == 40
    again = replay(out, [Seed(**seed) for seed in _seeds(out)])
    assert again.accepted == FOUR


def _seeds(out: Path) -> list[dict[str, str]]:
    with read_store(out) as store:
        found: list[dict[str, str]] = store.settings["seeds"]
        return found


@pytest.mark.slow
@pytest.mark.parametrize(("names", "kills", "latest_s"), [((MARINA, FESTIVAL), 50, 8.0), (FOUR, 3, 60.0)])
def test_a_replay_that_is_killed_at_random_points_ends_the_same(
    tmp_path: Path, names: tuple[str, ...], kills: int, latest_s: float
) -> None:
    draw, left, rounds = random.Random(len(names)), kills, 0
    while left:
        out = tmp_path / str(rounds)
        seeds = replayable(out, names)
        (tmp_path / "seeds.txt").write_text("".join(f"{s.name}: {s.outline}\n" for s in seeds), encoding="utf-8")
        while not _has_ended(out, tmp_path, draw.uniform(0.2, latest_s) if left else None):
            left = max(0, left - 1)
        assert hashes(out) == bundled(names)
        rounds += 1


def _has_ended(out: Path, folder: Path, seconds: float | None) -> bool:
    """Start the command, and kill it after some seconds if it has not ended."""
    words = ["synthesize", str(folder / "seeds.txt"), "-o", str(out), "--model", "claude", "--batch", str(folder / "b")]
    process = subprocess.Popen(
        [sys.executable, "-m", "awm_hub", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    ends_at = None if seconds is None else time.monotonic() + seconds
    while process.poll() is None:
        if ends_at is not None and time.monotonic() >= ends_at:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False
        time.sleep(0.02)
    assert process.returncode == 0
    return True
