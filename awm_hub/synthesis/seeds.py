"""Seeds: names of applications, from a file or from a model, and the ids that environments get from them.

A seed file has one on each line, `Name` or `Name: what is known of it`; empty lines and lines that begin with `#` say
nothing. `domains.txt` beside this module is one. Names are the same if they differ in case and spaces alone.
"""

import importlib.resources
import os
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from awm_hub.errors import DataError
from awm_hub.schema import RESERVED_IDS

MAX_NAME = 200
"""Characters."""
MAX_OUTLINE = 2_000
_MAX_SLUG = 60
_NEXT_STEP = "give a UTF-8 text file with one `Name` or `Name: what is known of it` on a line"


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A scenario to be: a name, and what is known of it."""

    name: str
    outline: str = ""


def read_seeds(path: str | os.PathLike[str]) -> list[Seed]:
    """The seeds of a file.

    Raises:
        DataError: it cannot be read, is no such text, holds no name, or one name twice.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", next_step=_NEXT_STEP) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is no UTF-8 text: {error.reason} at byte {error.start}", next_step=_NEXT_STEP
        ) from error
    return _seeds_in(text, str(path))


def default_seeds() -> list[Seed]:
    """The hundred seeds that the package carries."""
    file = importlib.resources.files("awm_hub.synthesis").joinpath("domains.txt")
    return _seeds_in(file.read_text(encoding="utf-8"), "domains.txt")


def complaint_about(name: str, outline: str) -> str:
    """Why these make no seed; empty if they do. Both are one line."""
    if not any(character.isalpha() for character in name):
        return "the name has no letter"
    if len(name) > MAX_NAME:
        return f"the name has {len(name)} characters, at most {MAX_NAME} are allowed"
    if len(outline) > MAX_OUTLINE:
        return f"the outline has {len(outline)} characters, at most {MAX_OUTLINE} are allowed"
    if not (name.isprintable() and outline.isprintable()):
        return "it has characters that cannot be printed"
    return ""


def one_line(text: str) -> str:
    """The text with every run of white space as one space."""
    return " ".join(text.split())


def key_of(name: str) -> str:
    """What two spellings of one name have in common."""
    return one_line(unicodedata.normalize("NFKC", name)).casefold()


def free_id(name: str, taken: Collection[str]) -> str:
    """An environment's id: `marina_berth_management_1`, with the first number that is free."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:_MAX_SLUG].rstrip("_") or "scenario"
    ids = (f"{slug}_{number}" for number in count(1))
    return next(found for found in ids if found not in taken and found not in RESERVED_IDS)


def _seeds_in(text: str, place: str) -> list[Seed]:
    found: list[Seed] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, *rest = re.split(r":(?:\s+|$)", line.strip(), maxsplit=1)
        seed = Seed(name=one_line(name), outline=one_line("".join(rest)))
        if complaint := complaint_about(seed.name, seed.outline):
            raise DataError(f"{place}, line {number}: {complaint}", next_step=_NEXT_STEP)
        first = lines.setdefault(key_of(seed.name), number)
        if first != number:
            message = f"{place}, line {number}: {seed.name!r} stands on line {first} already"
            raise DataError(message, next_step="give each name once")
        found.append(seed)
    if not found:
        raise DataError(f"{place} holds no name", next_step=_NEXT_STEP)
    return found
