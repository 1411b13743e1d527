"""Packing: source folders become a dataset, and rows of a dataset become source folders again.

`read_source` reads one folder, `build_environment` runs it in the sandbox and measures what the record states,
`write_dataset` writes Parquet, index and card. `pack`, `unpack` and `scaffold` are the whole ways.
"""

from awm_hub.packing.building import build_environment
from awm_hub.packing.dataset import DatasetReport, Progress, index_row, task_row, write_dataset
from awm_hub.packing.folders import PackedEnvironment, PackReport, pack
from awm_hub.packing.restoring import UnpackReport, unpack, write_source
from awm_hub.packing.scaffolding import scaffold
from awm_hub.packing.sources import Source, read_source, source_folders

__all__ = [
    "DatasetReport",
    "PackReport",
    "PackedEnvironment",
    "Progress",
    "Source",
    "UnpackReport",
    "build_environment",
    "index_row",
    "pack",
    "read_source",
    "scaffold",
    "source_folders",
    "task_row",
    "unpack",
    "write_dataset",
    "write_source",
]
