"""Packing: source folders in, a dataset folder out.

The same sources give the same bytes: environments are built under their own frozen clocks, and written in the order of
their ids. Any error leaves the output folder as it was.
"""

import os
from dataclasses import dataclass

from awm_hub.errors import AwmHubError
from awm_hub.packing.building import Built, build_with_advice
from awm_hub.packing.dataset import DatasetReport, Progress, check_output, write_dataset
from awm_hub.packing.sources import Source, read_source, source_folders
from awm_hub.runtime import sync


@dataclass(frozen=True, kw_only=True)
class PackedEnvironment:
    """One environment of a pack."""

    id: str
    split: str
    content_hash: str
    image_sha256: str
    tables_count: int
    tools_count: int
    tasks_count: int
    volatile_columns: tuple[str, ...]
    warnings: tuple[str, ...]
    """What is valid but hardly meant, what the record has no place for, and what was dropped."""


@dataclass(frozen=True, kw_only=True)
class PackReport:
    """What a pack read and wrote."""

    environments: tuple[PackedEnvironment, ...]
    dataset: DatasetReport


def pack(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    trust_remote_code: bool = False,
) -> PackReport:
    """Pack one source folder, or a folder of them, into a dataset folder.

    Args:
        folder: A source folder, or a folder of source folders; packed datasets in it are passed over.
        out: The dataset folder; a dataset that is there already is replaced.
        progress: Called with `{"event": "building", "id", "position", "total"}` for each environment.
        trust_remote_code: Run the sources' code without a seal where this machine has none.

    Raises:
        SourceError: a source breaks its form, or is not as it claims.
        UsageError: `out` holds something other than a dataset.
    """
    check_output(out)
    sources = [read_source(path) for path in source_folders(folder)]
    built = []
    for position, source in enumerate(sources, 1):
        if progress:
            progress({"event": "building", "id": source.id, "position": position, "total": len(sources)})
        built.append(_built(source, trust_remote_code))
    dataset = write_dataset((b.environment for b in built), out)
    environments = tuple(_packed(s, b) for s, b in zip(sources, built, strict=True))
    return PackReport(environments=environments, dataset=dataset)


def _built(source: Source, trust_remote_code: bool) -> Built:
    try:
        return sync.run(build_with_advice, source, trust_remote_code=trust_remote_code)
    except AwmHubError as error:
        if source.id not in error.message:
            error.message = f"{source.id}: {error.message}"
        raise


def _packed(source: Source, built: Built) -> PackedEnvironment:
    environment = built.environment
    dropped = source.quality is not None and environment.quality != source.quality
    warnings = (f"{source.id}/quality.json is of other content, and is left out: audit again",) if dropped else ()
    return PackedEnvironment(
        id=environment.id,
        split=environment.split,
        content_hash=environment.content_hash,
        image_sha256=environment.image_sha256,
        tables_count=len(environment.tables),
        tools_count=len(environment.tools),
        tasks_count=len(environment.tasks),
        volatile_columns=environment.volatile_columns,
        warnings=(*source.warnings, *built.warnings, *warnings),
    )
