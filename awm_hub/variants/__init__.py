"""Labelled attempts at a task, made from its reference solution: what must pass, and what must not.

A solution says more than how a task is solved: with extra reads it must still pass, with one write left out it must
not. Such attempts measure a judge or a verifier without anybody having labelled anything. They are plain data
(`Attempt`) until `perform` carries them out.
"""

from awm_hub.variants.attempts import KINDS, Attempt
from awm_hub.variants.catalogue import attempts_at
from awm_hub.variants.performing import Performed, perform

__all__ = ["KINDS", "Attempt", "Performed", "attempts_at", "perform"]
