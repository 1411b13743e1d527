"""Prompts: Markdown files with gaps that are filled.

A stage's instruction is `prompts/<name>.md`, so that it reads and changes as prose. A gap is `{{key}}`. What fills one
is never searched for gaps itself, since it may be text that a model wrote; a key without a gap, or a gap without a key,
is a mistake of ours and raises.
"""

import datetime as dt
import functools
import importlib.resources
import re

_GAP = re.compile(r"\{\{([a-z_]+)\}\}")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def fill(name: str, /, **values: str) -> str:
    """A prompt with its gaps filled.

    Args:
        name: Of the file in `prompts`, without `.md`.
        **values: The text of each gap, by its key.

    Raises:
        KeyError: the file's gaps and the keys are not the same, or there is no such file.
    """
    text = _read(name)
    gaps = set(_GAP.findall(text))
    if gaps != values.keys():
        unfilled, unknown = sorted(gaps - values.keys()), sorted(values.keys() - gaps)
        raise KeyError(f"prompts/{name}.md: gaps without a value: {unfilled}; values without a gap: {unknown}")
    return _GAP.sub(lambda found: values[found[1]], text)


def clock_text(clock: dt.datetime) -> str:
    """A moment as prompts name it: `2026-06-01 08:00 (a Monday)`."""
    return f"{clock:%Y-%m-%d %H:%M} (a {_WEEKDAYS[clock.weekday()]})"


@functools.cache
def _read(name: str) -> str:
    file = importlib.resources.files("awm_hub.synthesis") / "prompts" / f"{name}.md"
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise KeyError(f"there is no prompts/{name}.md") from None
