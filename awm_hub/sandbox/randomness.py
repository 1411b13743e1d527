"""Seeded randomness: every source that Python or SQL code reaches is reset before each call from (seed, call number).

Nothing carries over from call to call, so an instance's random state is the number of calls it has had: snapshots and
rebuilt instances need no generator state.
"""

import os
import random
import sqlite3
import uuid
from typing import Any

_uuid: Any = uuid
_random: Any = random
_seed = random.Random.seed


def seed_call(seed: int, calls_count: int) -> None:
    """Seed everything for one call."""
    random.seed(f"{seed}:{calls_count}")
    _uuid._last_timestamp = None


def install() -> None:
    """Route the system's entropy in this process through the seeded generator: `os.urandom`, `secrets`, `uuid`."""
    os.urandom = _random._urandom = random.randbytes
    _uuid._generate_time_safe = None
    _uuid._UuidCreate = None
    _uuid._node = 0x02_00_00_00_00_01
    _random.Random.seed = _seed_from_here
    _random.seed = _random._inst.seed


def _seed_from_here(generator: random.Random, a: Any = None, version: int = 2) -> None:
    """Seed a generator; one that would take the system's entropy takes it from the call's generator."""
    _seed(generator, random.getrandbits(256) if a is None else a, version)


def bind(db: sqlite3.Connection) -> None:
    """Give a connection seeded `random()` and `randomblob()`."""
    db.create_function("random", 0, lambda: random.getrandbits(64) - 2**63)
    db.create_function("randomblob", 1, lambda size: random.randbytes(max(1, min(int(size or 1), 10**6))))
