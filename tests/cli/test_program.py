"""What holds for every verb: envelopes, exit codes, no traceback."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import awm_hub
from awm_hub import errors
from awm_hub.cli import listing, main
from awm_hub.cli.program import VERBS, build_parser


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `awm-hub list` fail with an error."""

    def run(*_: Any) -> None:
        raise error

    monkeypatch.setattr(listing, "run", run)


def envelope(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one JSON object on stdout."""
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("m", next_step="n"), 2),
        (errors.DataError("m", next_step="n"), 3),
        (errors.RecordError("m", next_step="n"), 3),
        (errors.FormatVersionError("m", next_step="n"), 3),
        (errors.LimitError("m", next_step="n"), 3),
        (errors.SourceError("m", next_step="n"), 3),
        (errors.SandboxError("m", next_step="n"), 4),
        (errors.SealError("m", next_step="n"), 4),
        (errors.LoadError("m", next_step="n"), 4),
        (errors.WorkerError("m", next_step="n"), 4),
        (errors.EpisodeError("m", next_step="n"), 4),
        (errors.JudgeError("m", next_step="n"), 4),
        (errors.RemoteError("m", next_step="n"), 5),
    ],
    ids=lambda v: type(v).__name__,
)
def test_each_error_has_its_exit_code_message_and_next_step(
    error: errors.AwmHubError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, error)
    assert main(["list"]) == code
    assert capsys.readouterr() == ("", "awm-hub: m\n  next: n\n")
    assert main(["list", "--json"]) == code
    assert envelope(capsys) == {
        "command": "list",
        "version": awm_hub.__version__,
        "ok": False,
        "error": {"type": type(error).__name__, "message": "m", "next": "n"},
    }


def test_interruption_is_130_and_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    assert main(["list"]) == 130
    assert capsys.readouterr() == ("", "awm-hub: interrupted\n")


def test_a_file_that_cannot_be_read_is_bad_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, PermissionError(13, "Permission denied", "/x"))
    assert main(["list"]) == 3
    assert capsys.readouterr().err == "awm-hub: Permission denied: /x\n  next: check the path and its permissions\n"


def test_a_fault_of_our_own_is_one_line_and_a_traceback_only_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, ZeroDivisionError("division by zero"))
    assert main(["list"]) == 4
    assert "Traceback" not in capsys.readouterr().err
    assert main(["list", "--json", "--debug"]) == 4
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["type"] == "InternalError"
    assert "Traceback" in err


def test_messages_cannot_act_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, errors.DataError("\x1b]0;owned\x07\u202e", next_step="\x1b[2J"))
    main(["list"])
    assert capsys.readouterr().err == "awm-hub: \\x1b]0;owned\\x07\\u202e\n  next: \\x1b[2J\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lst"], "argument VERB: invalid choice: 'lst'"),
        (["list", "--colour"], "unrecognized arguments: --colour"),
        (["list", "--split", "dev"], "argument --split: invalid choice: 'dev'"),
        (["call"], "the following arguments are required: ENV"),
        (["call", "notes", "add", "--seed", "x"], "argument --seed: invalid int value: 'x'"),
        (["demo", "--seed", str(2**63)], f"argument --seed: {2**63} is outside 64 bits"),
        (["call", "notes", "add", "a=1", "--nope"], "unrecognized arguments: --nope"),
        (["list", "extra"], "unrecognized arguments: extra"),
    ],
)
def test_a_wrong_command_line_is_2_in_text_and_json(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"awm-hub: {message}")
    assert "--help" in err
    assert main([*words, "--json"]) == 2
    error = envelope(capsys)["error"]
    assert error["type"] == "UsageError"
    assert error["message"].startswith(message)


@pytest.mark.parametrize(
    ("words", "usage"), [([], "awm-hub"), (["help"], "awm-hub"), (["help", "list"], "awm-hub list")]
)
def test_whoever_asks_for_nothing_or_for_help_gets_help(
    words: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {usage} [")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    assert f"awm-hub {verb}" in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_json_and_debug(verb: str) -> None:
    text = help_of(verb)
    assert "--json" in text
    assert "--debug" in text


@pytest.mark.parametrize("columns", ["40", "200"])
def test_help_is_the_same_on_every_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = help_of("call")
    monkeypatch.setenv("COLUMNS", columns)
    assert help_of("call") == expected


def help_of(verb: str) -> str:
    """The help text of a verb."""
    (verbs,) = (a for a in build_parser()._actions if a.dest == "verb")
    text: str = dict(verbs.choices or {})[verb].format_help()  # type: ignore[call-overload]
    return text


@pytest.fixture
def slow_verb(tmp_path: Any) -> Iterator[list[str]]:
    """A command that prints a line and then waits, as a program that can be signalled."""
    code = (
        "import sys, time\n"
        "from awm_hub.cli import listing, main\n"
        "def run(arguments, console):\n"
        "    console.say('started')\n"
        "    time.sleep(60)\n"
        "listing.run = run\n"
        "sys.exit(main(['list']))\n"
    )
    return [sys.executable, "-c", code]


def test_ctrl_c_leaves_with_130_and_no_traceback(slow_verb: list[str]) -> None:
    with subprocess.Popen(slow_verb, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "awm-hub: interrupted\n"


def test_ctrl_c_while_the_program_is_still_loading_is_quiet() -> None:
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'awm_hub.cli.program':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from awm_hub.cli import main\n"
        "sys.exit(main(['list']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "awm-hub: interrupted\n")


def test_a_next_step_leads_to_the_dataset_and_revision_that_were_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = {
        "awm-hub list": "awm-hub list --dataset 'my set' --revision v1",
        "`awm-hub list` shows all": "`awm-hub list --dataset 'my set' --revision v1` shows all",
        "awm-hub show x --tools; or ask": "awm-hub show x --tools --dataset 'my set' --revision v1; or ask",
        "awm-hub show x --dataset y": "awm-hub show x --dataset y",
        "awm-hub pack x": "awm-hub pack x",
        "awm-hub call --help": "awm-hub call --help",
        "look at awm-hub list": "look at awm-hub list",
    }
    for given, expected in steps.items():
        raising(monkeypatch, errors.DataError("m", next_step=given))
        main(["list", "--dataset", "my set", "--revision", "v1", "--json"])
        assert envelope(capsys)["error"]["next"] == expected
        main(["list", "--json"])
        assert envelope(capsys)["error"]["next"] == given


def test_a_closed_pipe_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    code = (
        "import sys\n"
        "from awm_hub.cli import listing, main\n"
        "listing.run = lambda arguments, console: [console.say('x' * 1000) for _ in range(1000)]\n"
        "sys.exit(main(['list']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_locale_without_the_characters_does_not_fail_the_command() -> None:
    code = (
        "import sys\n"
        "from awm_hub.cli import listing, main\n"
        "from awm_hub.cli.outcomes import Finished\n"
        "listing.run = lambda arguments, console: [console.say('a → b'), Finished(data=None)][1]\n"
        "sys.exit(main(['list']))\n"
    )
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout == "a \\u2192 b\n"


def test_json_is_utf8_whatever_the_locale() -> None:
    code = (
        "import sys\n"
        "from awm_hub.cli import listing, main\n"
        "from awm_hub.cli.outcomes import Finished\n"
        "listing.run = lambda arguments, console: Finished(data={'title': 'café \\u2028'})\n"
        "sys.exit(main(['list', '--json']))\n"
    )
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=True)
    assert json.loads(done.stdout.decode("utf-8"))["data"] == {"title": "café \u2028"}
    assert "café \\u2028".encode() in done.stdout
