"""Datasets to read and to damage, and a Hub on a loopback port that serves one."""

import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from awm_hub import packing
from awm_hub.environment import Environment

TRAIN = "environments/train-00000-of-00001.parquet"
"""The shard that holds the `train` split of every dataset here."""


@pytest.fixture
def dataset(notes_dataset: Path, tmp_path: Path) -> Path:
    """A copy of the `notes` dataset."""
    return Path(shutil.copytree(notes_dataset, tmp_path / "dataset"))


@pytest.fixture
def written(renamed: Callable[..., Environment], tmp_path: Path) -> Callable[..., Path]:
    """Writes a dataset of environments like `notes` under these ids."""

    def write(*names: str) -> Path:
        packing.write_dataset([renamed(n) for n in names], tmp_path / "written")
        return tmp_path / "written"

    return write


@pytest.fixture
def one_file(notes_dataset: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes one Parquet file like that of `notes`, its table changed by a function, its values by name."""

    def write(change: Callable[[pa.Table], pa.Table] = lambda t: t, **values: object) -> Path:
        table = pq.read_table(notes_dataset / TRAIN)
        for name, value in values.items():
            field = table.schema.field(name)
            table = table.set_column(table.schema.get_field_index(name), field, pa.array([value], field.type))
        path = tmp_path / "one.parquet"
        pq.write_table(change(table), path)
        return path

    return write


class LoopbackHub:
    """Serves one dataset repo; every `commit` of a folder is a new revision, the newest one is `main`."""

    def __init__(self, repo_id: str) -> None:
        self.repo_id = repo_id
        self.revisions: dict[str, dict[str, bytes]] = {}
        self.url = ""

    def commit(self, folder: Path) -> str:
        """Make a revision of a folder's files and return its commit id."""
        files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.revisions[commit] = files
        return commit

    def resolve(self, revision: str) -> str | None:
        """The commit that a revision stands for."""
        if revision == "main":
            return list(self.revisions)[-1]
        return revision if revision in self.revisions else None

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve until the end of the block; gives the URL."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LoopbackHub

    def log_message(self, *_: object) -> None:
        """Keep the test's output quiet."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "datasets"]:
            self._answer("/".join(parts[2:4]), parts[5] if len(parts) > 5 else "main", None)
        elif parts[0] == "datasets" and parts[3] == "resolve":
            self._answer("/".join(parts[1:3]), parts[4], "/".join(parts[5:]))
        else:
            self._send(404, b"{}")

    def _answer(self, repo_id: str, revision: str, file: str | None) -> None:
        commit = self.hub.resolve(revision)
        if repo_id != self.hub.repo_id:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif commit is None:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif file is None:
            names = ",".join(f'{{"rfilename":"{name}"}}' for name in self.hub.revisions[commit])
            body = f'{{"id":"{repo_id}","sha":"{commit}","siblings":[{names}]}}'
            self._send(200, body.encode(), {"Content-Type": "application/json"})
        elif file not in self.hub.revisions[commit]:
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        else:
            data = self.hub.revisions[commit][file]
            tag = hashlib.sha256(data).hexdigest()
            self._send(200, data, {"X-Repo-Commit": commit, "ETag": f'"{tag}"'})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def loopback(written: Callable[..., Path]) -> Iterator[LoopbackHub]:
    """A Hub with one revision of the dataset `awm/envs-1k`."""
    hub = LoopbackHub("awm/envs-1k")
    hub.commit(written("a_1", "garden_1"))
    with hub.serving() as url:
        hub.url = url
        yield hub
