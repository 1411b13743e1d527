"""`awm-hub new NAME`: a small, complete source folder to start from.

The files lie in `starter/` beside this module: two tables, three tools, two tasks with solutions and `signals`
verifiers. They pack and pass as they are, and their comments say what to change.
"""

import os
import re
from importlib import resources
from pathlib import Path

from awm_hub import schema
from awm_hub.errors import UsageError

FILES = ("scenario.toml", "schema.sql", "seed.sql", "tools.py", "tasks.toml", "verifiers.py")
_TITLE = "Plant Care"
"""Title of the starter, replaced by the new one."""


def scaffold(folder: str | os.PathLike[str]) -> Path:
    """Write a new source folder; its last part is the environment's id.

    Returns:
        The folder.

    Raises:
        UsageError: the name is no id, or something of that name exists.
    """
    path = Path(folder)
    name = path.name
    if not schema.ID_PATTERN.fullmatch(name) or name in schema.RESERVED_IDS:
        better = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:62] or "my_environment"
        better += "_1" if better in schema.RESERVED_IDS else ""
        step = f"a-z, 0-9 and _, at most 64 characters; for example {better!r}"
        raise UsageError(f"{name!r} cannot be the id of an environment", next_step=step)
    if path.exists():
        raise UsageError(f"{folder} exists", next_step="choose another name, or move it away")
    path.mkdir(parents=True)
    for file in FILES:
        text = (resources.files("awm_hub.packing") / "starter" / file).read_text(encoding="utf-8")
        if file == "scenario.toml":
            text = text.replace(_TITLE, name.replace("_", " ").strip().title() or name)
        (path / file).write_text(text, encoding="utf-8", newline="\n")
    return path
