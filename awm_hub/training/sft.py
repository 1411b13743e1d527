"""Examples to learn the protocol from before reinforcement learning: solutions, and rollouts that were completed.

An example is one assistant message and what the policy sees before it: `{"prompt": [...], "completion": [...]}`, which
TRL's `SFTTrainer` takes as it is, with loss on the completion alone. One function of `awm_hub.history` decides what is
seen, here as in rollouts and in evaluation: a policy that learns from other cuts of the history than it is used with
loses most of what it learned (paper §5). `full_history=True` gives a conversation as one row `{"messages": [...]}`, to
be trained on with `assistant_only_loss=True`.

Messages are in the text protocol: the thought in `<think>`, then one `<tool_call>` or the answer, and `list_tools`
first. Earlier thoughts stay in the history, as in rollouts for training, unless `keeps_thoughts` says otherwise; train
with the template of `awm_hub.training.tokens.trainable_template`, which repeats such messages character by character.
Whatever would teach a broken format is left out, and so is what is for evaluation only.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from awm_hub.environment import Call, Environment
from awm_hub.errors import ContextFullError, DataError
from awm_hub.history import Window, visible
from awm_hub.hub import Environments
from awm_hub.hub.subsets import SOUND
from awm_hub.inference import Reply
from awm_hub.policy import Action, Message, SolutionPolicy, View, opening, parse
from awm_hub.policy.chat import RESULT_CHARS
from awm_hub.policy.conversation import shortened, tokens, told, written
from awm_hub.policy.parsing import split_thoughts
from awm_hub.policy.protocols import CALL_TOOL, LIST_TOOLS, Naming, action_of, listing
from awm_hub.rollouts import MAX_TURNS, Rollout, rollout
from awm_hub.rollouts.dataset import read_rollouts
from awm_hub.rollouts.plans import as_mapping
from awm_hub.training.tasks import sound_tasks
from awm_hub.trajectory import Trajectory

Row = dict[str, list[Message]]
Thinking = Callable[[Call | None, int], str]
"""The thought before a call, or before the answer (None), at a turn's position."""
Counting = Callable[[Sequence[Message]], int]
"""Tokens of some messages."""


def plain_thought(call: Call | None, turn: int) -> str:
    """A short thought that says what comes next: rule 1 of the format wants one (paper §4)."""
    if turn == 0:
        return "First I look up which tools there are."
    return "Everything is done, so I answer." if call is None else f"Next I call {call.tool}."


def examples_of_solutions(
    environments: Environment | Mapping[str, Environment] | Iterable[Environment],
    *,
    window: Window | None = None,
    full_history: bool = False,
    tasks: Collection[str] | None = None,
    split: str = "train",
    requires: Mapping[str, bool | int] | None = SOUND,
    thinking: Thinking = plain_thought,
    result_chars: int = RESULT_CHARS,
    keeps_thoughts: bool = True,
    count: Counting = tokens,
    max_turns: int = MAX_TURNS,
    concurrency: int = 8,
    out: str | os.PathLike[str] | None = None,
    trust_remote_code: bool = False,
) -> Iterator[Row]:
    """Rows of reference solutions, each carried out on an instance, so that the results in it are real ones.

    A solution is used only if the code judges its ending COMPLETED and no rule of the format is broken on the way.

    Args:
        environments: One environment, several, or what `awm_hub.load` returns.
        window: What is seen of the history; default: all of it.
        full_history: One row per solution.
        tasks: Ids of tasks, such as a subset's; default: all.
        split: Of the environments.
        requires: Results of the audit that a task needs; None: nothing needs to be audited.
        thinking: Writes the thoughts.
        result_chars: Longer results are shortened, as `ChatPolicy` does.
        keeps_thoughts: Whether thoughts of earlier turns are seen.
        count: Tokens of messages, for a window of tokens; by default the estimate that `ChatPolicy` uses.
        max_turns: Longer solutions are left out.
        concurrency: Instances at the same time.
        out: Directory of the run, to look at it or to go on after an interruption; default: a temporary one.
        trust_remote_code: Run without a seal where this machine cannot seal a process.

    Raises:
        DataError: no such task has a reference solution, or none can be learnt from.
    """
    found = as_mapping(environments)
    chosen = _with_solution(found, tasks, split, requires)
    if not chosen:
        step = "`awm-hub show` tells which tasks have one; learn from rollouts, or audit the environments first"
        raise DataError("no sound task has a reference solution", next_step=step)
    kept = found.where(ids=chosen) if isinstance(found, Environments) else {name: found[name] for name in chosen}
    writer = SolutionWriter(kept, thinking=thinking, result_chars=result_chars)
    with tempfile.TemporaryDirectory() as place:
        run = rollout(
            kept,
            writer,
            out=out or place,
            tasks=[task for names in chosen.values() for task in names],
            max_turns=max_turns,
            concurrency=concurrency,
            trust_remote_code=trust_remote_code,
        )
        yield from examples_of_rollouts(
            run.values(),
            kept,
            window=window,
            full_history=full_history,
            split=split,
            keeps_thoughts=keeps_thoughts,
            count=count,
        )


def examples_of_rollouts(
    source: str | os.PathLike[str] | Iterable[Rollout],
    environments: Environment | Mapping[str, Environment] | Iterable[Environment],
    *,
    window: Window | None = None,
    full_history: bool = False,
    split: str = "train",
    thinking: Thinking = plain_thought,
    result_chars: int = RESULT_CHARS,
    keeps_thoughts: bool = True,
    count: Counting = tokens,
) -> Iterator[Row]:
    """Rows of rollouts that were judged COMPLETED without breaking a rule of the format, such as a stronger model's.

    Rollouts in the text protocol keep what the model wrote. Those of other policies (native calls, scripts) are written
    anew in the text protocol: `list_tools`, their calls one by one, their answer; missing thoughts are filled in.

    Args:
        source: A run's directory, a dataset of trajectories, or rollouts such as `run.values()`.
        environments: Where they were made; rollouts of other environments are left out.
        window: What is seen of the history; default: all of it.
        full_history: One row per rollout.
        split: Of the environments: nothing that is kept for testing is learnt by accident.
        thinking: Writes the thoughts that are missing.
        result_chars: Longer results are shortened where a rollout is written anew.
        keeps_thoughts: Whether thoughts of earlier turns are seen.
        count: Tokens of messages, for a window of tokens.

    Raises:
        DataError: a rollout was made in another version of its environment, or none can be learnt from.
    """
    found = as_mapping(environments)
    rollouts = read_rollouts(source) if isinstance(source, str | os.PathLike) else source
    left_out: Counter[str] = Counter()
    learnt = 0
    for one in rollouts:
        reason, environment = _usable(one, found, split)
        if environment is None:
            left_out[reason] += 1
            continue
        messages = _conversation(one.trajectory, environment, thinking, result_chars)
        if not _is_well_formed(messages):
            left_out["its messages break the format"] += 1
            continue
        learnt += 1
        if full_history:
            yield {"messages": messages}
        else:
            yield from examples_of_messages(messages, window=window, keeps_thoughts=keeps_thoughts, count=count)
    if not learnt:
        reasons = "; ".join(f"{reason}: {number}" for reason, number in left_out.most_common()) or "there is none"
        raise DataError(f"no rollout can be learnt from ({reasons})", next_step="make more, with a better policy")


def examples_of_messages(
    messages: Sequence[Message],
    *,
    window: Window | None = None,
    keeps_thoughts: bool = True,
    count: Counting = tokens,
) -> Iterator[Row]:
    """Rows of one conversation: for each assistant message, what is seen before it, and the message.

    Rows end where the window holds no more than the start and the newest turn: a rollout would have ended there.

    Args:
        messages: System prompt, user prompt, and turns: an assistant message and what it was told.
        window: What is seen of the history; default: all of it.
        keeps_thoughts: Whether thoughts of earlier turns are seen.
        count: Tokens of messages, for a window of tokens.
    """
    starts = [position for position, message in enumerate(messages) if message["role"] == "assistant"]
    head = list(messages[: starts[0]])
    turns = [list(messages[a:b]) for a, b in zip(starts, [*starts[1:], len(messages)], strict=True)]
    past = turns if keeps_thoughts else [[_said(_thought(turn[0])[1]), *turn[1:]] for turn in turns]
    sizes, head_size = [count(turn) for turn in past], count(head)
    for position, turn in enumerate(turns):
        try:
            shown = visible(sizes[:position], window or Window(), head_size=head_size)
        except ContextFullError:
            return
        yield {"prompt": head + [message for i in shown for message in past[i]], "completion": turn[:1]}


class SolutionWriter:
    """A policy that carries out reference solutions in the text protocol, as a model would that knows them.

    Args:
        environments: Where the tasks are from.
        thinking: Writes the thoughts.
        result_chars: Longer results are shortened.
    """

    is_strict = True
    uses_meta_tools = True

    def __init__(
        self,
        environments: Mapping[str, Environment],
        *,
        thinking: Thinking = plain_thought,
        result_chars: int = RESULT_CHARS,
    ) -> None:
        self._solution = SolutionPolicy(environments)
        self._thinking, self._result_chars = thinking, result_chars

    def describe(self) -> dict[str, Any]:
        """What is recorded of it."""
        return {"kind": "solution", "protocol": "text", "result_chars": self._result_chars}

    async def act(self, view: View) -> Action:
        """`list_tools`, then the calls of the solution, then the answer.

        Raises:
            DataError: the task has no solution.
        """
        turn = len(view.turns)
        if turn == 0:
            text = message_text(self._thinking(None, 0), call=(LIST_TOOLS, {}))
        else:
            action = await self._solution.act(replace(view, turns=view.turns[1:]))
            call = Call(tool=action.calls[0].tool, arguments=action.calls[0].arguments) if action.calls else None
            text = message_text(self._thinking(call, turn), call=_meta(call), answer=action.answer or "")
        return action_of(
            Reply(content=text), Naming(tools=view.tools), is_text=True, is_strict=True, turn=len(view.turns)
        )

    def transcript(self, view: View) -> tuple[Message, ...]:
        """The whole conversation in chat form."""
        tools = listing(Naming(tools=view.tools))
        found = opening("text", view.briefing, view.prompt)
        for turn in view.turns:
            found += [written(turn), *told(turn, listing=tools, result_chars=self._result_chars)]
        return tuple(found)


def message_text(thought: str, *, call: tuple[str, Any] | None = None, answer: str = "") -> str:
    """An assistant message as Qwen3 writes it and its chat template repeats it, character by character.

    Args:
        thought: What stands in `<think>`.
        call: Function and arguments; None: the message is the answer.
        answer: What is said beside the thought.
    """
    said = answer.strip()
    if call is not None:
        text = json.dumps({"name": call[0], "arguments": call[1]}, ensure_ascii=False)
        said = f"{said}\n<tool_call>\n{text}\n</tool_call>".lstrip("\n")
    return f"<think>\n{thought.strip()}\n</think>\n\n{said}"


def _meta(call: Call | None) -> tuple[str, Any] | None:
    return None if call is None else (CALL_TOOL, {"tool_name": call.tool, "arguments": call.arguments})


def _with_solution(
    environments: Mapping[str, Environment],
    tasks: Collection[str] | None,
    split: str,
    requires: Mapping[str, bool | int] | None,
) -> dict[str, list[str]]:
    """Ids of the tasks to be solved, by environment."""
    wanted = None if tasks is None else set(tasks)
    found: dict[str, list[str]] = {}
    for name in environments:
        environment = environments[name]
        if environment.split != split or environment.usage != "train":
            continue
        quality = environment.quality
        is_current = quality is not None and quality.audited_hash == environment.content_hash
        sound = None if requires is None else sound_tasks(quality if is_current else None, requires)
        chosen = [
            task.id
            for task in environment.tasks
            if task.solution is not None
            and (wanted is None or task.id in wanted)
            and (sound is None or task.id in sound)
        ]
        if chosen:
            found[name] = chosen
    return found


def _usable(one: Rollout, environments: Mapping[str, Environment], split: str) -> tuple[str, Environment | None]:
    """The environment of a rollout to learn from, or why it is none."""
    trajectory = one.trajectory
    if trajectory.environment_id not in environments or trajectory.task_id is None:
        return "of another environment", None
    if not one.is_success or trajectory.termination != "answered":
        return "not completed", None
    if trajectory.violations:
        return "broke the format", None
    if not (trajectory.answer or "").strip():
        return "without an answer", None
    environment = environments[trajectory.environment_id]
    if environment.split != split or environment.usage != "train":
        return "for evaluation only, or of another split", None
    if environment.content_hash != trajectory.environment_hash:
        message = f"{one.id} was made in another version of {environment.id}"
        raise DataError(message, next_step="load the dataset at the revision it was made with")
    return "", environment


def _conversation(
    trajectory: Trajectory, environment: Environment, thinking: Thinking, result_chars: int
) -> list[Message]:
    """The conversation in the text protocol, with the opening that rollouts have today."""
    head = opening("text", environment.briefing, environment.task(trajectory.task_id or "").prompt)
    is_text = trajectory.policy.get("protocol") == "text" and not trajectory.policy.get("tool_prefix")
    start = next((i for i, m in enumerate(trajectory.messages) if m.get("role") == "assistant"), None)
    if is_text and start is not None:
        return head + [_plain(message) for message in trajectory.messages[start:]]
    tools = listing(Naming(tools=environment.tools))
    turns = [*head, _said(message_text(thinking(None, 0), call=(LIST_TOOLS, {}))), _answered(tools)]
    for turn, step in enumerate(trajectory.steps, start=1):
        call = Call(tool=step.tool, arguments=step.arguments)
        turns.append(_said(message_text(step.thought or thinking(call, turn), call=_meta(call))))
        turns.append(_answered(shortened(step.result.text(), result_chars)))
    last = _thought(trajectory.messages[-1])[0] if trajectory.messages else None
    thought = last or thinking(None, len(trajectory.steps) + 1)
    return [*turns, _said(message_text(thought, answer=trajectory.answer or ""))]


def _plain(message: Message) -> Message:
    """A message of the text protocol as a plain text, whatever the server took apart of it."""
    if message["role"] == "tool":
        return _answered(message["content"])
    if message["role"] != "assistant":
        return {"role": message["role"], "content": message["content"]}
    thought, said = _thought(message)
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    if not calls:
        return _said(message_text(thought or "", answer=said))
    call = (calls[0]["name"], json.loads(calls[0]["arguments"] or "{}"))
    return _said(message_text(thought or "", call=call, answer=said))


def _thought(message: Message) -> tuple[str | None, str]:
    thought, said = split_thoughts(message.get("content") or "")
    return message.get("reasoning_content") or thought, said


def _said(content: str) -> Message:
    return {"role": "assistant", "content": content}


def _answered(result: str) -> Message:
    return {"role": "user", "content": f"<tool_response>\n{result}\n</tool_response>"}


def _is_well_formed(messages: Sequence[Message]) -> bool:
    """Whether each assistant message is one that strict rules accept: a thought, and one call or an answer."""
    said = [parse(m["content"], (LIST_TOOLS, CALL_TOOL), is_strict=True) for m in messages if m["role"] == "assistant"]
    return bool(said) and all(not action.violations and (action.thought or "").strip() for action in said)
