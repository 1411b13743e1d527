"""Rules and documentation agree."""

import re
from pathlib import Path

from awm_hub.auditing import RULES, SEVERITIES

PAGE = Path(__file__).parent.parent.parent / "docs" / "audit.md"
_ROW = re.compile(r"^\| `(\w+)`[ °]* \| (\w+) \| (.*?) \| (.+) \|$", re.MULTILINE)


def test_every_rule_is_documented_as_it_is_and_with_an_example() -> None:
    rows = {name: (severity, meaning) for name, severity, meaning, _ in _ROW.findall(PAGE.read_text(encoding="utf-8"))}
    assert rows == {rule.id: (rule.severity, rule.meaning) for rule in RULES.values()}


def test_every_rule_says_what_to_do_and_has_a_known_severity() -> None:
    assert [rule.id for rule in RULES.values() if not rule.next_step or rule.severity not in SEVERITIES] == []
