"""Running a verifier inside a one-shot sealed fork.

A verifier is called by the names of its parameters. `initial` and `final` are read-only connections with named rows,
`changes` is the state difference (`changes["loans"].added` or, as the JSON it is, `changes["loans"]["added"]`);
upstream's verifiers ask for `initial_db_path`, `final_db_path` and `final_answer` and open the paths themselves.
Those paths lead to named in-memory databases, so that several connections, `mode=ro` and ATTACH work as they do on
files, and to nothing else.
"""

import functools
import inspect
import json
import os
import re
import sqlite3
import types
from typing import Any

from awm_hub.sandbox.clock import FrozenClock
from awm_hub.sandbox.database import open_read_only
from awm_hub.sandbox.results import encode

FILENAME = "<verifier>"
_PATHS = {"initial_db_path": "/awm/initial.db", "final_db_path": "/awm/final.db"}
_MAX_RESULT_BYTES = 4 * 2**20
_connect = sqlite3.connect


class _Record(dict[str, Any]):
    """A JSON object whose keys can be read as attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class _Table(_Record):
    """Rows of one table that differ: `added`, `removed`, `changed` (each with `key`, `before`, `after`)."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(found)
        self["changed"] = [_Record(change) for change in found["changed"]]


class _Changes(dict[str, _Table]):
    """The state difference in JSON form; a table that did not change reads as an empty one."""

    def __missing__(self, name: str) -> _Table:
        return _Table({"added": [], "removed": [], "changed": []})

    @property
    def tables(self) -> "_Changes":
        """The tables that changed."""
        return self


class _VerifierConnection(sqlite3.Connection):
    """A connection that finds the named databases in ATTACH too."""

    def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
        """Run one statement."""
        return super().execute(_with_names(sql), *(_attached(part) for part in rest))


def run(request: dict[str, Any], clock: FrozenClock) -> str:
    """Call the verifier; its result as JSON.

    Raises:
        LookupError: the code does not define the function.
        TypeError: the function asks for something unknown, or its result has no JSON form.
    """
    module = types.ModuleType("awm_verifier")
    _serve_paths({name: request[name.removesuffix("_db_path")] for name in _PATHS})
    offered: dict[str, Any] = {
        **_PATHS,
        "initial": open_read_only(request["initial"], clock),
        "final": open_read_only(request["final"], clock),
        "changes": _Changes({name: _Table(table) for name, table in json.loads(request["changes"]).items()}),
        "final_answer": request["answer"],
        "answer": request["answer"],
    }
    exec(_compiled(request["code"]), module.__dict__)
    function = vars(module).get(request["function"])
    if not callable(function):
        raise LookupError(f"the verifier code defines no function {request['function']!r}")
    parameters = inspect.signature(function).parameters.values()
    unknown = [p.name for p in parameters if p.name not in offered and p.default is p.empty]
    if unknown:
        raise TypeError(f"{request['function']} asks for {', '.join(unknown)}, which a verifier is not given")
    result = function(**{p.name: offered[p.name] for p in parameters if p.name in offered})
    return encode(result, _MAX_RESULT_BYTES)


@functools.lru_cache(maxsize=4)
def _compiled(code: str) -> types.CodeType:
    return compile(code, FILENAME, "exec")


def _serve_paths(images: dict[str, bytes]) -> None:
    """Fill the named databases, and let `sqlite3.connect` and `os.path` know their paths."""
    global _run
    _run += 1
    _KEPT.clear()
    for name, image in images.items():
        source = _connect(":memory:")
        source.deserialize(image)
        kept = _connect(_uri(_PATHS[name]), uri=True)
        source.backup(kept)
        source.close()
        _KEPT.append(kept)
    if sqlite3.connect is _open:
        return
    sqlite3.connect = sqlite3.dbapi2.connect = _open  # type: ignore[assignment]
    exists = os.path.exists
    for function in ("exists", "isfile"):
        setattr(os.path, function, lambda path: str(path) in _PATHS.values() or exists(path))


_KEPT: list[sqlite3.Connection] = []
"""A named in-memory database lives as long as one connection to it."""
_run = 0
"""Part of the names: a verifier may leave statements open on its databases, so the next one gets others."""


def _uri(path: str, mode: str = "rw") -> str:
    return f"file:{path}-{_run}?vfs=memdb&mode={mode}"


def _open(database: Any, *rest: Any, **options: Any) -> sqlite3.Connection:
    path = os.fsdecode(database)
    known = next((p for p in _PATHS.values() if p in path), None)
    if known is None and path not in ("", ":memory:"):
        raise sqlite3.OperationalError(f"unable to open database file {path!r}: a verifier has no file system")
    options = {"factory": _VerifierConnection, **options, "uri": True}
    db: sqlite3.Connection = _connect(_uri(known) if known else ":memory:", *rest, **options)
    if known:
        db.execute("PRAGMA query_only = ON")
    return db


def _with_names(sql: str) -> str:
    if not re.match(r"\s*attach\b", sql, re.IGNORECASE):
        return sql
    for path in _PATHS.values():
        sql = re.sub(rf"(['\"])(?:file:)?{re.escape(path)}(?:\?[^'\"]*)?\1", f"'{_uri(path)}'", sql)
    return sql


def _attached(parameters: Any) -> Any:
    if isinstance(parameters, tuple | list):
        return [_uri(p) if isinstance(p, str) and p in _PATHS.values() else p for p in parameters]
    return parameters
