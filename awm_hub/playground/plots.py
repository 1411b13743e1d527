"""Plots of a dataset's figures as small SVGs in the colours of the page."""

from collections.abc import Sequence

from awm_hub.playground.catalogue import FLAGS, Statistics
from awm_hub.playground.markup import Markup, element, joined, line

_WIDTH, _NAMES, _ROW = 360, 150, 22
_HEIGHT, _FLOOR = 190, 160
_MOST_BARS, _MOST_BINS = 10, 12
CSS = """
.awm-plots { display: flex; flex-wrap: wrap; gap: .75rem; }
.awm-plot { flex: 1 1 min(19rem, 100%); border: 1px solid var(--awm-line); border-radius: .5rem;
  padding: .75rem; margin: 0; background: var(--awm-raised); min-width: 0; }
.awm-plot figcaption { font-weight: 600; color: var(--awm-ink); margin-bottom: .25rem; }
.awm-plot svg { width: 100%; height: auto; max-width: 27rem; display: block; }
.awm-plot text { font-size: 12px; fill: var(--awm-ink); font-family: inherit; }
.awm-plot text.awm-axis { fill: var(--awm-soft); font-size: 11px; }
.awm-plot .awm-bar { fill: var(--awm-accent); }
.awm-plot .awm-track { fill: var(--awm-line); opacity: .45; }
"""


def plots(found: Statistics) -> Markup:
    """The plots of these figures."""
    audited = [(FLAGS[name], count) for name, count in found.flags]
    calls = [number for number, count in found.difficulties for _ in range(count)]
    figures = [
        _bars("Categories", found.categories[:_MOST_BARS], found.environments),
        _histogram("Calls of a solution", "tasks", _binned(calls)),
        _histogram("Tools", "environments", _binned(found.tools_each)),
        _histogram("Tables", "environments", _binned(found.tables_each)),
        _bars("Audit", audited, found.environments),
    ]
    return element("div", *(f for f in figures if f), class_="awm-plots")


def _bars(title: str, named: Sequence[tuple[str, int]], whole: int) -> Markup:
    if not named or not whole:
        return Markup()
    most = max(max(count for _, count in named), 1)
    height, room = _ROW * len(named) + 4, _WIDTH - _NAMES - 46
    rows = []
    for position, (name, count) in enumerate(named):
        y = _ROW * position + 3
        rows += [
            element("text", line(name, 22), x=_NAMES - 8, y=y + 13, text_anchor="end"),
            element("rect", class_="awm-track", x=_NAMES, y=y, width=room, height=16, rx=3),
            element("rect", class_="awm-bar", x=_NAMES, y=y, width=f"{room * count / most:.1f}", height=16, rx=3),
            element("text", f"{count:,}", x=_NAMES + room + 6, y=y + 13),
        ]
    told = "; ".join(f"{line(name, 40)}: {count}" for name, count in named)
    return _figure(title, told, height, rows)


def _binned(values: Sequence[int]) -> list[tuple[str, int]]:
    """Counts by value, or by equal ranges of values where there are many."""
    if not values:
        return []
    low, high = min(values), max(values)
    width = -(-(high - low + 1) // _MOST_BINS)
    counts = [0] * -(-(high - low + 1) // width)
    for value in values:
        counts[(value - low) // width] += 1
    starts = [low + i * width for i in range(len(counts))]
    return [(f"{s}" if width == 1 else f"{s}–{s + width - 1}", n) for s, n in zip(starts, counts, strict=True)]


def _histogram(title: str, unit: str, bins: Sequence[tuple[str, int]]) -> Markup:
    if not bins:
        return Markup()
    most, step = max(count for _, count in bins) or 1, _WIDTH / len(bins)
    rows = []
    for position, (name, count) in enumerate(bins):
        height, middle, width = (_FLOOR - 24) * count / most, (position + 0.5) * step, min(step - 4, 44)
        rows.append(_column(middle - width / 2, width, height))
        if count:
            rows.append(_number(f"{count:,}", middle, _FLOOR - height - 5))
        if step > 26 or position % 2 == 0:
            shown = name if step > 32 or len(name) < 4 else name.partition("–")[0]
            rows.append(_number(shown, middle, _FLOOR + 16, "awm-axis"))
    told = "; ".join(f"{name}: {count} {unit}" for name, count in bins)
    return _figure(f"{title} ({unit})", told, _HEIGHT, rows)


def _column(x: float, width: float, height: float) -> Markup:
    top = f"{_FLOOR - height:.1f}"
    return element("rect", class_="awm-bar", x=f"{x:.1f}", y=top, width=f"{width:.1f}", height=f"{height:.1f}", rx=2)


def _number(words: str, x: float, y: float, kind: str | None = None) -> Markup:
    return element("text", words, class_=kind, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor="middle")


def _figure(title: str, told: str, height: int, rows: Sequence[Markup]) -> Markup:
    svg = element(
        "svg", element("title", title), element("desc", told), joined(rows),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH} {height}", role="img",
    )  # fmt: skip
    return element("figure", element("figcaption", title), svg, class_="awm-plot")
