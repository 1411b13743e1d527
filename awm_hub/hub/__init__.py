"""Datasets of environments: found locally or on the Hub, read one row group at a time.

`load` gives a lazy mapping from environment ids to `Environment` records, whole or filtered (`Filters`). Nothing but
the index is read up front; asking for an id reads the one row group that holds it, from the Hub by a range. Every file
is treated as hostile: sizes and types are checked before anything is decoded, and no row's code or database is touched
here. `training_subset` chooses tasks to train on by what the audit says of them.
"""

from awm_hub.hub.environments import Environments, IndexEntry, load
from awm_hub.hub.filters import Filters
from awm_hub.hub.origins import revision_of
from awm_hub.hub.subsets import Subset, training_subset

__all__ = ["Environments", "Filters", "IndexEntry", "Subset", "load", "revision_of", "training_subset"]
