"""What the loopback Hub answers: the routes of the real one that `huggingface_hub` and `datasets` use."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import yaml
from loopback_repos import DATE, LFS_SUFFIXES, Blob, Commit, Repo
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from loopback_hub import LoopbackHub

TOKEN = "hf_loopback"
USER = "awm"
_RUNTIME = {"stage": "RUNNING", "hardware": {"current": "cpu-basic", "requested": "cpu-basic"}, "storage": None}


class Failure(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str, code: str | None = None, **more: Any) -> None:
        super().__init__(message)
        headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {}), **more.pop("headers", {})}
        self.answer = JSONResponse({"error": message, **more}, status, headers=headers)


@dataclass(kw_only=True)
class _Target:
    """What a route is about: a repo, and what follows it in the path."""

    repo: Repo
    rest: list[str]


class Answering:
    """The answer to one request."""

    def __init__(self, hub: "LoopbackHub", request: Request, body: bytes) -> None:
        self.hub, self.request, self.body = hub, request, body
        self.method = request.method
        raw = request.scope["raw_path"].decode().partition("?")[0]
        self.parts = [unquote(p) for p in raw.split("/") if p]
        self.is_user = request.headers.get("authorization") == f"Bearer {TOKEN}"

    def answer(self) -> Response:
        """The answer.

        Raises:
            Failure: it is an error.
        """
        match self.parts:
            case ["api", "whoami-v2"]:
                return self._whoami()
            case ["api", "validate-yaml"]:
                return JSONResponse({"errors": [], "warnings": []})
            case ["api", "repos", action]:
                return self._repos(action)
            case ["api", ("models" | "datasets" | "spaces") as types]:
                return self._listing(types[:-1])
            case ["api", ("models" | "datasets" | "spaces") as types, *path]:
                return self._api(self._target(types[:-1], path))
            case ["_objects", _, _, _, oid, *path]:
                return self._content(self.hub.objects[oid], oid, "/".join(path))
            case ["_uploads", oid]:
                return self._uploaded(oid)
            case [*_, "info", "lfs", "objects", "batch"]:
                return self._batch()
            case ["datasets" | "spaces" as types, owner, name, "resolve" | "raw", revision, *path]:
                return self._file(self._target(types[:-1], [owner, name]).repo, revision, "/".join(path))
            case [owner, name, "resolve" | "raw", revision, *path]:
                return self._file(self._target("model", [owner, name]).repo, revision, "/".join(path))
        raise Failure(404, f"no such route: {self.method} /{'/'.join(self.parts)}")

    def _json(self) -> Any:
        return json.loads(self.body or b"{}")

    def _whoami(self) -> Response:
        if not self.is_user:
            raise Failure(401, "Invalid username or password.")
        token = {"type": "access_token", "accessToken": {"displayName": "loopback", "role": "write", "createdAt": DATE}}
        user = {"type": "user", "id": "1", "name": USER, "fullname": USER, "isPro": False, "orgs": []}
        return JSONResponse({**user, "auth": token})

    def _must_be_user(self) -> None:
        if not self.is_user:
            raise Failure(401, "Invalid username or password.")

    def _target(self, type_: str, path: list[str]) -> _Target:
        repo = self.hub.repos.get((type_, "/".join(path[:2])))
        if repo is None or (repo.private and not self.is_user):
            raise Failure(404 if self.is_user else 401, "Repository not found", "RepoNotFound")
        return _Target(repo=repo, rest=path[2:])

    def _at(self, repo: Repo, revision: str) -> Commit:
        commit = repo.find(revision)
        if commit is None:
            raise Failure(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    def _repos(self, action: str) -> Response:
        self._must_be_user()
        asked = self._json()
        type_ = asked.get("type") or "model"
        repo_id = f"{asked.get('organization') or USER}/{asked.get('name')}"
        if action == "create":
            known = self.hub.repos.get((type_, repo_id))
            url = f"{self.hub.url}/{'' if type_ == 'model' else type_ + 's/'}{repo_id}"
            if known is not None:
                raise Failure(409, "You already created this repo", url=url)
            repo = self.hub.create(repo_id, type_)
            repo.private = asked.get("visibility") == "private" or bool(asked.get("private"))
            repo.settings = {"sdk": asked.get("sdk"), "secrets": {}, "variables": {}, "calls": []}
            for kind in ("secrets", "variables"):
                repo.settings[kind] = {v["key"]: v for v in asked.get(kind) or ()}
            return JSONResponse({"url": url, "name": repo_id, "id": "1"})
        if action == "delete" and self.hub.repos.pop((type_, repo_id), None):
            return JSONResponse({})
        raise Failure(404, "Repository not found", "RepoNotFound")

    def _listing(self, type_: str) -> Response:
        asked = self.request.query_params
        repos = [r for (t, _), r in self.hub.repos.items() if t == type_ and (self.is_user or not r.private)]
        found = [self._info(r, r.head) for r in repos]
        tags = set(asked.getlist("filter"))
        kept = [i for i in found if asked.get("author") in (None, i["author"]) and tags <= set(i["tags"])]
        return JSONResponse([i for i in kept if (asked.get("search") or "") in i["id"]])

    def _info(self, repo: Repo, commit: Commit) -> dict[str, Any]:
        card = _front_matter(commit.files.get("README.md"))
        with_blobs = self.request.query_params.get("blobs") in ("True", "true", "1")
        siblings = [
            {"rfilename": path, **(_sized(blob) if with_blobs else {})} for path, blob in sorted(commit.files.items())
        ]
        info = {
            "_id": "0" * 24, "id": repo.id, "author": repo.id.partition("/")[0], "sha": commit.id,
            "private": repo.private,
            "gated": False, "disabled": False, "lastModified": DATE, "createdAt": DATE, "downloads": 0, "likes": 0,
            "tags": card.get("tags") or [], "cardData": card, "siblings": siblings,
        }  # fmt: skip
        if repo.type == "space":
            info |= {"sdk": card.get("sdk"), "runtime": _RUNTIME, "subdomain": repo.id.replace("/", "-")}
        return info

    def _api(self, target: _Target) -> Response:
        repo = target.repo
        match self.method, target.rest:
            case "GET", []:
                return JSONResponse(self._info(repo, repo.head))
            case "GET", ["revision", *revision]:
                return JSONResponse(self._info(repo, self._at(repo, "/".join(revision))))
            case "GET", ["tree", revision, *path]:
                return JSONResponse(self._tree(self._at(repo, revision), "/".join(path)))
            case "POST", ["paths-info", revision]:
                return JSONResponse(self._paths(self._at(repo, revision)))
            case "GET", ["commits", revision]:
                self._at(repo, revision)
                return JSONResponse([_logged(c) for c in repo.log(revision)])
            case "GET", ["refs"]:
                return JSONResponse(_refs(repo))
            case "GET", ["compare", _]:
                raise Failure(404, "not served here")
        self._must_be_user()
        return self._writing(repo, target.rest)

    def _writing(self, repo: Repo, rest: list[str]) -> Response:
        match self.method, rest:
            case "POST", ["preupload", revision]:
                return JSONResponse({"files": [self._mode(repo, revision, f) for f in self._json()["files"]]})
            case "POST", ["commit", revision]:
                return self._commit(repo, revision)
            case "POST", ["tag", revision]:
                return self._new_ref(repo, f"refs/tags/{self._json()['tag']}", revision)
            case "POST", ["branch", branch]:
                return self._new_ref(repo, f"refs/heads/{branch}", self._json().get("startingPoint") or "main")
            case "DELETE", [("tag" | "branch") as kind, name]:
                if repo.refs.pop(f"refs/{'tags' if kind == 'tag' else 'heads'}/{name}", None) is None:
                    raise Failure(404, f"no {kind} {name}", "RevisionNotFound")
                return JSONResponse({})
            case "PUT", ["settings"]:
                repo.private = self._json().get("visibility", "private" if repo.private else "public") == "private"
                return JSONResponse({})
        if repo.type == "space" and rest:
            return self._space(repo, rest[0])
        raise Failure(404, f"no such route: {self.method} {'/'.join(rest)}")

    def _space(self, repo: Repo, what: str) -> Response:
        repo.settings.setdefault("calls", []).append((self.method, what, self._json() if self.body else {}))
        if what in ("secrets", "variables"):
            kept = repo.settings.setdefault(what, {})
            if self.method == "DELETE":
                kept.pop(self._json()["key"], None)
            elif self.method == "POST":
                kept[self._json()["key"]] = {**self._json(), "updatedAt": DATE}
            shown = {k: {**v, "value": None} for k, v in kept.items()} if what == "secrets" else kept
            return JSONResponse(shown)
        if what in ("runtime", "hardware", "sleeptime", "restart", "pause"):
            hardware = self._json().get("flavor", "cpu-basic") if self.body else "cpu-basic"
            return JSONResponse({**_RUNTIME, "hardware": {"current": hardware, "requested": hardware}})
        if what == "duplicate":
            copy = self.hub.create(self._json()["repository"], "space")
            copy.commit("duplicate", repo.head.files)
            return JSONResponse({"url": f"{self.hub.url}/spaces/{copy.id}"})
        raise Failure(404, f"Spaces have no {what} here")

    def _tree(self, commit: Commit, folder: str) -> list[dict[str, Any]]:
        is_deep = self.request.query_params.get("recursive", "").lower() in ("true", "1")
        start = f"{folder}/" if folder else ""
        under = {p: b for p, b in sorted(commit.files.items()) if p.startswith(start)}
        if folder and not under:
            raise Failure(404, "Entry not found", "EntryNotFound")
        depth = start.count("/")
        folders = {"/".join(p.split("/")[:n]) for p in under for n in range(depth + 1, p.count("/") + 1)}
        shown = [f for f in sorted(folders) if is_deep or f.count("/") == depth]
        files = [b.entry(p) for p, b in under.items() if is_deep or p.count("/") == depth]
        return [*({"type": "directory", "path": f, "oid": "0" * 40, "size": 0} for f in shown), *files]

    def _paths(self, commit: Commit) -> list[dict[str, Any]]:
        asked = self._asked_paths()
        files = [commit.files[p].entry(p) for p in asked if p in commit.files]
        folders = [p for p in asked if any(f.startswith(p.rstrip("/") + "/") for f in commit.files)]
        return [*files, *({"type": "directory", "path": p, "oid": "0" * 40, "size": 0} for p in folders)]

    def _asked_paths(self) -> list[str]:
        if "json" in self.request.headers.get("content-type", ""):
            return list(self._json()["paths"])
        pairs = [p.partition("=") for p in self.body.decode().split("&")]
        return [unquote(value.replace("+", " ")) for name, _, value in pairs if name == "paths"]

    def _mode(self, repo: Repo, revision: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        known = self._at(repo, revision).files.get(asked["path"])
        is_lfs = asked["path"].endswith(LFS_SUFFIXES) or asked["size"] > 10_000_000
        oid = None if known is None else known.sha256 if known.is_lfs else known.oid
        mode = "lfs" if is_lfs else "regular"
        return {"path": asked["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid}

    def _batch(self) -> Response:
        self._must_be_user()
        return JSONResponse({"transfer": "basic", "objects": [self._upload(o) for o in self._json()["objects"]]})

    def _upload(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        found = {"oid": asked["oid"], "size": asked["size"]}
        if asked["oid"] in self.hub.objects:
            return found
        return {**found, "actions": {"upload": {"href": f"{self.hub.url}/_uploads/{asked['oid']}"}}}

    def _uploaded(self, oid: str) -> Response:
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise Failure(400, "the content has another SHA-256")
        self.hub.objects[oid] = self.body
        return Response(status_code=200)

    def _commit(self, repo: Repo, revision: str) -> Response:
        lines = [json.loads(line) for line in self.body.splitlines() if line]
        header = lines[0]["value"]
        before = self._at(repo, revision)
        if header.get("parentCommit") not in (None, before.id):
            raise Failure(412, "A commit has happened since. Please refresh and try again.")
        files = dict(before.files)
        for line in lines[1:]:
            self._apply(repo, files, line["key"], line["value"])
        if self.request.query_params.get("create_pr"):
            ref = f"refs/pr/{1 + sum(r.startswith('refs/pr/') for r in repo.refs)}"
            repo.refs[ref] = before.id
        else:
            ref = next((r for r in (revision, f"refs/heads/{revision}") if r in repo.refs), None)
            if ref is None:
                raise Failure(400, f"{revision} is no branch")
        made = repo.commit(header["summary"], files, ref=ref, message=header.get("description", ""))
        url = f"{self.hub.url}/{repo.prefix}{repo.id}"
        found = {"success": True, "commitOid": made.id, "commitUrl": f"{url}/commit/{made.id}", "hookOutput": ""}
        pull = {"pullRequestUrl": f"{url}/discussions/{ref[8:]}"} if ref.startswith("refs/pr/") else {}
        return JSONResponse({**found, **pull})

    def _apply(self, repo: Repo, files: dict[str, Blob], key: str, value: Mapping[str, Any]) -> None:
        path = value["path"]
        if key == "file":
            files[path] = Blob(data=base64.b64decode(value["content"]))
        elif key == "lfsFile":
            if value["oid"] not in self.hub.objects:
                raise Failure(400, f"{path} was not uploaded")
            files[path] = Blob(data=self.hub.objects[value["oid"]], is_lfs=True)
        elif key == "copyFile":
            files[path] = self._at(repo, value.get("srcRevision") or "main").files[value["srcPath"]]
        else:  # deletedFile, deletedFolder
            gone = [p for p in files if p == path.rstrip("/") or p.startswith(path.rstrip("/") + "/")]
            if not gone:
                raise Failure(404, f"{path} is not there", "EntryNotFound")
            for name in gone:
                del files[name]

    def _new_ref(self, repo: Repo, ref: str, revision: str) -> Response:
        if ref in repo.refs:
            raise Failure(409, f"Reference already exists: {ref}")
        repo.refs[ref] = self._at(repo, revision).id
        return JSONResponse({})

    def _file(self, repo: Repo, revision: str, path: str) -> Response:
        commit = self._at(repo, revision)
        headers = {"X-Repo-Commit": commit.id}
        blob = commit.files.get(path)
        if blob is None:
            raise Failure(404, "Entry not found", "EntryNotFound", headers=headers)
        if not blob.is_lfs:
            return self._content(blob.data, blob.oid, path, headers)
        self.hub.objects[blob.sha256] = blob.data
        linked = {"X-Linked-Etag": f'"{blob.sha256}"', "X-Linked-Size": str(len(blob.data))}
        # The Hub sends clients on to another host, where it keeps large files.
        host = self.hub.url.replace("127.0.0.1", "localhost")
        place = f"{host}/_objects/{repo.type}/{repo.id}/{blob.sha256}/{quote(path)}"
        return Response(status_code=302, headers={**headers, **linked, "Location": place})

    def _content(self, data: bytes, tag: str, path: str, headers: Mapping[str, str] | None = None) -> Response:
        sent = {**(headers or {}), "ETag": f'"{tag}"', "Accept-Ranges": "bytes", "X-File": quote(path)}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.request.headers.get("range", ""))
        if asked is None:
            return Response(data, 200, headers=sent, media_type="application/octet-stream")
        start = int(asked[1]) if asked[1] else max(0, len(data) - int(asked[2]))
        end = min(int(asked[2]), len(data) - 1) if asked[1] and asked[2] else len(data) - 1
        if start > end:
            return Response(status_code=416, headers={"Content-Range": f"bytes */{len(data)}"})
        sent["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
        return Response(data[start : end + 1], 206, headers=sent, media_type="application/octet-stream")


def _front_matter(card: Blob | None) -> dict[str, Any]:
    found = re.match(r"---\n(.*?)\n---", card.data.decode(), re.DOTALL) if card else None
    return (yaml.safe_load(found[1]) or {}) if found else {}


def _sized(blob: Blob) -> dict[str, Any]:
    entry = blob.entry("")
    found = {"size": entry["size"], "blobId": entry["oid"]}
    return {**found, "lfs": {**entry["lfs"], "sha256": blob.sha256}} if blob.is_lfs else found


def _logged(commit: Commit) -> dict[str, Any]:
    return {"id": commit.id, "title": commit.title, "message": commit.message, "authors": [], "date": DATE}


def _refs(repo: Repo) -> dict[str, Any]:
    def named(kind: str) -> list[dict[str, str]]:
        start = f"refs/{kind}/"
        found = {r.removeprefix(start): r for r in repo.refs if r.startswith(start)}
        return [{"name": name, "ref": ref, "targetCommit": repo.refs[ref]} for name, ref in found.items()]

    return {"branches": named("heads"), "tags": named("tags"), "converts": [], "pullRequests": named("pr")}
