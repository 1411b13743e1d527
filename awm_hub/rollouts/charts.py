"""The figures of a run as a picture: bars of pass@1 in one SVG, made without any library."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from awm_hub.rollouts.measures import Measure

_WIDTH, _NAMES, _BAR, _ROW = 760, 300, 380, 22
_STYLE = "text{font:13px sans-serif;fill:#222}rect.track{fill:#e8e8e8}rect.bar{fill:#2f6fab}"


def chart(measures: Sequence[Measure], *, title: str = "pass@1") -> str:
    """An SVG with one bar for each measure, and its figure beside it."""
    height = _ROW * (len(measures) + 2)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{_NAMES}" y="{_ROW}" font-weight="bold">{escape(title)}</text>',
        *(_bar(m, position) for position, m in enumerate(measures)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def write_chart(measures: Sequence[Measure], path: Path, *, title: str = "pass@1") -> None:
    """Write the SVG to a file."""
    path.write_text(chart(measures, title=title), encoding="utf-8", newline="\n")


def _bar(measure: Measure, position: int) -> str:
    top, share = _ROW * (position + 1) + 6, measure.pass_at_1
    told = "not scored" if share is None else f"{100 * share:.1f} % of {measure.scored}"
    return (
        f'<text x="{_NAMES - 8}" y="{top + 13}" text-anchor="end">{escape(measure.name)}</text>'
        f'<rect class="track" x="{_NAMES}" y="{top}" width="{_BAR}" height="16"/>'
        f'<rect class="bar" x="{_NAMES}" y="{top}" width="{_BAR * (share or 0):.1f}" height="16"/>'
        f'<text x="{_NAMES + _BAR + 8}" y="{top + 13}">{told}</text>'
    )
