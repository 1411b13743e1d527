"""The Hub's side of a push: the state of a repo, uploads, one commit, a tag.

Every call goes through the Hub's own client, with the login that it finds; what it raises becomes a `RemoteError` that
says what to do. The client's messages are cut to their first line, and hold no token.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from awm_hub.errors import RemoteError
from awm_hub.hub.locations import quiet_hub_client

if TYPE_CHECKING:
    from awm_hub.publishing.content import RepoFile

_TIMEOUT_S = 30


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file of a repo, by what the Hub says of it."""

    sha256: str | None
    """Of large files."""
    git_oid: str | None

    def holds(self, file: "RepoFile") -> bool:
        """Whether its content is that of a file here."""
        return file.sha256 == self.sha256 if self.sha256 is not None else file.git_oid == self.git_oid


@dataclass(frozen=True, kw_only=True)
class RepoState:
    """A repo as it is now; without a commit where there is none of this name."""

    commit: str | None = None
    is_private: bool | None = None
    files: Mapping[str, StoredFile] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tag → commit."""


class HubRepo:
    """One repo, to be written to.

    Args:
        repo_id: `owner/name`.
        kind: `dataset` or `space`.
    """

    def __init__(self, repo_id: str, kind: str = "dataset") -> None:
        from huggingface_hub import HfApi

        self.repo_id, self._kind = repo_id, kind
        self._api = HfApi(library_name="awm-hub")
        self._repo: dict[str, Any] = {"repo_id": repo_id, "repo_type": kind}

    def state(self) -> RepoState:
        """The repo's newest commit, files and tags.

        Raises:
            RemoteError: the Hub cannot be reached, or does not let this user see it.
        """
        from huggingface_hub.errors import RepositoryNotFoundError

        with self._asking("state"):
            try:
                info: Any = self._api.repo_info(**self._repo, files_metadata=True, timeout=_TIMEOUT_S)
            except RepositoryNotFoundError:
                return RepoState()
            refs = self._api.list_repo_refs(**self._repo)
        files = {s.rfilename: _stored(s) for s in info.siblings or ()}
        tags = {tag.name: tag.target_commit for tag in refs.tags}
        return RepoState(commit=info.sha, is_private=info.private, files=files, tags=tags)

    def create(self, *, is_private: bool) -> None:
        """Create the repo, if it does not exist.

        Raises:
            RemoteError: the Hub does not let this user.
        """
        sdk = "gradio" if self._kind == "space" else None
        with self._asking("new repo"):
            self._api.create_repo(**self._repo, private=is_private, exist_ok=True, space_sdk=sdk)

    def read(self, file: str, commit: str | None) -> bytes:
        """A small file of the repo.

        Raises:
            RemoteError: the Hub does not give it.
        """
        with self._asking(file):
            return Path(self._api.hf_hub_download(**self._repo, filename=file, revision=commit)).read_bytes()

    def variables(self) -> dict[str, str]:
        """A Space's environment variables.

        Raises:
            RemoteError: the Hub does not let this user.
        """
        with self._asking("variables"):
            return {name: found.value for name, found in self._api.get_space_variables(self.repo_id).items()}

    def ask_for_hardware(self, name: str) -> None:
        """Have a Space run on other hardware.

        Raises:
            RemoteError: the Hub has none of this name, or does not let this user.
        """
        with self._asking(f"hardware {name}"):
            wanted: Any = name  # the client's enumeration lacks hardware that the Hub has had since
            self._api.request_space_hardware(self.repo_id, wanted)

    def set_variable(self, name: str, value: str) -> None:
        """Give a Space an environment variable.

        Raises:
            RemoteError: the Hub does not take it.
        """
        with self._asking(f"variable {name}"):
            self._api.add_space_variable(self.repo_id, name, value)

    def upload(self, addition: Any) -> None:
        """Send a large file ahead of its commit; one that the Hub has is not sent.

        Raises:
            RemoteError: the Hub does not take it.
        """
        with self._asking("upload"):
            self._api.preupload_lfs_files(**self._repo, additions=[addition])

    def commit(self, operations: Sequence[Any], *, parent: str | None, title: str, description: str) -> str:
        """Make one commit of everything, on top of the state that it was compared with.

        Returns:
            The commit's id.

        Raises:
            RemoteError: somebody committed meanwhile, or the Hub does not take it.
        """
        with self._asking("commit"):
            made = self._api.create_commit(
                **self._repo,
                operations=operations,
                commit_message=title,
                commit_description=description,
                parent_commit=parent,
            )
        return str(made.oid)

    def tag(self, name: str, commit: str) -> None:
        """Name a commit.

        Raises:
            RemoteError: the Hub does not take it.
        """
        with self._asking(f"tag {name}"):
            self._api.create_tag(**self._repo, tag=name, revision=commit)

    @contextlib.contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        # The first base is httpx's or httpx2's error, as this version of the Hub client has it.
        causes: tuple[type[Exception], ...] = (
            *cast("tuple[type[Exception]]", HfHubHTTPError.__bases__[:1]),
            OSError,
            HFValidationError,
        )
        try:
            with quiet_hub_client(), _without_bars():
                yield
        except causes as error:
            raise self._error(error, what) from error

    def _error(self, error: Exception, what: str) -> RemoteError:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status == 412:
            message, step = f"somebody else committed to {self.repo_id} meanwhile", "push again"
        elif status in (401, 403, 404):
            message = f"the Hub does not let you write to {self.repo_id} ({what}: {status})"
            step = "check the name, and log in with `hf auth login` and a token that may write"
        else:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            message = f"the Hub failed at the {what} of {self.repo_id} ({reason})"
            step = "push again: it goes on where it was"
        return RemoteError(message, next_step=step)


def _stored(sibling: Any) -> StoredFile:
    return StoredFile(sha256=sibling.lfs.sha256 if sibling.lfs else None, git_oid=sibling.blob_id)


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """Keep the client's progress bars off stderr, where progress of ours goes."""
    from huggingface_hub import utils

    # Documented there, but not in its `__all__`.
    bars: Any = utils
    if bars.are_progress_bars_disabled():
        yield
        return
    bars.disable_progress_bars()
    try:
        yield
    finally:
        bars.enable_progress_bars()
