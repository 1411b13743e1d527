"""Hostile text in every string of a record, and what a page and a terminal must never hold."""

import re
from html.parser import HTMLParser
from typing import Any

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)>{{7*7}}{% x %}\n---\n| a | b |\n"
    "'\"> javascript:alert(1) ]]> --> </style></pre></title> "
    "\x1b]0;owned\x07\x1b[2J \u202egnp.exe \u2028\x85\x00 \ud800 &lt;"
)
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that act on a terminal or reorder what is read."""

TAGS = {
    "html", "head", "meta", "title", "style", "body", "nav", "main", "section", "details", "summary", "div", "p",
    "span", "h1", "h2", "h3", "h4", "h5", "h6", "a", "dl", "dt", "dd", "pre", "table", "caption", "thead", "tbody",
    "tr", "th", "td", "ins", "del",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "href", "aria-label", "dir", "tabindex", "role",
    "scope",
}  # fmt: skip


def planted(value: Any, kept: tuple[str, ...] = ()) -> Any:
    """A JSON value with the hostile text before every string, names of objects apart, and fields `kept` as they are."""
    if isinstance(value, str):
        return HOSTILE + value
    if isinstance(value, list):
        return [planted(v, kept) for v in value]
    if isinstance(value, dict):
        return {k: v if k in kept else planted(v, kept) for k, v in value.items()}
    return value


class Page(HTMLParser):
    """A page as a browser reads it: its tags, attributes and texts."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    @property
    def text(self) -> str:
        """All text."""
        return "".join(self.texts)

    def values(self, name: str) -> list[str]:
        """Values of one attribute."""
        return [value for found, value in self.attributes if found == name]


def check_page(html: str) -> Page:
    """See that a page holds nothing but elements of ours."""
    page = Page(html)
    assert set(page.tags) <= TAGS
    assert {name for name, _ in page.attributes} <= ATTRIBUTES
    assert all(link.startswith("./") for link in page.values("href"))
    assert page.tags.count("style") == page.tags.count("title") == 1
    assert ACTING.findall(html) == []
    return page
