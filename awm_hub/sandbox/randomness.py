"""Seeded randomness: every source that Python or SQL code reaches is reset before each call from (seed, call number).

Nothing carries over from call to call, so an instance's random state is the number of calls it has had: snapshots and
rebuilt instances need no generator state.
"""

import os
import random
import sqlite3
import uuid
from typing import Any


def seed_call(seed: int, calls_count: int) -> None:
    """Seed everything for one call."""
    random.seed(f"{seed}:{calls_count}")


def install() -> None:
    """Route the system's entropy in this process through the seeded generator: `os.urandom`, `secrets`, `uuid`."""
    os.urandom = random.randbytes
    random._urandom = random.randbytes  # type: ignore[attr-defined]
    patched: Any = uuid
    patched._generate_time_safe = None
    patched._UuidCreate = None
    patched._node = 0x02_00_00_00_00_01
    patched._last_timestamp = None


def bind(db: sqlite3.Connection) -> None:
    """Give a connection seeded `random()` and `randomblob()`."""
    db.create_function("random", 0, lambda: random.getrandbits(64) - 2**63)
    db.create_function("randomblob", 1, lambda size: random.randbytes(max(1, min(int(size or 1), 10**6))))
