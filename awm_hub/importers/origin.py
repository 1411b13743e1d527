"""Where an import comes from: a folder here, or a dataset repo on the Hub.

Only upstream's own published dataset is known to carry a licence. Whatever else a user imports is marked `unknown`
unless they say otherwise, so that nobody republishes it by accident.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from awm_hub.errors import RemoteError, SourceError, UsageError
from awm_hub.importers.records import FILES

OFFICIAL = "Snowflake/AgentWorldModel-1K"
OFFICIAL_LICENSE = "CC-BY-4.0"
UNKNOWN_LICENSE = "unknown"
_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_URI = re.compile(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/]+))?/?")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A folder of upstream files, and what the rows' provenance says of it."""

    folder: Path
    source: str
    """The repo id, or the folder's name."""
    revision: str | None
    """The commit, where it comes from the Hub."""
    license: str


def resolve(source: str | os.PathLike[str], *, revision: str | None, license_id: str | None) -> Origin:
    """Find the files of SOURCE, downloading them if it is a repo id.

    Raises:
        UsageError: a revision was given for a local folder.
        SourceError: there is no such folder and it is no repo id.
        RemoteError: the Hub does not give the files.
    """
    text = os.fspath(source)
    if Path(text).is_dir():
        if revision is not None:
            raise UsageError(f"{text} is a local folder, which has no revision", next_step="leave the revision out")
        origin = _local(Path(text))
    else:
        origin = _remote(text, revision)
    if not any((origin.folder / name).is_file() for name in FILES):
        step = f"expected are {', '.join(FILES)}"
        if origin.revision is None and _REPO_ID.fullmatch(text):
            step += f"; a dataset on the Hub of the same name is hf://datasets/{text}"
        raise SourceError(f"{text} holds none of upstream's files", next_step=step)
    return replace(origin, license=license_id or origin.license)


def _local(folder: Path) -> Origin:
    return Origin(folder=folder, source=folder.resolve().name, revision=None, license=UNKNOWN_LICENSE)


def _remote(text: str, revision: str | None) -> Origin:
    uri = _HUB_URI.fullmatch(text)
    repo_id = uri[1] if uri else text
    if Path(text).exists() or not _REPO_ID.fullmatch(repo_id):
        raise SourceError(
            f"{text} is neither a folder nor a repo id",
            next_step=f"name a folder that holds {next(iter(FILES))} and its like, or a repo such as {OFFICIAL}",
        )
    if uri:
        revision = revision or uri[2]
    folder = _download(repo_id, revision)
    known = OFFICIAL_LICENSE if repo_id == OFFICIAL else UNKNOWN_LICENSE
    return Origin(folder=folder, source=repo_id, revision=folder.name, license=known)


def _download(repo_id: str, revision: str | None) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    # Its bases are OSError and the error of the HTTP library in use, which differs between majors of huggingface_hub.
    causes: tuple[type[Exception], ...] = (HFValidationError, *cast("tuple[type[Exception]]", HfHubHTTPError.__bases__))
    try:
        return Path(
            huggingface_hub.snapshot_download(
                repo_id, repo_type="dataset", revision=revision, allow_patterns=list(FILES), library_name="awm-hub"
            )
        )
    except causes as error:
        where = f"{repo_id} at {revision}" if revision else repo_id
        raise RemoteError(
            f"cannot download {where}: {_first_line(error)}",
            next_step="check the name, the revision and the network; there is no folder of this name here either",
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
