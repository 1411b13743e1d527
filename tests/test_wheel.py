"""The wheel alone is enough: built, installed into a fresh environment without extras, it runs."""

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow
"""Installing takes most of a minute; `.ci/run` does it each time."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT))
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs of a fresh environment that has the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel))
    return folder / "bin"


def test_the_wheel_carries_data_types_and_licence_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "awm_hub/py.typed" in names
    assert any(n.startswith("awm_hub/bundled/environments/") and n.endswith(".parquet") for n in names)
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert {f"awm_hub/spaces/playground/{n}" for n in ("app.py", "requirements.txt", "README.md")} <= set(names)
    assert {n.split("/")[0].split("-")[0] for n in names} <= {"awm_hub"}


def test_help_runs_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    assert run(str(installed / "awm-hub"), "--help", cwd=tmp_path).startswith("usage: awm-hub")


def test_list_shows_the_bundled_environments(installed: Path, tmp_path: Path) -> None:
    found = json.loads(run(str(installed / "awm-hub"), "list", "--json", cwd=tmp_path))
    assert found["ok"] is True
    assert {e["id"] for e in found["data"]["environments"]} >= {"field_service_1", "public_library_1"}


def test_a_call_runs_in_the_installed_package(installed: Path, tmp_path: Path) -> None:
    words = ("call", "public_library_1", "search_members", "query=Mateo", "--json")
    found = json.loads(run(str(installed / "awm-hub"), *words, cwd=tmp_path))
    assert found["data"]["result"]["type"] == "ok"
    assert "Mateo" in json.dumps(found["data"]["result"]["value"])


@pytest.mark.parametrize("recipe", sorted((ROOT / "training").glob("*.py")), ids=lambda path: path.stem)
def test_what_a_recipes_header_asks_for_can_be_installed_together(recipe: Path, wheel: Path) -> None:
    words = ("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--find-links", str(wheel.parent))
    told = run(sys.executable, "-m", "uv", *words, "--python", sys.executable, "--upgrade", str(recipe))
    found = dict(line.split("==") for line in told.splitlines() if "==" in line and ";" not in line)
    assert found["awm-hub"] == wheel.name.split("-")[1]
    assert found["trl"].startswith("1.16.")
    assert "mcp" in found
    assert ("vllm" in found) == recipe.stem.startswith("grpo")


@pytest.mark.parametrize("loader", sorted((ROOT / "loaders").glob("*.py")), ids=lambda path: path.stem)
def test_what_a_loaders_header_asks_for_can_be_installed_together(loader: Path, wheel: Path) -> None:
    words = ("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--find-links", str(wheel.parent))
    told = run(sys.executable, "-m", "uv", *words, "--python", sys.executable, "--upgrade", str(loader))
    assert f"awm-hub=={wheel.name.split('-')[1]}" in told.splitlines()


def run(*command: str, cwd: Path = ROOT) -> str:
    """Run a command; its output."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
