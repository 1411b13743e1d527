"""Plots of a card: bars in SVG files of a few kilobytes, made without any library.

They stand on white, so that they read the same on a light and on a dark page.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from awm_hub.safetext import clean_line

_WIDTH, _NAMES, _BAR, _ROW = 760, 250, 400, 24
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2933}.title{font-weight:600;font-size:15px}"
    ".track{fill:#edf0f3}.bar{fill:#2f6fab}"
)
_NOT_XML = re.compile("[\ufffe\uffff]")


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar; `share` of the track is filled."""

    name: str
    share: float
    told: str
    """The figure, beside the bar."""


def counts(named: Sequence[tuple[str, int]]) -> list[Bar]:
    """Bars for counts, the longest one full."""
    most = max((count for _, count in named), default=0) or 1
    return [Bar(name=name, share=count / most, told=f"{count:,}") for name, count in named]


def chart(title: str, bars: Sequence[Bar]) -> str:
    """An SVG of bars under a title."""
    height = _ROW * (len(bars) + 2)
    heading = _text(title, 80)
    told = "; ".join(f"{_text(b.name)}: {_text(b.told)}" for b in bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        ' role="img">',
        f"<title>{heading}</title><desc>{told}</desc><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" rx="6" fill="#fff"/>',
        f'<text class="title" x="16" y="{_ROW + 2}">{heading}</text>',
        *(_bar(bar, _ROW * (position + 1) + 14) for position, bar in enumerate(bars)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _bar(bar: Bar, top: int) -> str:
    return (
        f'<text x="{_NAMES - 10}" y="{top + 13}" text-anchor="end">{_text(bar.name)}</text>'
        f'<rect class="track" x="{_NAMES}" y="{top}" width="{_BAR}" height="17" rx="2"/>'
        f'<rect class="bar" x="{_NAMES}" y="{top}" width="{_BAR * bar.share:.1f}" height="17" rx="2"/>'
        f'<text x="{_NAMES + _BAR + 10}" y="{top + 13}">{_text(bar.told)}</text>'
    )


def _text(value: str, width: int = 32) -> str:
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", clean_line(value, width)))
