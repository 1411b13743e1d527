"""Where a visitor is, and the address that says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlencode


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a visitor looks at."""

    dataset: str | None = None
    """None: the playground's own."""
    environment: str | None = None
    task: str | None = None
    """The last part of its id."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """From an address's query."""
        found = {name: query.get(key) or None for name, key in _KEYS.items()}
        return cls(**found)

    @property
    def query(self) -> str:
        """For an address, with its question mark; empty at the beginning."""
        found = {key: value for name, key in _KEYS.items() if (value := getattr(self, name)) is not None}
        return f"?{urlencode(found)}" if found else ""


_KEYS = {"dataset": "dataset", "environment": "env", "task": "task"}
