"""The page on security and the suite say the same."""

import re
from pathlib import Path

from security.attacks import ATTACKS, KINDS
from security.images import BOMBS, DAMAGED, TRAPS
from security.stopping import STOPS

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
ELSEWHERE = {
    "false answers": "test_host.py",
    "hostile images": "test_images.py",
    "hostile statements": "test_statements.py",
    "other environments": "test_isolation.py",
    "verifiers": "test_isolation.py",
}
"""Kinds that need more than code in a tool, and where they are tried."""


def _rows() -> dict[str, tuple[str, str]]:
    section = PAGE.read_text(encoding="utf-8").split("## Attacks and what stops them")[1].split("\n## ")[0]
    found = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    return {kind: (tried, stops) for kind, tried, stops in found if kind not in ("Kind", "---")}


def test_every_kind_of_the_suite_is_on_the_page_and_the_reverse() -> None:
    assert {kind: tried for kind, (tried, _) in _rows().items()} == KINDS
    assert {a.kind for a in ATTACKS} | set(ELSEWHERE) == set(KINDS)
    assert not {a.kind for a in ATTACKS} & set(ELSEWHERE)
    assert all((Path(__file__).parent / name).exists() for name in ELSEWHERE.values())


def test_the_page_names_exactly_what_stops_each_kind() -> None:
    for kind, (_, stops) in _rows().items():
        if kind not in ELSEWHERE:
            assert set(re.findall(r"`(.+?)`", stops)) == {a.stop for a in ATTACKS if a.kind == kind}, kind
    assert {a.stop for a in ATTACKS} == set(STOPS)


def test_the_suite_is_as_large_as_it_should_be_and_every_attack_has_a_name_of_its_own() -> None:
    names = [(a.kind, a.name) for a in ATTACKS]
    assert len(set(names)) == len(names) >= 60
    assert len({**DAMAGED, **TRAPS, **BOMBS}) == len(DAMAGED) + len(TRAPS) + len(BOMBS) >= 40
