"""Pictures of the experiment as SVG, made without any library: bars with intervals, and curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_STYLE = (
    "text{font:13px sans-serif;fill:#222}.small{font-size:11px;fill:#666}.page{fill:#fff}.track{fill:#eee}"
    ".light{fill:#9dbfdd}.dark{fill:#2f6fab}.mark{stroke:#222;stroke-width:1.5}.dot{fill:#fff;stroke:#222}"
    ".seed{fill:none;stroke:#9dbfdd;stroke-width:1}.mean{fill:none;stroke:#2f6fab;stroke-width:2.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.small{fill:#a0a0a0}.page{fill:#0d1117}.track{fill:#262c36}"
    ".light{fill:#3d5f80}.dark{fill:#5fa3e0}.mark,.dot{stroke:#f0f0f0}.dot{fill:#0d1117}.seed{stroke:#4d739a}"
    ".mean{stroke:#7db8ee}}"
)
_BAR, _ROW, _LEFT, _GROUP = 360, 24, 190, 26
_WIDTH, _HEIGHT, _MARGIN, _BETWEEN = 320, 150, 44, 56
_SMOOTH = 5
"""Steps of a moving mean."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A share with its interval, and the shares of the seeds."""

    group: str
    name: str
    share: float
    interval: tuple[float, float]
    points: tuple[float, ...] = ()
    is_dark: bool = False


@dataclass(frozen=True, kw_only=True)
class Curve:
    """How a figure went, step by step, for each seed."""

    title: str
    bounds: tuple[float, float]
    lines: tuple[tuple[float, ...], ...]


def bars(found: Sequence[Bar], *, title: str) -> str:
    """Bars under the names of their groups; dots are seeds, the thin line is the interval."""
    parts, top, group = [], _ROW + 10, None
    for bar in found:
        if bar.group != group:
            group = bar.group
            top += _GROUP
            parts.append(f'<text x="8" y="{top - 6}" font-weight="bold">{escape(group)}</text>')
        parts.append(_bar(bar, top))
        top += _ROW
    legend = "dots: seeds; line: interval over all attempts"
    parts.append(f'<text class="small" x="{_LEFT}" y="{top + 18}">{legend}</text>')
    return _svg(_LEFT + _BAR + 70, top + 30, title, parts)


def curves(found: Sequence[Curve]) -> str:
    """Curves, two in a row: thin lines are seeds, the thick one is their mean, all smoothed over a few steps."""
    parts = []
    for number, curve in enumerate(found):
        row, column = divmod(number, 2)
        parts += _curve(curve, _MARGIN + column * (_WIDTH + 2 * _MARGIN), 40 + row * (_HEIGHT + _BETWEEN))
    rows = (len(found) + 1) // 2
    legend = f"thin: seeds; thick: their mean; each point is the mean of the last {_SMOOTH} steps"
    height = 40 + rows * (_HEIGHT + _BETWEEN)
    parts.append(f'<text class="small" x="{_MARGIN}" y="{height - 4}">{legend}</text>')
    return _svg(2 * (_WIDTH + 2 * _MARGIN), height + 10, "The rollouts of training, step by step", parts)


def _bar(bar: Bar, top: int) -> str:
    low, high = (_LEFT + _BAR * bound for bound in bar.interval)
    middle = top + 8
    kind = "dark" if bar.is_dark else "light"
    dots = "".join(f'<circle class="dot" cx="{_LEFT + _BAR * p:.1f}" cy="{middle}" r="3"/>' for p in bar.points)
    return (
        f'<text x="{_LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(bar.name)}</text>'
        f'<rect class="track" x="{_LEFT}" y="{top}" width="{_BAR}" height="16"/>'
        f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{_BAR * bar.share:.1f}" height="16"/>'
        f'<line class="mark" x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}"/>{dots}'
        f'<text x="{_LEFT + _BAR + 8}" y="{top + 13}">{100 * bar.share:.0f} %</text>'
    )


def _curve(curve: Curve, left: int, top: int) -> list[str]:
    low, high = curve.bounds
    steps = max((len(line) for line in curve.lines), default=1)
    parts = [
        f'<text x="{left}" y="{top + 4}" font-weight="bold">{escape(curve.title)}</text>',
        f'<rect class="track" x="{left}" y="{top + 14}" width="{_WIDTH}" height="{_HEIGHT}"/>',
    ]
    for value in (low, (low + high) / 2, high):
        y = _y(value, curve.bounds, top)
        parts.append(f'<text class="small" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    smoothed = [_smoothed(line) for line in curve.lines]
    parts += [_line(line, "seed", curve.bounds, left, top, steps) for line in smoothed]
    if smoothed and len({len(line) for line in smoothed}) == 1:
        mean = [sum(values) / len(values) for values in zip(*smoothed, strict=True)]
        parts.append(_line(mean, "mean", curve.bounds, left, top, steps))
    under = top + 14 + _HEIGHT + 16
    parts.append(f'<text class="small" x="{left + _WIDTH}" y="{under}" text-anchor="end">step {steps}</text>')
    return parts


def _line(values: Sequence[float], kind: str, bounds: tuple[float, float], left: int, top: int, steps: int) -> str:
    width = _WIDTH / max(steps - 1, 1)
    points = " ".join(f"{left + width * i:.1f},{_y(value, bounds, top):.1f}" for i, value in enumerate(values))
    return f'<polyline class="{kind}" points="{points}"/>'


def _y(value: float, bounds: tuple[float, float], top: int) -> float:
    low, high = bounds
    return top + 14 + _HEIGHT * (1 - (min(max(value, low), high) - low) / (high - low))


def _smoothed(values: Sequence[float]) -> list[float]:
    """Means over the last few steps."""
    kept = [values[max(0, end - _SMOOTH) : end] for end in range(1, len(values) + 1)]
    return [sum(part) / len(part) for part in kept]


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" class="page"/>',
        f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
