"""Opinions kept by the content that they were formed on, in memory and, if asked, in a folder.

The key is a hash of everything that a request says but for its boundary. Once an opinion is kept, an equal attempt
costs no request, and neither does judging a stored run again.
"""

import json
import os
from collections import OrderedDict
from pathlib import Path

from awm_hub.canonical import to_json
from awm_hub.judging.opinions import Opinion

_MAX_IN_MEMORY = 4096


class KeptOpinions:
    """A cache.

    Args:
        folder: Where opinions are kept beyond this process, one file each; None keeps them in memory alone.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._memory: OrderedDict[str, Opinion] = OrderedDict()

    def get(self, key: str) -> Opinion | None:
        """The opinion of this key; a file that cannot be read counts as none."""
        if key not in self._memory and self._folder is not None:
            try:
                found = Opinion.from_dict(json.loads((self._folder / f"{key}.json").read_bytes()))
            except (OSError, ValueError):
                return None
            self._remember(key, found)
        return self._memory.get(key)

    def keep(self, key: str, opinion: Opinion) -> None:
        """Keep an opinion; its file appears whole or not at all."""
        self._remember(key, opinion)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            place = self._folder / f".{key}.{os.getpid()}.tmp"
            place.write_text(to_json(opinion.to_dict()), encoding="utf-8")
            os.replace(place, self._folder / f"{key}.json")

    def _remember(self, key: str, opinion: Opinion) -> None:
        self._memory[key] = opinion
        self._memory.move_to_end(key)
        while len(self._memory) > _MAX_IN_MEMORY:
            self._memory.popitem(last=False)
