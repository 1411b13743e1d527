"""Every tool of real upstream rows answers as in a process of its own, where `AWM_HUB_UPSTREAM_SAMPLE` names rows.

No difference is known. Should one be right one day, it is listed here with its reason, and never masked.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from upstream.parity import compare, example_series

import awm_hub as awm
from awm_hub.environment import Environment
from awm_hub.importers import import_awm1k

SAMPLE = os.environ.get("AWM_HUB_UPSTREAM_SAMPLE")
pytestmark = pytest.mark.skipif(SAMPLE is None, reason="AWM_HUB_UPSTREAM_SAMPLE names no folder of upstream rows")

TOOLS = {
    "content_platform_1": 34,
    "docusign_e_signature_agreement_workflow": 17,
    "etsy_digital_downloads": 18,
    "rover": 17,
    "surveymonkey_apply": 26,
}


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Environment]:
    found: dict[str, Environment] = {}
    for folder in ("official_awm1k", "user_run"):
        out = tmp_path_factory.mktemp("imported") / folder
        import_awm1k(Path(str(SAMPLE)) / folder, out)
        found |= dict(awm.load(out))
    return found


@pytest.mark.parametrize("name", TOOLS)
async def test_every_tool_answers_example_arguments_as_upstream(
    environments: Mapping[str, Environment], name: str, tmp_path: Path
) -> None:
    series = await example_series(environments[name])
    parity = await compare(environments[name], series, tmp_path)
    assert parity.differing == []
    assert parity.different_databases == ()
    assert len({c.call.tool for c in parity.calls}) == TOOLS[name]
    assert parity.types["ok"] > len(parity.calls) / 2
