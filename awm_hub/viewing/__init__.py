"""Viewing: what happened in a rollout, for people.

A trajectory becomes a `Document`, a short list of typed blocks that holds no markup. Two writers print it: `page` as a
self-contained HTML page, and `awm_hub.cli.documents` as lines for a terminal. What is shown is therefore decided in one
place, and what makes text safe in another: every text of a trajectory is hostile, blocks carry it as it is, and only
the writers know what could act on their medium.
"""

from awm_hub.viewing.changes import RowChanges, row_changes
from awm_hub.viewing.document import Document
from awm_hub.viewing.folder import PagesFolder, write_page
from awm_hub.viewing.listing import Listed, Survey, Unreadable, listed, run_document, survey
from awm_hub.viewing.page import html_page
from awm_hub.viewing.rollout import rollout_document
from awm_hub.viewing.sources import Source, opened

__all__ = [
    "Document",
    "Listed",
    "PagesFolder",
    "RowChanges",
    "Source",
    "Survey",
    "Unreadable",
    "html_page",
    "listed",
    "opened",
    "rollout_document",
    "row_changes",
    "run_document",
    "survey",
    "write_page",
]
