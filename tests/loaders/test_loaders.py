"""The programs beside the dataset: one file each, whose headers, commands and configurations are true."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from endpoint import calls, playing, running_endpoint, says
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

import awm_hub as awm

LOADERS = Path(__file__).parents[2] / "loaders"
PROGRAMS = sorted(LOADERS.glob("*.py"))
CLIENT_PROGRAMS = ("claude", "codex", "npx")


def run(program: str, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a loader to its end, with an environment that holds nothing but what is given."""
    command = [sys.executable, str((cwd or LOADERS) / program), *words]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **env}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)


def documented(program: str) -> str:
    """The docstring of a loader."""
    return ast.get_docstring(ast.parse((LOADERS / program).read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_a_loader_is_one_short_file_with_a_header_and_imports_no_sibling(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    header = re.match(r"# /// script\n((?:#.*\n)*?)# ///\n", text)
    assert header is not None
    found = tomllib.loads(re.sub(r"^# ?", "", header[1], flags=re.MULTILINE))
    assert found["requires-python"] == ">=3.11"
    assert all(re.fullmatch(r"awm-hub(\[\w+\])?", name) for name in found["dependencies"])
    imported = {n.names[0].name if isinstance(n, ast.Import) else n.module for n in ast.walk(ast.parse(text))
                if isinstance(n, ast.Import | ast.ImportFrom)}  # fmt: skip
    assert not {str(name).partition(".")[0] for name in imported} & {p.stem for p in PROGRAMS}
    assert path.stem not in sys.stdlib_module_names


def test_the_configurations_for_clients_are_json_whose_commands_this_program_takes() -> None:
    text = documented("serve_mcp.py")
    blocks = re.findall(r'^ +(\{"(?:mcpS|s)ervers".*?\}\}\})$', text, re.MULTILINE | re.DOTALL)
    configurations = [json.loads(block) for block in blocks]
    servers = [next(iter(next(iter(c.values())).values())) for c in configurations]
    assert [server.get("command") for server in servers] == ["/path/to/uv", "/path/to/uv", None]
    assert [server.get("args") for server in servers[:2]] == [["run", "/path/to/serve_mcp.py", "public_library_1"]] * 2
    commands = [line.strip() for line in text.splitlines() if line.strip().startswith(CLIENT_PROGRAMS)]
    assert [shlex.split(c)[0] for c in commands] == ["claude", "codex", "npx", "claude"]
    assert all(c.endswith("/path/to/uv run /path/to/serve_mcp.py public_library_1") for c in commands[:3])


async def test_a_client_gets_tools_and_task_over_stdio() -> None:
    words = [str(LOADERS / "serve_mcp.py"), "public_library_1", "--task", "owed_by_ingeborg"]
    server = StdioServerParameters(command=sys.executable, args=words)
    async with stdio_client(server) as streams, ClientSession(streams[0], streams[1]) as session:
        told = (await session.initialize()).model_dump(by_alias=True)["instructions"]
        tools = (await session.list_tools()).tools
        found = (await session.call_tool("get_member", {"member_id": 1})).model_dump(by_alias=True)
    assert "Ingeborg Adeyemi-Holm owe the library" in told
    assert len(tools) == len(awm.load()["public_library_1"].tools)
    assert json.loads(found["content"][0]["text"])["balance_cents"] == 855


async def test_a_client_gets_an_instance_behind_its_key_over_http(notes_dataset: Path) -> None:
    words = [str(LOADERS / "serve_mcp.py"), "--port", "0", "--dataset", str(notes_dataset)]
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().partition("/ENVIRONMENT")[0]
        async with (
            streamable_http_client(f"{url}/notes/mcp?key=mine") as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            assert len((await session.list_tools()).tools) == 6
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.parametrize("words", [(), pytest.param(("public_library_1", "--port", "0"), marks=pytest.mark.slow)])
def test_serving_wants_either_an_environment_or_a_port(words: tuple[str, ...]) -> None:
    done = run("serve_mcp.py", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "name an environment, for stdio, or a --port, for HTTP" in done.stderr


def test_a_loader_takes_the_dataset_it_lies_in(notes_dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(notes_dataset, tmp_path / "repo")
    shutil.copytree(LOADERS, tmp_path / "repo" / "loaders")
    done = run("serve_mcp.py", "public_library_1", cwd=tmp_path / "repo" / "loaders")
    assert done.returncode == awm.UnknownNameError.exit_code
    assert "no environment named 'public_library_1'. Known: notes." in done.stderr


def solving(notes: awm.Environment, task: str, answer: Any) -> Any:
    """A script that makes the calls of a task's solution, one a message, and answers."""
    made = [calls((call.tool, call.arguments)) for call in notes.task(task).solution or ()]
    return playing(*made, calls(("final_answer", {"answer": answer})))


@pytest.fixture
def smolagents() -> None:
    """Left out where smolagents is not installed."""
    pytest.importorskip("smolagents", reason="needs the extra `agents`")


@pytest.mark.usefixtures("smolagents")
def test_a_tool_calling_agent_completes_a_task_through_an_endpoint(
    notes_dataset: Path, notes_environment: awm.Environment, tmp_path: Path
) -> None:
    out = tmp_path / "attempt.json"
    with running_endpoint(solving(notes_environment, "postpone_plumber", "Done.")) as fake:
        words = ["notes", "postpone_plumber", "--dataset", str(notes_dataset), "--quiet", "-o", str(out)]
        done = run("smolagents_agent.py", *words, "--base-url", fake.base_url, "--model", "m", AWM_HUB_API_KEY="k-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "COMPLETED: the database is right"
    assert {seen.headers["authorization"] for seen in fake.requests} == {"Bearer k-1"}
    assert {body["model"] for body in fake.bodies} == {"m"}
    assert [tool["function"]["name"] for tool in fake.bodies[0]["tools"]][-1] == "final_answer"
    assert "k-1" not in out.read_text(encoding="utf-8")
    kept = awm.Trajectory.from_dict(json.loads(out.read_text(encoding="utf-8")))
    assert (awm.judge(kept, environment=notes_environment),) == kept.verdicts


@pytest.mark.usefixtures("smolagents")
def test_a_code_agent_completes_a_task_and_the_hub_token_goes_nowhere(notes_dataset: Path) -> None:
    source = """

today = "2026-03-02"
days = [note["due_on"] or "9" for note in search_notes(status="open")]
final_answer(len([day for day in days if day < today]))"""
    with running_endpoint([says(f"Thought: count.\n<code>\n{source}\n</code>")]) as fake:
        words = ["notes", "overdue", "--dataset", str(notes_dataset), "--code", "--quiet"]
        done = run("smolagents_agent.py", *words, "--base-url", fake.base_url, "--model", "m", HF_TOKEN="hf_secret")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "COMPLETED: database and answer are right"
    assert "hf_secret" not in str(fake.requests)


@pytest.mark.usefixtures("smolagents")
def test_an_attempt_that_does_nothing_exits_with_1(notes_dataset: Path) -> None:
    with running_endpoint([calls(("final_answer", {"answer": "Done."}))]) as fake:
        words = ["notes", "postpone_plumber", "--dataset", str(notes_dataset), "--base-url", fake.base_url]
        done = run("smolagents_agent.py", *words, "--model", "m")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("AGENT_ERROR: ")
