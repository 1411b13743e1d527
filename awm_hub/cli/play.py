"""`awm-hub play`: an environment for people, one line at a time.

A line calls a tool, as on the command line of `call`, or is one of a few commands. It works piped as well: then each
line is echoed before its result, so that the output reads like the session. Completion is where Python has `readline`.
"""

import argparse
import contextlib
import difflib
import io
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.cli.arguments import read_arguments
from awm_hub.cli.choosing import chosen_environment, naming_dataset
from awm_hub.cli.options import Verbs, add_dataset, add_launch, add_verb
from awm_hub.cli.playing import COMMANDS, completer, help_lines, task_lines, tool_lines, tools_lines
from awm_hub.cli.reports import Finished
from awm_hub.cli.terminal import Console, clean, clean_line, counted
from awm_hub.errors import AwmHubError, UsageError

if TYPE_CHECKING:
    from awm_hub.environment import Environment, Task
    from awm_hub.runtime import Instance, Snapshot
    from awm_hub.trajectory import Trajectory, Verdict
    from awm_hub.viewing.document import Block

_PROMPT = "> "
_DETAILS = """A line is a tool with its arguments (search_members query=Mateo limit=1) or a command; help lists them.

The session ends with quit or with the input. Exit code 1 says that the last answer did not complete its task."""


@dataclass(frozen=True, kw_only=True)
class PlayReport:
    """`play`: what was done in the last episode of a session."""

    environment: str
    task: str | None
    trajectory: Mapping[str, Any]
    """The episode; its verdicts are in it."""
    verdict: Mapping[str, Any] | None
    """Null where no answer was submitted, or nobody could judge it."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "play",
        "Work on a task yourself: call tools, see the rows that change, submit an answer, see the verdict.",
        details=_DETAILS,
        examples=(
            "awm-hub play public_library_1",
            "awm-hub play public_library_1 --task owed_by_ingeborg",
            "printf 'get_member member_id=1\\nsubmit 8.55\\n' | awm-hub play public_library_1 --task owed_by_ingeborg",
        ),
    )
    parser.add_argument("environment", metavar="ENV", help="id of the environment")
    parser.add_argument("--task", metavar="TASK", help="task to begin with")
    add_dataset(parser)
    add_launch(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Play."""
    environment = chosen_environment(arguments)
    with naming_dataset(arguments):
        session = _Session(environment, arguments, console)
    with contextlib.closing(session):
        session.begin()
        for line in _lines(environment, console):
            if not session.obey(line):
                break
        return session.finished()


def _lines(environment: "Environment", console: Console) -> Iterator[str]:
    """The lines of the session, from a terminal or from a pipe."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # bytes that are no UTF-8 are refused as arguments
    is_asked = sys.stdin.isatty() and not console.is_json
    with _completing(environment) if is_asked else contextlib.nullcontext():
        while True:
            try:
                line = input(_PROMPT) if is_asked else sys.stdin.readline()
            except EOFError:
                console.say()
                return
            if not is_asked and not line:
                return
            if not is_asked:
                console.say(_PROMPT + clean_line(line.rstrip("\r\n")))
            yield line.strip()


@contextlib.contextmanager
def _completing(environment: "Environment") -> Iterator[None]:
    """Completion of the prompt, where Python has it."""
    try:
        import readline
    except ImportError:
        yield
        return
    find = completer(environment)

    def complete(_: str, state: int) -> str | None:
        found = find(readline.get_line_buffer()[: readline.get_endidx()])
        return found[state] if state < len(found) else None

    is_libedit = "libedit" in (readline.__doc__ or "")
    before = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer_delims(" \t")
    readline.set_completer(complete)
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before[0])
        readline.set_completer_delims(before[1])


class _Session:
    """A session: one live instance at a time, the states to go back to, and what each command does."""

    def __init__(self, environment: "Environment", arguments: argparse.Namespace, console: Console) -> None:
        self._environment, self._arguments, self._console = environment, arguments, console
        self._verdict: Verdict | None = None
        self._past: list[Snapshot] = []
        self._instance: Instance = self._launched(arguments.task)

    def close(self) -> None:
        """Free the instance."""
        self._instance.close()

    def begin(self) -> None:
        """Say where one is and what to do."""
        e = self._environment
        self._say(self._console.style(f"{e.id}: {clean_line(e.title)}", "bold"))
        if e.rules.strip():
            self._say(self._console.wrapped(e.rules.strip()))
        self._say()
        self._task("")
        self._say("`help` says what can be done, `tools` lists the tools")

    def obey(self, line: str) -> bool:
        """Do what a line says; whether the session goes on."""
        word, _, rest = line.partition(" ")
        if not word or word.startswith("#"):
            return True
        if word == "quit":
            return False
        try:
            self._action(word)(rest.strip())
        except AwmHubError as error:
            self._say(self._console.style(clean(error.message), "yellow"))
            if error.next_step and not error.next_step.startswith("awm-hub"):
                self._say(f"  next: {clean(error.next_step)}")
        return True

    def finished(self) -> Finished:
        """The report of the last episode."""
        trajectory = self._trajectory()
        task = self._instance.task
        report = PlayReport(
            environment=self._environment.id,
            task=None if task is None else task.id,
            trajectory=trajectory.to_dict(),
            verdict=None if self._verdict is None else self._verdict.to_dict(),
        )
        return Finished(data=report, exit_code=1 if self._is_missed() else 0)

    def _is_missed(self) -> bool:
        """Whether an answer was submitted that completes nothing, as far as is known."""
        if self._verdict is None:
            return self._instance.is_ended and self._instance.task is not None
        return self._verdict.outcome.value != "COMPLETED"

    def _action(self, word: str) -> Callable[[str], None]:
        """What a line's first word stands for; a command goes before a tool of the same name."""
        if word in COMMANDS:
            found: Callable[[str], None] = getattr(self, f"_{word}")
            return found
        tools = [t.name for t in self._environment.tools]
        if word in tools:
            return lambda rest: self._call_tool(word, rest)
        if word.isdecimal() and self._instance.task is None:
            return lambda rest: self._task(word)
        close = difflib.get_close_matches(word, [*tools, *COMMANDS], n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "`help` lists what there is"
        raise UsageError(f"no tool and no command named {word!r}", next_step=hint)

    def _launched(self, task: str | None) -> "Instance":
        from awm_hub.runtime import launch

        trust, seed = self._arguments.trust_remote_code, self._arguments.seed
        return launch(self._environment, task=task, seed=seed, trust_remote_code=trust)

    def _help(self, rest: str) -> None:
        tool = self._environment.tool(rest) if rest else None
        self._print(help_lines(self._console) if tool is None else tool_lines(tool, self._console))

    def _tools(self, rest: str) -> None:
        self._print(tools_lines(self._environment, rest))

    def _task(self, rest: str) -> None:
        """Choose a task by number or name; without either, show the current one or those there are."""
        if rest:
            chosen = self._chosen(rest)
            before, self._instance = self._instance, self._launched(chosen.slug)
            before.close()
            self._past, self._verdict = [], None
        task = self._instance.task
        if task is None:
            self._print(task_lines(self._environment))
            self._say("`task` and a number chooses one; tools can be called without")
        else:
            self._say(self._console.style(task.slug, "bold"))
            self._say(self._console.wrapped(task.prompt.strip()))
        self._say()

    def _tasks(self, rest: str) -> None:
        self._print(task_lines(self._environment))

    def _chosen(self, name: str) -> "Task":
        tasks = self._environment.tasks
        is_number = name.isdecimal() and 1 <= int(name) <= len(tasks)
        return tasks[int(name) - 1] if is_number else self._environment.task(name)

    def _call(self, rest: str) -> None:
        name, _, words = rest.partition(" ")
        if not name:
            raise UsageError("call needs the name of a tool", next_step="`tools` lists them")
        self._call_tool(name, words.strip())

    def _call_tool(self, name: str, words: str) -> None:
        """Call a tool, and show its result and the rows that it changed."""
        from awm_hub.canonical import from_json
        from awm_hub.viewing.document import Rows, Section
        from awm_hub.viewing.rollout import result_blocks, result_labels

        if self._instance.is_ended:
            raise UsageError("the episode has ended", next_step="`undo` takes the answer back, `reset` begins again")
        tool = self._environment.tool(name)
        is_json = words.startswith("{")
        values = from_json(words, "the object") if is_json else read_arguments(tool, _split(words), None)
        before, image = self._instance.snapshot(), self._instance.image()
        result = self._instance.call_tool(name, values)
        self._past.append(before)
        step = self._instance.steps[-1]
        is_changed = step.state_version != before.state_version
        rows: tuple[Block, ...] = (Rows(diff=self._rows_since(image)),) if is_changed else ()
        blocks = (*result_blocks(result), *rows)
        title = f"{len(self._instance.steps)}. {name}"
        self._blocks(Section(title=title, labels=result_labels(result), blocks=blocks))
        if result.type == "invalid_call":
            self._say(f"   `help {clean_line(name)}` shows its parameters")

    def _rows_since(self, image: bytes) -> Any:
        from awm_hub.runtime import jobs, sync

        trust = self._instance.tier == "process"
        return sync.run(jobs.state_diff, image, self._instance.image(), trust_remote_code=trust)

    def _diff(self, rest: str) -> None:
        from awm_hub.viewing.document import Rows

        self._blocks(Rows(diff=self._instance.diff()))

    def _undo(self, rest: str) -> None:
        if not self._past:
            raise UsageError("there is nothing to undo")
        self._instance.restore(self._past.pop())
        self._verdict = None
        self._say(f"back after {counted(len(self._instance.steps), 'call')}")

    def _reset(self, rest: str) -> None:
        self._instance.reset()
        self._past, self._verdict = [], None
        self._say("back at the beginning")

    def _submit(self, rest: str) -> None:
        """End the episode with an answer, and judge it."""
        from awm_hub.judging import judge
        from awm_hub.viewing.rollout import verdict_section

        before = self._instance.snapshot()
        self._instance.submit(rest or None)
        self._past.append(before)
        if self._instance.task is None:
            self._say("submitted; without a task there is nothing to judge. `task` chooses one")
            return
        self._verdict = judge(self._instance.trajectory())
        self._blocks(verdict_section(self._verdict))
        self._say("\n`undo` takes the answer back, `reset` begins again, `task` chooses another, `quit` leaves")

    def _save(self, rest: str) -> None:
        """Write the episode to a file that `view` and `rollout --policy replay:FILE` read."""
        from awm_hub.canonical import to_json

        if not rest:
            raise UsageError("save needs the name of a file", next_step="save mine.json")
        try:
            with open(Path(rest), "x", encoding="utf-8", newline="\n") as file:
                file.write(to_json(self._trajectory().to_dict()))
        except OSError as error:
            raise UsageError(f"{rest} cannot be written: {error.strerror}", next_step="name another file") from error
        self._say(f"wrote {clean_line(rest)}")

    def _trajectory(self) -> "Trajectory":
        verdicts = () if self._verdict is None else (self._verdict,)
        return replace(self._instance.trajectory(), policy={"kind": "person"}, verdicts=verdicts)

    def _blocks(self, *blocks: "Block") -> None:
        from awm_hub.cli.documents import block_lines

        self._print(block_lines(blocks, self._console))

    def _print(self, lines: Iterator[str]) -> None:
        for line in lines:
            self._say(line)

    def _say(self, text: str = "") -> None:
        self._console.say(text)


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as error:
        step = """quote the whole value, name="O'Brien", or give all arguments as JSON: {"name": "O'Brien"}"""
        raise UsageError(f"the quotes do not match: {error}", next_step=step) from error
