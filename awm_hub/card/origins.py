"""Where rows come from and under which licence: the table of a card, and the licences of its front matter."""

from collections import Counter
from collections.abc import Iterable, Sequence

from awm_hub.card.facts import EnvironmentFacts
from awm_hub.card.markdown import table, text

OWN_LICENSE = "cc-by-4.0"
"""Of rows that state none."""
UPSTREAM = "Snowflake/AgentWorldModel-1K"
_KNOWN = {
    "apache-2.0", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0",
    "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cdla-permissive-1.0", "cdla-permissive-2.0", "isc", "mit", "odbl", "odc-by",
    "pddl", "unlicense",
}  # fmt: skip
"""Identifiers that the Hub knows; others are `other` there, or `unknown`."""


def license_of(environment: EnvironmentFacts) -> str:
    """The licence of a row, as it is stated."""
    return environment.provenance.license or OWN_LICENSE


def hub_licenses(facts: Iterable[EnvironmentFacts]) -> list[str]:
    """The licences as the Hub's front matter names them, the most frequent first."""
    found = Counter(_hub_license(license_of(e)) for e in facts)
    return [name for name, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))]


def _hub_license(stated: str) -> str:
    known = stated.strip().lower()
    return known if known in _KNOWN or known == "unknown" else "other"


def origin_section(facts: Sequence[EnvironmentFacts]) -> str:
    """Sources, generators and licences, with how many environments are of each."""
    found = Counter(
        (e.provenance.source or "", e.provenance.source_revision or "", e.provenance.generator or "", license_of(e))
        for e in facts
    )
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    rows = [
        (
            text(source or "made for this dataset"),
            text(revision[:12]),
            text(generator),
            text(stated),
            str(n),
        )
        for (source, revision, generator, stated), n in ordered[:_MOST]
    ]
    told = [table(("source", "revision", "generator", "licence", "environments"), rows, texts=4)]
    if len(ordered) > _MOST:
        told.append(f"… and {len(ordered) - _MOST} more, in the column `provenance`.")
    told.append("A licence is that of a row: the column `provenance` carries it, with the source, wherever rows go.")
    if comes_from_upstream(facts):
        told.append(
            f"Rows from [{UPSTREAM}](https://huggingface.co/datasets/{UPSTREAM}) (Wang et al. 2026, CC-BY-4.0) were "
            "changed in form: eight files of JSON lines became one row per environment, with its database built under "
            "a fixed clock and statements that fail kept as they are. Their findings are in `quality`."
        )
    return "\n\n".join(told)


_MOST = 20


def comes_from_upstream(facts: Iterable[EnvironmentFacts]) -> bool:
    """Whether rows of the paper's own dataset are among these."""
    return any(e.provenance.source == UPSTREAM for e in facts)
