"""The audit itself, measured on bugs planted into the tools of the bundled environments."""

import collections
from pathlib import Path

import pytest
from auditing.planted import KINDS, Seen, copy_with, evenly, look, plants

import awm_hub
from awm_hub.environment import Environment
from awm_hub.packing import pack

ROOT = Path(__file__).parent.parent.parent
PER_KIND = 10
"""Plants of each kind in each environment."""


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> list[Environment]:
    out = tmp_path_factory.mktemp("planted") / "out"
    pack(ROOT / "environments", out)
    return list(awm_hub.load(out).values())


@pytest.mark.slow
async def test_at_least_three_quarters_of_planted_bugs_are_found(environments: list[Environment]) -> None:
    planted, by_rules, found = collections.Counter[str](), collections.Counter[str](), collections.Counter[str]()
    for environment in environments:
        clean = await look(environment)
        for kind in KINDS:
            for plant in evenly(list(plants(environment.code, kind)), PER_KIND):
                seen = await look(await copy_with(environment, plant.code), clean)
                new = seen.findings - clean.findings
                is_changed = bool(_changed(seen, clean))
                planted[kind] += 1
                by_rules[kind] += bool(new)
                found[kind] += bool(new) or is_changed
                mark = "rule" if new else "baseline" if is_changed else "MISSED"
                print(
                    f"{mark:8} {environment.id} {kind}, line {plant.line}: {plant.shown[:90]} {sorted(new)[:1]}",
                    flush=True,
                )
    for kind in KINDS:
        print(f"{kind}: {by_rules[kind]} by rules, {found[kind]} with a baseline, of {planted[kind]}")
    print(
        f"share found: {by_rules.total() / planted.total():.0%}, {found.total() / planted.total():.0%} with a baseline"
    )
    assert found.total() >= 0.75 * planted.total()
    assert by_rules.total() >= 0.7 * planted.total()


def _changed(seen: Seen, clean: Seen) -> list[str]:
    return [name for name, told in seen.fingerprints.items() if clean.fingerprints.get(name, told) != told]
