"""The figures of a run as a picture: bars of pass@1 in one SVG, made without any library."""

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from awm_hub.errors import UsageError
from awm_hub.rollouts.measures import Measure

_BAR, _ROW, _GAP = 380, 22, 8
_CHAR, _WIDE_CHAR = 8, 14
"""Room for a character of 13 px: above the mean of common sans-serif fonts, and a full square."""
_STYLE = "text{font:13px sans-serif;fill:#222}rect.track{fill:#e8e8e8}rect.bar{fill:#2f6fab}"


def chart(measures: Sequence[Measure], *, title: str = "pass@1") -> str:
    """An SVG with one bar for each measure, and its figure beside it. The longest texts decide how wide it is."""
    height = _ROW * (len(measures) + 2)
    left = _widest(m.name for m in measures) + 2 * _GAP
    width = left + max(_BAR + 2 * _GAP + _widest(map(_told, measures)), _widest([title]) + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="{_ROW}" font-weight="bold">{escape(title)}</text>',
        *(_bar(m, position, left) for position, m in enumerate(measures)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def write_chart(measures: Sequence[Measure], path: Path, *, title: str = "pass@1") -> None:
    """Write the SVG to a file.

    Raises:
        UsageError: the file's name does not end with `.svg`.
    """
    check_chart_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(chart(measures, title=title), encoding="utf-8", newline="\n")


def check_chart_path(path: Path) -> None:
    """See that a file's name says what a chart is.

    Raises:
        UsageError: it does not end with `.svg`.
    """
    if path.suffix.lower() != ".svg":
        step = f"for instance {path.with_suffix('.svg').name}" if path.name else "for instance plot.svg"
        raise UsageError(f"a plot is an SVG, and {str(path)!r} does not end with .svg", next_step=step)


def _bar(measure: Measure, position: int, left: int) -> str:
    top, share = _ROW * (position + 1) + 6, measure.pass_at_1
    return (
        f'<text x="{left - _GAP}" y="{top + 13}" text-anchor="end">{escape(measure.name)}</text>'
        f'<rect class="track" x="{left}" y="{top}" width="{_BAR}" height="16"/>'
        f'<rect class="bar" x="{left}" y="{top}" width="{_BAR * (share or 0):.1f}" height="16"/>'
        f'<text x="{left + _BAR + _GAP}" y="{top + 13}">{_told(measure)}</text>'
    )


def _told(measure: Measure) -> str:
    share = measure.pass_at_1
    return "not scored" if share is None else f"{100 * share:.1f} % of {measure.scored}"


def _widest(texts: Iterable[str]) -> int:
    """Room for the longest of some texts."""
    return max(
        (sum(_WIDE_CHAR if unicodedata.east_asian_width(c) in "WF" else _CHAR for c in t) for t in texts), default=0
    )
