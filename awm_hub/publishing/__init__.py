"""Publishing: a dataset folder becomes one commit of a Hub dataset, with its card and the loaders.

`push` reads every row first, since a card counts and a broken row must not be published; holds the rows against a bar
of quality; says what changes against the revision on the Hub; uploads what the Hub does not have; and commits all of it
at once, or nothing. Interrupted anywhere it can be repeated: large files that arrived are not sent again, and a push
that changes nothing makes no commit.
"""

from awm_hub.publishing.bar import BARS, BelowBar, below_bar
from awm_hub.publishing.changes import Changes
from awm_hub.publishing.pushing import PushReport, push

__all__ = ["BARS", "BelowBar", "Changes", "PushReport", "below_bar", "push"]
