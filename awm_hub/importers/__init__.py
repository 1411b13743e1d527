"""Bringing other people's environments into the record format.

`import_awm1k` reads what upstream's pipeline writes, JSONL files of whatever quality, and yields a dataset of this
package's own format together with a report that accounts for every line.
"""

from awm_hub.importers.awm1k import REPORT_FILE, import_awm1k, import_awm1k_async
from awm_hub.importers.report import FileCount, Finding, Imported, ImportReport, LeftOut, Problem

__all__ = [
    "REPORT_FILE",
    "FileCount",
    "Finding",
    "ImportReport",
    "Imported",
    "LeftOut",
    "Problem",
    "import_awm1k",
    "import_awm1k_async",
]
