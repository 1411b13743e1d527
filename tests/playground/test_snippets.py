import dataclasses
import json
import shlex
import subprocess
import sys

import pytest
from playground.hostile import ATTACK

import awm_hub
from awm_hub.environment import Environment
from awm_hub.playground.snippets import Snippet, snippets

BUNDLED = awm_hub.load()


def titled(environment: Environment, title: str, dataset: str | None = None) -> Snippet:
    return next(s for s in snippets(environment, dataset) if s.title == title)


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("dataset", [None, "owner/name", ATTACK])
def test_every_snippet_is_of_its_language(name: str, dataset: str | None) -> None:
    for snippet in snippets(BUNDLED[name], dataset):
        if snippet.language == "python":
            compile(snippet.code, snippet.title, "exec")
        elif snippet.language == "json":
            json.loads(snippet.code)
        else:
            shlex.split(snippet.code, comments=True)
        assert "\x1b" not in snippet.code


def test_the_python_snippet_runs_on_the_bundled_set() -> None:
    code = titled(BUNDLED["public_library_1"], "Python").code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "search_members" in done.stdout
    assert done.stdout.splitlines()[-1] == "AGENT_ERROR"


def test_the_python_snippet_names_the_dataset() -> None:
    code = titled(BUNDLED["public_library_1"], "Python", "owner/name").code
    assert 'environment = awm.load("owner/name")["public_library_1"]' in code


def test_of_an_uploaded_file_the_name_is_written_and_no_path_of_the_server() -> None:
    codes = "".join(s.code for s in snippets(BUNDLED["public_library_1"], "/tmp/gradio/abc/mine.parquet"))
    assert 'awm.load("mine.parquet")' in codes
    kept = "".join(s.code for s in snippets(BUNDLED["public_library_1"], "upload-0123456789abcdef"))
    assert 'awm.load("environments.parquet")' in kept
    assert "upload-" not in kept
    assert "/tmp" not in codes


def test_a_task_that_only_a_model_can_judge_is_not_judged_by_code() -> None:
    environment = BUNDLED["public_library_1"]
    task = dataclasses.replace(environment.tasks[0], solution=None)
    code = titled(dataclasses.replace(environment, tasks=(task,)), "Python").code
    assert "awm.judge(" not in code


def test_the_client_configuration_starts_a_program_that_knows_its_arguments() -> None:
    from awm_hub.cli.program import build_parser

    server = json.loads(titled(BUNDLED["public_library_1"], "MCP client", "owner/name").code)["mcpServers"]
    found = server["public_library_1"]
    assert found["command"] == "uvx"
    arguments = build_parser().parse_args(found["args"][1:])
    assert (arguments.stdio, arguments.dataset) == ("public_library_1", "owner/name")


def test_an_environment_for_evaluation_is_not_trained_on() -> None:
    test = next(e for e in BUNDLED.values() if e.split == "test")
    train = next(e for e in BUNDLED.values() if e.split == "train")
    assert 'awm.load(split="train", usage="train")' in titled(test, "TRL").code
    assert f'ids=["{train.id}"]' in titled(train, "TRL").code


def test_names_of_the_training_snippet_exist() -> None:
    pytest.importorskip("datasets")
    from awm_hub.training import simple

    environments = awm_hub.load(ids=["public_library_1"])
    with simple(environments, tasks={"repeat": 2}) as spec:
        assert next(iter(spec.train_dataset))["environment_id"] == "public_library_1"
