"""The simple way: TRL plays the episode itself, over two tools that an environment class has.

`environment_factory=Episodes(…).factory(ToolEpisode)` is all that `GRPOTrainer` needs. The price: a policy always sees
its whole history, and a rollout is one row; TRL calls the tools of a batch one after the other; TRL's lenient parser
reads a message first, so that only what reaches the tools, and what can be read from the messages afterwards, counts
for the format. TRL asks no environment whether it is done. A rollout that broke a rule stops early only if a tool's
result is too long for the rest of the completion (TRL then ends it without the result): `stop_tokens` does that.
"""

from dataclasses import replace
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.policy import conversation, prompts, protocols, rules
from awm_hub.policy.acting import Action, Call, Turn, View, Violation
from awm_hub.policy.chat import RESULT_CHARS
from awm_hub.policy.parsing import read_arguments, split_thoughts
from awm_hub.rollouts import MAX_TURNS, attempts, recording
from awm_hub.runtime import sync
from awm_hub.runtime.instance import Instance
from awm_hub.training.episodes import Episode, Episodes

SIMPLE = f"""\
{prompts.NATIVE}

You reach the system through two functions. Your first message calls list_tools; do not call it again. Every message \
thinks first, between <think> and </think>, and then makes one call or gives the answer."""
"""The system prompt: TRL's chat template declares the two functions itself."""
_OVER = "This episode has ended."


class ToolEpisode(Episode):
    """An episode with the two meta-tools as public methods, which TRL calls.

    Args:
        episodes: What all episodes share.
        is_strict: Whether a broken rule ends the episode, so that it gets the penalty of the format (paper §4).
        max_turns: Calls at most.
        result_chars: Longer results are shortened, and say so.
        stop_tokens: The trainer's `max_completion_length`: a result longer than it ends the rollout in TRL.
    """

    def __init__(
        self,
        episodes: Episodes,
        *,
        is_strict: bool = True,
        max_turns: int = MAX_TURNS,
        result_chars: int = RESULT_CHARS,
        stop_tokens: int | None = None,
    ) -> None:
        self._is_strict, self._max_turns = is_strict, max_turns
        self._result_chars, self._stop_tokens = result_chars, stop_tokens
        super().__init__(episodes)

    def _clear(self) -> None:
        super()._clear()
        self._instance: Instance | None = None
        self._ended: str | None = None
        self._broken: list[Violation] = []

    def reset(self, **row: Any) -> None:
        """Become a fresh episode of a row's task."""
        self._free()
        super().reset(**row)
        self.view = attempts.first_view(self.environment, self.task, self._placed.seed)

    def list_tools(self) -> str:
        """Names, descriptions and argument schemas of the system's tools.

        Returns:
            The tools as JSON.
        """
        view = self._current
        if self._ended or self._breaks(rules.check_message(_listed(), view, uses_meta_tools=True)):
            return self._over()
        self.view = replace(view, turns=(*view.turns, Turn(action=_listed())))
        return protocols.listing(protocols.Naming(tools=view.tools))

    def call_tool(self, tool_name: str, arguments: dict) -> str:  # type: ignore[type-arg] # TRL reads the signature
        """Call one of the system's tools.

        Args:
            tool_name: A name that list_tools gave.
            arguments: Arguments that follow the tool's schema.

        Returns:
            What the tool returned, as JSON.
        """
        view = self._current
        call = Call(tool=str(tool_name), arguments=arguments)
        action = Action(calls=(call,), thought="(read afterwards)")
        if self._ended or self._breaks(rules.check_message(action, view, uses_meta_tools=True)):
            return self._over()
        if self._instance is None:
            self._instance = sync.run(self.episodes.take, self._placed)
        result = sync.run(self._instance.call_tool, recording.text(call.tool), call.arguments)
        self.view = replace(view, turns=(*view.turns, Turn(action=action, results=(result,))))
        if self._breaks(rules.check_result(call, result, view)):
            return self._over()
        if len(self.view.turns) >= self._max_turns:
            self._ended = "max_turns"
        return conversation.shortened(result.text(), self._result_chars)

    @property
    def _current(self) -> View:
        assert self.view is not None, "TRL resets an episode before it calls its tools"
        return self.view

    def _breaks(self, broken: tuple[Violation, ...]) -> bool:
        """Record broken rules; whether they end the episode."""
        self._broken += broken
        if broken and self._is_strict:
            is_fault = any(one.rule == rules.SERVER_ERROR for one in broken)
            self._ended = "environment_fault" if is_fault else "format_error"
        return self._ended is not None

    def _over(self) -> str:
        """What an episode that has ended says, longer than a completion may be where that ends the rollout."""
        return _OVER if self._stop_tokens is None else "end " * (self._stop_tokens + 1)

    def _conclude(self, completion: Any) -> None:
        """Make the record: the answer and the thoughts are read from the messages of TRL's completion."""
        messages = list(completion) if isinstance(completion, list) else []
        written = [message for message in messages if message.get("role") == "assistant"]
        answer = None
        for turn, message in enumerate(written):
            if self._ended:
                break
            calls = message.get("tool_calls") or []
            thought, said = _taken_apart(message)
            self._breaks(tuple(_wrong(turn, thought, said, calls)))
            if not calls and said:
                answer = said
        if self._ended is None and answer is not None:
            view = self._current
            self.view = replace(view, turns=(*view.turns, Turn(action=Action(answer=answer))))
            if not self._breaks(rules.check_ending(self.view)):
                self._ended = "answered"
        sync.run(self._record, answer if self._ended == "answered" else None, messages, len(written))

    async def _record(self, answer: str | None, messages: list[Any], turns: int) -> None:
        if self._instance is None:
            self._instance = await self.episodes.take(self._placed)
        if self._ended == "answered":
            await self._instance.submit(recording.text(answer))
        found = await self._instance.trajectory()
        self.trajectory = replace(
            found,
            policy={"kind": "training", "protocol": "trl", "is_strict": self._is_strict},
            termination=self._ended or "max_turns",
            messages=tuple(recording.plain(messages)),
            violations=tuple(recording.plain(one.to_dict()) for one in self._broken),
            usage={"turns": turns},
        )
        instance, self._instance = self._instance, None
        await self.episodes.give_back(instance)

    def _free(self) -> None:
        if self._instance is not None:
            sync.run(self.episodes.give_back, self._instance)
            self._instance = None


def simple_prompt(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `training_tasks` with the system prompt for TRL's own tool loop."""
    system, *rest = row["prompt"]
    content = system["content"].replace(prompts.TEXT, SIMPLE, 1)
    return {**row, "prompt": [{**system, "content": content}, *rest]}


def _listed() -> Action:
    return Action(lists_tools=True, thought="(read afterwards)")


def _taken_apart(message: dict[str, Any]) -> tuple[str | None, str]:
    """The thoughts of a message, which TRL may have taken out of its text, and the rest."""
    thought, said = split_thoughts(str(message.get("content") or ""))
    kept = message.get("reasoning_content") or message.get("thinking") or message.get("reasoning")
    return (str(kept) if kept else thought), said


def _wrong(turn: int, thought: str | None, said: str, calls: list[Any]) -> list[Violation]:
    """What is wrong with a message that reached no tool, or with the message around a call."""
    found = []
    if not (thought or "").strip():
        found.append(rules.violation(rules.THINK_MISSING, turn, "the message has no thoughts"))
    if len(calls) > 1:
        found.append(rules.violation(rules.INVALID_ARGUMENTS, turn, f"a message makes one call, not {len(calls)}"))
    for call in calls:
        function = call.get("function") or {}
        given = function.get("arguments")
        _, complaint = read_arguments(given if isinstance(given, str) else to_json(recording.plain(given or {})))
        names: dict[str, set[str]] = {protocols.LIST_TOOLS: set(), protocols.CALL_TOOL: {"tool_name", "arguments"}}
        wanted = names.get(str(function.get("name")))
        if wanted is None:
            found.append(rules.violation(rules.UNKNOWN_TOOL, turn, f"there is no function {function.get('name')!r}"))
        elif complaint or not isinstance(given, dict) or set(given) != wanted:
            found.append(rules.violation(rules.INVALID_ARGUMENTS, turn, "the call has other arguments"))
    if not calls and (not said or "<tool_call>" in said):
        found.append(rules.violation(rules.INVALID_ARGUMENTS, turn, "the message holds neither a call nor an answer"))
    return found
