"""Documentation is complete, up to date, and every example in it runs."""

import contextlib
import importlib.util
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from endpoint import running_endpoint, says
from starlette.routing import Route
from synthesis.scripted_model import model

import awm_hub
from awm_hub import schema
from awm_hub.cli.program import VERBS, build_parser
from awm_hub.serving import build_app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
AWM_HUB = [sys.executable, "-m", "awm_hub"]
ONE_TASK = "public_library_1 --task owed_by_ingeborg"
TOUCHES_THE_OUTSIDE = ("awm-hub serve", "awm-hub import", "awm-hub push", "awm-hub synthesize")
"""Commands that wait for a client, read from the Hub or want a model that writes: shown, parsed, not run here."""

_FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(page: Path) -> list[tuple[str, str, str]]:
    """Language, file name and text of the code blocks of a page."""
    return _FENCE.findall(page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[str]:
    """The lines after a prompt in the page's console blocks, continued lines joined."""
    blocks = [text.replace("\\\n", " ") for language, _, text in fences(page) if language == "console"]
    return [line[2:] for text in blocks for line in text.splitlines() if line.startswith("$ ")]


def programs(page: Path) -> list[str]:
    """The Python examples of a page, which run one after the other."""
    return [text for language, file, text in fences(page) if language == "python" and not file]


def generator() -> Any:
    """The module that writes the generated parts."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_generated_parts_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert generator().generated(text) == text, "run `make docs`"


def test_every_verb_and_option_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    (verbs,) = (a for a in build_parser()._actions if a.dest == "verb")
    assert set(dict(verbs.choices or {})) == set(VERBS)
    for name, verb in dict(verbs.choices or {}).items():
        section = text.split(f"\n## awm-hub {name}\n")[1].split("\n## ")[0]
        options = [o for a in verb._actions for o in a.option_strings]  # type: ignore[attr-defined]
        assert [o for o in options if o not in section] == []


def test_every_exit_code_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    codes = {kind.exit_code for _, kind in generator().error_tree(awm_hub.AwmHubError)} | {0, 130}
    assert [c for c in codes if f"| {c} |" not in text] == []


@pytest.mark.parametrize("config", schema.CONFIGS)
def test_every_column_is_documented(config: str) -> None:
    section = (ROOT / "docs" / "format.md").read_text(encoding="utf-8").split(f"columns-{config} -->")[1]
    table = section.split("<!-- end -->")[0]
    assert [c.name for c in schema.CONFIGS[config] if f"| `{c.name}` |" not in table] == []
    assert [c.name for c in schema.CONFIGS[config] if not c.meaning.strip()] == []


def test_every_error_class_is_documented() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    kinds = [kind.__name__ for _, kind in generator().error_tree(awm_hub.AwmHubError)]
    assert len(kinds) > 10
    assert [k for k in kinds if f"`{k}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_opens_with_one_sentence_two_commands_and_a_short_program() -> None:
    head = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40])
    found = _FENCE.findall(head)
    assert [language for language, _, _ in found] == ["console", "python"]
    assert [line[:11].rstrip() for line in found[0][2].splitlines()] == ["$ make demo", "$ make test"]
    assert len([line for line in found[1][2].splitlines() if line.strip()]) <= 12


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(f[0] == "python" and not f[1] for f in fences(p))], ids=lambda p: p.name
)
def test_python_examples_run(page: Path, tmp_path: Path) -> None:
    if page.name == "write-an-environment.md":
        build_tutorial(page, tmp_path)
    program = "\n".join(programs(page))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for expected in re.findall(r"^\s*print\(.*#\s+([A-Z_]+)$", program, re.MULTILINE):
        assert expected in done.stdout


@pytest.mark.parametrize("command", [c for p in PAGES for c in commands(p) if c.startswith("awm-hub ")])
def test_every_command_in_the_documentation_parses(command: str) -> None:
    words = shlex.split(command, comments=True)
    build_parser().parse_known_args(words[1:])


def test_the_configuration_for_desktop_clients_is_a_command_that_parses() -> None:
    (text,) = (text for language, _, text in fences(ROOT / "README.md") if language == "json")
    (server,) = json.loads(text)["mcpServers"].values()
    assert server["command"].endswith("/.venv/bin/awm-hub")
    assert build_parser().parse_args(server["args"]).stdio == "public_library_1"


def test_the_commands_of_readme_rollouts_and_judging_run(tmp_path: Path) -> None:
    """One after the other, with an endpoint that gives every attempt the same verdict, and every task this answer."""
    shares = dict.fromkeys(("COMPLETED", "PARTIALLY_COMPLETED", "AGENT_ERROR", "ENVIRONMENT_ERROR"), 0.25)
    said = json.dumps({"reasoning": "Nothing was done.", "outcome": "AGENT_ERROR", "confidences": shares})
    with running_endpoint(lambda _body: says(said)) as endpoint:
        for page in ("README.md", "docs/rollouts.md", "docs/judging.md"):
            for command in commands(ROOT / page):
                if command.startswith(TOUCHES_THE_OUTSIDE) or "awm1k" in command:
                    continue
                if command.startswith("awm-hub "):
                    run(_shortened(command, endpoint.base_url), tmp_path)


def test_a_new_user_makes_three_environments_by_the_page_on_synthesis(tmp_path: Path) -> None:
    """With a model that a test has written, and small environments; its names are those of the page."""
    page = ROOT / "docs" / "synthesis.md"
    (names,) = (text for language, _, text in fences(page) if language == "text")
    (tmp_path / "names.txt").write_text(names, encoding="utf-8")
    small = "--tables 2 --rows 5 --tools 3 --tasks 2"
    with running_endpoint(model()) as endpoint:
        first, pack, *_, explain = (c for c in commands(page) if c.startswith(("awm-hub synthesize", "awm-hub pack")))
        made = run(f"{first.replace('http://127.0.0.1:8000/v1', endpoint.base_url)} {small}", tmp_path)
        assert "3 scenarios: 3 accepted, 0 rejected, 0 unfinished" in made
        assert "\n3 environments, " in run(pack, tmp_path)
        assert "ACCEPTED" in run(explain, tmp_path)


def _shortened(command: str, base_url: str) -> str:
    """The command with the endpoint of the test, and for one task instead of all."""
    for old, new in (("http://127.0.0.1:8000/v1", base_url), ("rollout all", f"rollout {ONE_TASK}")):
        command = command.replace(old, new)
    return command if ONE_TASK in command else command.replace("rollout public_library_1", f"rollout {ONE_TASK}")


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The address of a server of the bundled set whose controller's token is `choose-one`."""
    command = [*AWM_HUB, "serve", "--port", "0", "--json"]
    env = {**os.environ, "AWM_HUB_CONTROLLER_TOKEN": "choose-one"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        yield json.loads(process.stderr.readline())["url"]
        process.terminate()


def curl(command: str, address: str, **variables: str) -> tuple[int, Any]:
    """Status and JSON of the request that a curl line of the documentation makes, sent to this address."""
    for name, value in {"AWM_HUB_CONTROLLER_TOKEN": "choose-one", **variables}.items():
        command = command.replace(f"${name}", value)
    words = shlex.split(command, comments=True)[1:]
    options = list(itertools.pairwise(words))
    (path,) = (urlsplit(word).path for word in words if word.startswith("http://"))
    headers = dict(value.split(": ") for option, value in options if option == "-H")
    body = next((value.encode() for option, value in options if option == "-d"), None)
    method = next((value for option, value in options if option == "-X"), None)
    request = urllib.request.Request(address + path, body, headers, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
        return response.status, json.load(response)


def test_the_request_of_the_readme_opens_an_instance() -> None:
    (command,) = (c for c in commands(ROOT / "README.md") if c.startswith("curl "))
    with serving() as address:
        status, opened = curl(command, address)
    assert (status, opened["environment"]) == (201, "public_library_1")


def test_the_requests_of_the_page_on_serving_lead_to_the_verdict() -> None:
    first, *rest = (c for c in commands(ROOT / "docs" / "serving.md") if c.startswith("curl "))
    with serving() as address:
        status, opened = curl(first, address)
        assert (status, set(opened)) == (201, json_keys(0))
        asked = [curl(command, address, ID=opened["id"], URL=opened["url"]) for command in rest]
    assert [status for status, _ in asked] == [200] * len(rest)
    called, listed, diff, verdict, closed, health = (found for _, found in asked)
    assert not called["result"]["isError"]
    assert [instance["id"] for instance in listed["instances"]] == [opened["id"]]
    assert diff["diff"] == {}
    assert (verdict["outcome"], set(verdict)) == ("COMPLETED", json_keys(1))
    assert (closed["closed"], health["instances"]) == (True, 0)


def json_keys(number: int) -> set[str]:
    """Keys of the page's JSON examples."""
    blocks = [text for language, _, text in fences(ROOT / "docs" / "serving.md") if language == "json"]
    return set(json.loads(blocks[number]))


def test_the_routes_on_the_page_on_serving_are_those_of_the_server() -> None:
    routes = {route.path.removesuffix("/") for route in build_app({}).routes if isinstance(route, Route)}
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8").split("## All routes")[1]
    assert set(re.findall(r"^\| `(?:[A-Z]+ )?(/\S+)` \|", page, re.MULTILINE)) == routes


def test_the_tutorial_leads_to_an_environment_that_passes(tmp_path: Path) -> None:
    page = ROOT / "docs" / "write-an-environment.md"
    build_tutorial(page, tmp_path)
    for command in commands(page):
        if not command.startswith("awm-hub new"):
            run(command, tmp_path)


def build_tutorial(page: Path, folder: Path) -> None:
    """Do what the page says: scaffold, write its files over the scaffold's, pack."""
    run("awm-hub new ferry_port_1", folder)
    run("awm-hub pack ferry_port_1 -o first", folder)
    for _, file, text in fences(page):
        if file:
            (folder / "ferry_port_1" / file).write_text(text, encoding="utf-8")
    run("awm-hub pack ferry_port_1 -o out", folder)


def run(command: str, folder: Path) -> str:
    """Run one command line of the documentation, which must succeed; what it prints."""
    words = shlex.split(command, comments=True)
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    done = subprocess.run(
        [*AWM_HUB, *words[1:]],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
