import json
import subprocess
import sys
import textwrap
from importlib.metadata import version
from typing import Any

import pytest

import awm_hub
from awm_hub import errors

HEAVY = {
    "datasets", "fastapi", "huggingface_hub", "jsonschema", "mcp", "pyarrow", "pydantic", "sqlalchemy", "starlette",
}  # fmt: skip


def run(code: str) -> Any:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_all_is_sorted_and_without_repeats() -> None:
    assert list(awm_hub.__all__) == sorted(set(awm_hub.__all__))


@pytest.mark.parametrize("name", awm_hub.__all__)
def test_every_public_name_resolves_and_is_documented(name: str) -> None:
    found = getattr(awm_hub, name)
    assert name == "__version__" or (found.__doc__ or "").strip()


@pytest.mark.parametrize("name", [n for n in awm_hub.__all__ if n[0].isupper()])
def test_every_public_method_is_documented(name: str) -> None:
    kind = getattr(awm_hub, name)
    public = {k: v for k, v in vars(kind).items() if not k.startswith("_")}
    functions = {k: getattr(v, "__func__", v) for k, v in public.items() if callable(getattr(v, "__func__", v))}
    properties = {k: v for k, v in public.items() if isinstance(v, property)}
    assert [k for k, v in {**functions, **properties}.items() if not (v.__doc__ or "").strip()] == []


def test_every_error_class_is_public() -> None:
    kinds = {k for k, v in vars(errors).items() if isinstance(v, type) and issubclass(v, errors.AwmHubError)}
    assert kinds <= set(awm_hub.__all__)


def test_the_example_of_the_docstring_runs() -> None:
    lines = (awm_hub.__doc__ or "").splitlines()
    program = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("How much does Ingeborg Adeyemi-Holm owe")
    assert done.stdout.endswith("\nCOMPLETED\n")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lunch'"):
        awm_hub.lunch  # noqa: B018


def test_dir_lists_names_that_are_not_imported_yet() -> None:
    assert run("import awm_hub, json; print(json.dumps('launch' in dir(awm_hub)))") is True


def test_the_version_is_the_installed_one() -> None:
    assert version("awm-hub") == awm_hub.__version__


@pytest.mark.parametrize(
    "code",
    ["import awm_hub", "from awm_hub.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"],
    ids=["import", "help"],
)
def test_import_and_help_load_nothing_heavy_and_take_under_a_fifth_of_a_second(code: str) -> None:
    facts = run(
        "import sys, json, time\n"
        "start = time.process_time()\n"
        f"{code}\n"
        "spent = time.process_time() - start\n"
        "print()\n"
        "print(json.dumps([spent, sorted({m.partition('.')[0] for m in sys.modules})]))"
    )
    assert HEAVY & set(facts[1]) == set()
    assert facts[0] < 0.2


def test_python_m_is_the_console_script() -> None:
    done = subprocess.run([sys.executable, "-m", "awm_hub", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"awm-hub {awm_hub.__version__}\n"
