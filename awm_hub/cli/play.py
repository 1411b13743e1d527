"""`awm-hub play`: an environment for people, one line at a time.

A line calls a tool, as on the command line of `call`, or is one of a few commands. It works piped as well.
"""

import argparse
import contextlib
import difflib
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.cli.arguments import read_arguments
from awm_hub.cli.choosing import chosen_environment, naming_dataset
from awm_hub.cli.options import Verbs, add_dataset, add_launch, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.playing import COMMANDS, help_lines, task_lines, tool_lines, tools_lines
from awm_hub.cli.prompting import lines
from awm_hub.cli.terminal import Console, clean, clean_line, counted
from awm_hub.errors import AwmHubError, UsageError

if TYPE_CHECKING:
    from awm_hub.environment import Environment, Task
    from awm_hub.runtime import Instance, Snapshot
    from awm_hub.trajectory import Trajectory, Verdict
    from awm_hub.viewing.document import Block

_LINES, _CHARACTERS = 60, 8_000
"""Of a result; `result` shows the rest."""
_ENDED = "`undo` takes the answer back, `reset` begins again"
_DETAILS = """A line is a tool with its arguments (search_members query=Mateo limit=1) or a command; help lists them.

The session ends with quit, with the input, or with Ctrl-C twice. Exit code 1 says that the last answer did not complete
its task."""


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
    parser.add_argument("--task", metavar="TASK", help="task to begin with, its name or number")
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
        for line in lines(environment, console):
            if not session.obey(line):
                break
        return session.finished()


class _Session:
    """A session: one live instance at a time, the states to go back to, and what each command does."""

    def __init__(self, environment: "Environment", arguments: argparse.Namespace, console: Console) -> None:
        self._environment, self._arguments, self._console = environment, arguments, console
        self._verdict: Verdict | None = None
        self._past: list[Snapshot] = []
        task = None if arguments.task is None else self._chosen(arguments.task).slug
        self._instance: Instance = self._launched(task)

    def close(self) -> None:
        """Free the instance."""
        self._instance.close()

    def begin(self) -> None:
        """Say where one is and what to do."""
        self._say(self._console.style(self._environment.id, "bold"))
        self._briefing("")
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

    def _briefing(self, rest: str) -> None:
        """Say what an agent is told: the scenario, who asks, the rules, and what day it is."""
        self._say(self._console.wrapped(self._environment.briefing))

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
        from awm_hub.viewing.document import Rows

        self._check_running()
        tool = self._environment.tool(name)
        is_json = words.startswith("{")
        values = from_json(words, "the object") if is_json else read_arguments(tool, _split(words), None)
        before, image = self._instance.snapshot(), self._instance.image()
        result = self._instance.call_tool(name, values)
        self._past.append(before)
        step = self._instance.steps[-1]
        is_changed = step.state_version != before.state_version
        rows: tuple[Block, ...] = (Rows(diff=self._rows_since(image)),) if is_changed else ()
        number = len(self._instance.steps)
        self._blocks(self._shown_call(number, rows), rest=f"`result {number}` shows all")
        if result.type == "invalid_call":
            self._say(f"   `help {clean_line(name)}` shows its parameters")

    def _shown_call(self, number: int, rows: "tuple[Block, ...]" = ()) -> "Block":
        from awm_hub.viewing.document import Section
        from awm_hub.viewing.rollout import result_blocks, result_labels

        step = self._instance.steps[number - 1]
        blocks = (*result_blocks(step.result), *rows)
        return Section(title=f"{number}. {step.tool}", labels=result_labels(step.result), blocks=blocks)

    def _result(self, rest: str) -> None:
        """Show a whole result, however long; without a number the last one."""
        count = len(self._instance.steps)
        if not count:
            raise UsageError("no call was made yet", next_step="`tools` lists the tools")
        if rest and not (rest.isdecimal() and 1 <= int(rest) <= count):
            raise UsageError(f"there is no call {rest}", next_step=f"`result` and a number from 1 to {count}")
        self._blocks(self._shown_call(int(rest or count)))

    def _check_running(self) -> None:
        if self._instance.is_ended:
            raise UsageError("the episode has ended", next_step=_ENDED)

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

        self._check_running()
        before = self._instance.snapshot()
        self._instance.submit(rest or None)
        self._past.append(before)
        if self._instance.task is None:
            self._say("submitted; without a task there is nothing to judge. `task` chooses one")
            return
        self._verdict = judge(self._instance.trajectory())
        self._blocks(verdict_section(self._verdict))
        self._say(f"\n{_ENDED}, `task` chooses another, `quit` leaves")

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

    def _blocks(self, *blocks: "Block", rest: str = "") -> None:
        """Show blocks, cut where `rest` says how to see the rest."""
        from awm_hub.cli.documents import Extent, block_lines

        extent = Extent(lines=_LINES, characters=_CHARACTERS, rest=rest) if rest else Extent()
        self._print(block_lines(blocks, self._console, extent))

    def _print(self, found: Iterable[str]) -> None:
        for line in found:
            self._say(line)

    def _say(self, text: str = "") -> None:
        self._console.say(text)


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as error:
        step = """quote the whole value, name="O'Brien", or give all arguments as JSON: {"name": "O'Brien"}"""
        raise UsageError(f"the quotes do not match: {error}", next_step=step) from error
