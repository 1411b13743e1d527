"""Datasets of environments: found locally or on the Hub, read one row group at a time.

`load` gives a lazy mapping from environment ids to `Environment` records. Nothing but the index is read up front;
asking for an id reads the one row group that holds it. Every file is treated as hostile: sizes and types are checked
before anything is decoded, and no row's code or database is touched here.
"""

from awm_hub.hub.environments import Environments, IndexEntry, load

__all__ = ["Environments", "IndexEntry", "load"]
