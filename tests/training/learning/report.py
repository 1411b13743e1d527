"""The report of the experiment: a page with two tables, two pictures, and the figures they are made of.

A cell pools the attempts of all seeds; its interval is Wilson's (95 %), which knows of chance between attempts. What
differs between seeds is shown beside it, seed by seed: three of them are too few for an interval of their own.
"""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.learning.pictures import Bar, Curve

from training.learning import pictures, stages, world

POLICIES = {"sft": "SFT", "full": "GRPO on full histories", "window": "history-aware GRPO"}
VIEWS = {"full": "the full history", "window": "a window of 1 turn"}
ENDS = 5
"""Steps at either end of a training that are compared."""
_Z = 1.959964
_CELL = re.compile(r"cell-(sft|full|window)-(\d+)-(full|window)\.json")
_TRAIN = re.compile(r"train-(sft|full|window)-(\d+)\.json")

Results = dict[str, dict[str, Any]]


def read(work: Path) -> Results:
    """Every stage and cell that is there, by name."""
    found = {}
    for place in sorted(work.glob("*.json")):
        if _CELL.fullmatch(place.name) or _TRAIN.fullmatch(place.name):
            found[place.stem] = json.loads(place.read_text(encoding="utf-8"))
    return found


def write(work: Path, out: Path) -> None:
    """Write `OUT.md`, and `results.json`, `ablation.svg` and `curves.svg` in `OUT`."""
    results = read(work)
    out.mkdir(parents=True, exist_ok=True)
    texts = {
        out / "results.json": json.dumps(results, indent=1, sort_keys=True) + "\n",
        out / "ablation.svg": pictures.bars(_bars(results), title="Success on held-out tasks, and 95 % intervals"),
        out / "curves.svg": pictures.curves(_curves(results)),
        out.with_suffix(".md"): page(results, out.name),
    }
    for place, text in texts.items():
        place.write_text(text, encoding="utf-8", newline="\n")


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's interval of a share, 95 %."""
    if n == 0:
        return 0.0, 1.0
    share, spread = successes / n, _Z**2 / n
    middle = (share + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(share * (1 - share) / n + spread / n / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def cells(results: Results, policy: str, view: str) -> list[dict[str, Any]]:
    """The cells of a policy and a view, by seed."""
    found = [
        (int(m[2]), r)
        for n, r in results.items()
        if (m := _CELL.fullmatch(f"{n}.json")) and m[1] == policy and m[3] == view
    ]
    return [figures for _, figures in sorted(found, key=lambda pair: pair[0])]


def trainings(results: Results, policy: str) -> list[dict[str, Any]]:
    """The trainings of a policy, by seed."""
    found = [(int(m[2]), r) for n, r in results.items() if (m := _TRAIN.fullmatch(f"{n}.json")) and m[1] == policy]
    return [figures for _, figures in sorted(found, key=lambda pair: pair[0])]


def page(results: Results, folder: str) -> str:
    """The report's text."""
    counts = [c["n"] for name, c in results.items() if name.startswith("cell-")]
    seeds = {name.split("-")[2] for name in results if name.startswith("cell-")}
    ablation = ["| policy | " + " | ".join(f"evaluated on {told}" for told in VIEWS.values()) + " |", "|---|---|---|"]
    ablation += [
        f"| {told} | {' | '.join(_cell(cells(results, policy, view)) for view in VIEWS)} |"
        for policy, told in POLICIES.items()
    ]
    learning = [f"| | first {ENDS} steps | last {ENDS} steps |", "|---|---|---|", *_learning(results)]
    spent = ["| stage | core | wall clock | memory |", "|---|---|---|---|", *_spending(results)]
    sft = trainings(results, "sft")
    return _PAGE.format(
        folder=folder,
        seeds=len(seeds),
        n=min(counts, default=0),
        ends=ENDS,
        imitated=world.IMITATED,
        reinforced=world.TRAIN - world.IMITATED,
        held_out=world.HELD_OUT,
        rollouts=stages.GROUP * stages.GROUPS,
        rate=stages.RATE,
        temperature=stages.TEMPERATURE,
        ablation="\n".join(ablation),
        learning="\n".join(learning),
        spent="\n".join(spent),
        steps=max((t["steps"] for t in trainings(results, "window")), default=0),
        sft_steps=max((t["steps"] for t in sft), default=0),
        parameters=max((t["parameters"] for t in sft), default=0) / 1e6,
        share_cut=max((t["share_cut"] for t in sft), default=0),
        vocabulary=max((t["vocabulary"] for t in sft), default=0),
    )


def _cell(found: Sequence[dict[str, Any]]) -> str:
    if not found:
        return "not there yet"
    n, successes = sum(c["n"] for c in found), sum(c["success"] for c in found)
    errors = sum(c["format_errors"] for c in found)
    low, high = wilson(successes, n)
    each = ", ".join(f"{100 * c['success'] / c['n']:.0f}" for c in found)
    share = f"**{100 * successes / n:.0f} %** [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{share}; seeds {each}; format errors {100 * errors / n:.0f} %"


def _learning(results: Results) -> list[str]:
    names = {"reward": "reward", "success": "success", "format_errors": "format errors"}
    ends, lines = (slice(ENDS), slice(-ENDS, None)), []
    for policy in ("window", "full"):
        found = [t["curve"] for t in trainings(results, policy) if t["curve"]]
        for name, told in names.items() if found else ():
            first, last = (_mean([p[name] for curve in found for p in curve[part]]) for part in ends)
            lines.append(f"| {POLICIES[policy]}: {told} | {_figure(name, first)} | {_figure(name, last)} |")
    return lines


def _figure(name: str, value: float) -> str:
    return f"{value:+.2f}" if name == "reward" else f"{100 * value:.0f} %"


def _spending(results: Results) -> list[str]:
    lines = []
    kinds = [(told, trainings(results, policy)) for policy, told in POLICIES.items()]
    kinds.append(("a cell of the table", [c for p in POLICIES for v in VIEWS for c in cells(results, p, v)]))
    for told, some in kinds:
        if some:
            core, wall, memory = (_mean([f[name] for f in some]) for name in ("cpu_s", "wall_s", "memory_mb"))
            lines.append(f"| {told} | {core:.0f} s | {wall:.0f} s | {memory:.0f} MB |")
    core, wall = (sum(figures[name] for figures in results.values()) / 60 for name in ("cpu_s", "wall_s"))
    return [*lines, f"| everything, all seeds together | {core:.0f} min | {wall:.0f} min | |"]


def _bars(results: Results) -> list[Bar]:
    found = []
    for policy, told in POLICIES.items():
        for view, seen in VIEWS.items():
            here = cells(results, policy, view)
            if here:
                n, successes = sum(c["n"] for c in here), sum(c["success"] for c in here)
                found.append(
                    Bar(
                        group=told,
                        name=f"on {seen}",
                        share=successes / n,
                        interval=wilson(successes, n),
                        points=tuple(c["success"] / c["n"] for c in here),
                        is_dark=view == "window",
                    )
                )
    return found


def _curves(results: Results) -> list[Curve]:
    wanted = (("reward", "reward", (-1.0, 1.0)), ("format_errors", "format errors", (0.0, 1.0)))
    return [
        Curve(
            title=f"{told}, {POLICIES[policy]}",
            bounds=bounds,
            lines=tuple(tuple(point[name] for point in t["curve"]) for t in trainings(results, policy)),
        )
        for policy in ("window", "full")
        for name, told, bounds in wanted
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)


_PAGE = (Path(__file__).parent / "page.md").read_text(encoding="utf-8")
