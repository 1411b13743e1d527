"""HTML and SVG by construction: an element takes texts and elements, and every text is escaped.

Texts of a dataset are hostile. None of them ever becomes the name of a tag or an attribute, and what could act on a
reader (control characters, direction marks) is shown as an escape. Links lead to addresses of the playground itself.
"""

import re
from collections.abc import Iterable
from html import escape

from awm_hub.safetext import clean, clean_line

_NOT_XML = re.compile("[\ufffe\uffff]")
_BOOLEAN = ("open",)


class Markup(str):
    """HTML or SVG that this module made."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: object) -> Markup:
    """An element; children that are no `Markup` are text, attribute values always are.

    Args:
        tag: A name that is written in our code.
        children: Elements and texts.
        attributes: By name, `_` for `-`, a closing `_` for names that Python keeps; None and False are left out.
    """
    pairs = "".join(_attribute(name, value) for name, value in attributes.items())
    inner = "".join(child if isinstance(child, Markup) else text(child) for child in children)
    return Markup(f"<{tag}{pairs}>{inner}</{tag}>")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    key = name.rstrip("_").replace("_", "-")
    return f" {key}" if value is True and key in _BOOLEAN else f' {key}="{text(str(value))}"'


def joined(parts: Iterable[Markup], between: str = "") -> Markup:
    """Elements, one after the other, with a text in between."""
    return Markup(text(between).join(parts))


def text(value: str) -> Markup:
    """Untrusted text, over several lines."""
    return Markup(escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", clean(value))))


def line(value: object, width: int | None = None) -> str:
    """Untrusted text on one line, cut to a width; not yet escaped, which an element does."""
    return clean_line(str(value), width)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number and its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
