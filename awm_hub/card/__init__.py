"""The card of a dataset: what a reader of the Hub sees first, made from the schema and the data.

A card is the repo's `README.md` and the plots that it shows. Its prose is a template (`dataset_card/`); everything that
can be counted is counted when it is made, so that a card cannot say what the data does not hold. Texts of rows are
hostile: they fill marked places in one pass, escaped, and are never read as template, Markdown, HTML or YAML. Equal
data gives an equal card.
"""

from awm_hub.card.facts import EnvironmentFacts, TaskFacts, facts_of
from awm_hub.card.page import Card, build_card
from awm_hub.card.places import carried

__all__ = ["Card", "EnvironmentFacts", "TaskFacts", "build_card", "carried", "facts_of"]
