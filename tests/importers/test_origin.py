import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import awm_hub as awm
from awm_hub.errors import SourceError
from awm_hub.importers import import_awm1k, origin


def test_a_folder_without_any_of_the_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gen_other.jsonl").write_text("{}")
    with pytest.raises(SourceError, match="holds none of upstream's files"):
        import_awm1k(tmp_path, tmp_path / "out")


def test_what_is_neither_folder_nor_repo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.jsonl").write_text("{}")
    for source in (tmp_path / "nowhere", tmp_path / "file.jsonl", "one-word"):
        with pytest.raises(SourceError, match="is neither a folder nor a repo id"):
            import_awm1k(source, tmp_path / "out")


def test_the_licence_of_a_local_folder_is_what_the_user_says(upstream) -> None:
    upstream.whole("Marina")
    out = upstream.folder.parent / "out"
    report = import_awm1k(upstream.folder, out, license="CC0-1.0")
    assert report.license == "CC0-1.0"
    assert awm.load(out)["marina"].provenance.license == "CC0-1.0"


def from_hub(endpoint: str, tmp_path: Path, *sources: tuple[str, str | None]) -> list[Any]:
    """Import in a process of its own, as the Hub's address is read once: each report, or the error's lines."""
    program = """
import json, sys
from awm_hub.errors import RemoteError
from awm_hub.importers import import_awm1k
out, *sources = sys.argv[1:]
for number, source in enumerate(sources):
    source, revision = json.loads(source)
    try:
        print(json.dumps(import_awm1k(source, f"{out}/{number}", revision=revision).to_dict()))
    except RemoteError as error:
        print(json.dumps(str(error).splitlines()))
"""
    home = {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1"}
    arguments = [sys.executable, "-c", program, str(tmp_path), *map(json.dumps, sources)]
    done = subprocess.run(arguments, env={**os.environ, **home}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_dataset_on_the_hub_is_imported_at_its_commit(upstream, loopback_hub: str, tmp_path: Path) -> None:
    upstream.whole("Marina")
    (upstream.folder / "README.md").write_text("not one of the files")
    name = "awm-tests/marina-run"
    sources = [(name, None), (name, "v2"), (f"hf://datasets/{name}", None), (f"hf://datasets/{name}@v2", None)]
    first, *others = from_hub(loopback_hub, tmp_path, *sources)
    assert [other == first for other in others] == [True] * 3
    assert (first["source"], first["license"]) == ("awm-tests/marina-run", "unknown")
    assert first["source_revision"] == "0123456789abcdef0123456789abcdef01234567"
    assert [e["id"] for e in first["environments"]] == ["marina"]
    assert awm.load(tmp_path / "0")["marina"].provenance.source_revision == first["source_revision"]
    assert not list((tmp_path / "hf").rglob("README.md"))


def test_what_the_hub_does_not_give_is_a_remote_error(upstream, loopback_hub: str, tmp_path: Path) -> None:
    upstream.whole("Marina")
    revision, repo, uri = from_hub(
        loopback_hub,
        tmp_path,
        ("awm-tests/marina-run", "v9"),
        ("awm-tests/nowhere", None),
        ("hf://datasets/awm-tests/marina-run@v9", None),
    )
    assert revision[0].startswith("cannot download awm-tests/marina-run at v9: ")
    assert revision[1] == (
        "  next: check the name, the revision and the network; there is no folder of this name here either"
    )
    assert repo[0].startswith("cannot download awm-tests/nowhere: ")
    assert uri[0].startswith("cannot download awm-tests/marina-run at v9: ")


def test_a_hub_out_of_reach_is_a_remote_error(tmp_path: Path) -> None:
    (lines,) = from_hub("http://127.0.0.1:9", tmp_path, ("awm-tests/marina-run", None))
    assert lines[0].startswith("cannot download awm-tests/marina-run: ")


def test_only_upstreams_own_dataset_is_known_to_be_licensed() -> None:
    assert (origin.OFFICIAL, origin.OFFICIAL_LICENSE) == ("Snowflake/AgentWorldModel-1K", "CC-BY-4.0")


def test_a_folder_that_could_also_be_a_repo_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "awm-tests" / "marina-run").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError) as caught:
        import_awm1k("awm-tests/marina-run", tmp_path / "out")
    assert caught.value.next_step.endswith("is hf://datasets/awm-tests/marina-run")
