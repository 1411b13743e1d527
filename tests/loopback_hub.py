"""A Hub on a loopback port, for the real `huggingface_hub` and `datasets` to talk to over HTTP.

It keeps repos of all three types in memory: commits with regular and LFS files, branches, tags, pull-request refs,
listings, range reads (LFS files behind a redirect, as on the Hub), and the settings of Spaces. Every request is kept
with its bytes, so that a test can say what something cost; `interrupt` makes requests fail.

The client reads its settings when it is imported. Either run it in a process with `hub.environ(home)`, or set that
environment before the first import. On its own: `python tests/loopback_hub.py [FOLDER NAMESPACE/NAME …]`.
"""

import asyncio
import dataclasses
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from loopback_answers import TOKEN, USER, Answering, Failure
from loopback_repos import LFS_SUFFIXES, Blob, Commit, Repo
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

__all__ = ["TOKEN", "USER", "Blob", "Commit", "LoopbackHub", "Repo", "Traffic", "loopback_hub"]


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """One request."""

    method: str
    path: str
    status: int
    received: int
    """Bytes of the request's body."""
    sent: int
    """Bytes of the answer's body."""
    range: str | None
    file: str | None
    """Path in its repo, for the content of a file."""


class LoopbackHub:
    """The repos and the traffic; `serving` opens the port."""

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], Repo] = {}
        self.objects: dict[str, bytes] = {}
        """Uploaded LFS objects by SHA-256."""
        self.traffic: list[Traffic] = []
        self.interrupt: Callable[[str, str], bool] = lambda method, path: False
        """Called before each request; true makes it fail with 503 without doing anything."""
        self.url = ""

    def create(self, repo_id: str, type: str = "dataset") -> Repo:
        """A new repo with one commit, as the Hub makes them."""
        repo = Repo(type=type, id=repo_id)
        repo.commit("initial commit", {".gitattributes": Blob(data=b"*.parquet filter=lfs\n")})
        self.repos[type, repo_id] = repo
        return repo

    def repo(self, repo_id: str, type: str = "dataset") -> Repo:
        """A repo that exists."""
        return self.repos[type, repo_id]

    def commit_folder(self, folder: Path, repo_id: str, type: str = "dataset", title: str = "files") -> str:
        """Make a folder's files the state of `main`, without HTTP, and return the commit's id."""
        repo = self.repos.get((type, repo_id)) or self.create(repo_id, type)
        files = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
        blobs = {n: Blob(data=p.read_bytes(), is_lfs=n.endswith(LFS_SUFFIXES)) for n, p in files.items()}
        return repo.commit(title, blobs).id

    def environ(self, home: Path) -> dict[str, str]:
        """Environment variables for a process that is to use this Hub."""
        return {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": TOKEN}

    def sent(self, file: str | None = None) -> int:
        """Bytes that went to clients; only those of files whose path holds `file`, where given (`""`: of all files)."""
        return sum(t.sent for t in self.traffic if file is None or (t.file is not None and file in t.file))

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[str]:
        """Serve until the end of the block; gives the URL."""
        # Without the protocol's number asyncio does not set TCP_NODELAY, and answers wait for 40 ms.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.listen(128)
        settings = uvicorn.Config(
            self._application, interface="asgi3", log_level="error", lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
        thread.start()
        try:
            yield self.url
        finally:
            server.should_exit = True
            thread.join()
            listening.close()

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        body = await request.body()
        if self.interrupt(request.method, scope["path"]):
            answer: Response = JSONResponse({"error": "interrupted"}, 503)
        else:
            try:
                answer = Answering(self, request, body).answer()
            except Failure as failure:
                answer = failure.answer
        sent = 0 if request.method == "HEAD" else len(answer.body)
        self.traffic.append(
            Traffic(
                method=request.method,
                path=scope["path"],
                status=answer.status_code,
                received=len(body),
                sent=sent,
                range=request.headers.get("range"),
                file=answer.headers.get("X-File"),
            )
        )
        await answer(scope, receive, send)


@pytest.fixture
def loopback_hub() -> Iterator[LoopbackHub]:
    """An empty Hub, serving."""
    hub = LoopbackHub()
    with hub.serving():
        yield hub


def main() -> None:
    """Serve folders as datasets until the input ends."""
    hub = LoopbackHub()
    for folder, repo_id in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        hub.commit_folder(Path(folder), repo_id)
    with hub.serving() as url:
        print(url, flush=True)
        for _ in sys.stdin:
            print(json.dumps([dataclasses.asdict(t) for t in hub.traffic]), flush=True)


if __name__ == "__main__":
    main()
