"""Attempts whose policy is the model being trained, many in step.

Each attempt is `awm_hub.rollouts.attempt` itself: the format rules, early termination and the record are those of every
other rollout, so that what is trained is what is measured. Only the policy is new. A `TokenPolicy` keeps the episode
as token segments, shows the newest turns that fit its window, and asks at a `Desk` for its next turn. The desk waits
until every attempt that still goes on has asked, hands all prompts over at once, and passes the outputs back. Calls of
attempts meet in the same way, and go to the pool in one batch.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from awm_hub.errors import CapacityError, ContextFullError, LoadError, SandboxError, WorkerError
from awm_hub.history import Window, visible
from awm_hub.inference import Reply, Usage
from awm_hub.policy import conversation, protocols
from awm_hub.policy.acting import Action, Message, View
from awm_hub.policy.rules import INVALID_ARGUMENTS, violation
from awm_hub.rollouts import attempts
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.pool import PoolCall
from awm_hub.runtime.tiers import choose_tier
from awm_hub.training.episodes import Episode, Episodes
from awm_hub.training.generating import Ask, Written
from awm_hub.training.rows import TurnTokens
from awm_hub.training.tokens import ChatTokens
from awm_hub.trajectory import ToolResult, Trajectory


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How episodes are played; see `WindowedRollout`."""

    window: Window
    max_turns: int
    is_strict: bool
    result_chars: int
    tool_prefix: str
    keeps_thoughts: bool


class Desk:
    """Where attempts meet the sampler: it works on the background loop, and gathers what all of them ask."""

    def __init__(self, count: int) -> None:
        self._playing = count
        self._asked: list[tuple[Ask, asyncio.Future[Written]]] = []
        self._is_complete = asyncio.Event()

    async def ask(self, ask: Ask) -> Written:
        """What the sampler writes, once every attempt has asked."""
        answer: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self._asked.append((ask, answer))
        self._look()
        return await answer

    def leave(self) -> None:
        """An attempt has ended."""
        self._playing -= 1
        self._look()

    async def gathered(self) -> list[Ask]:
        """What is asked, in the order of the attempts, once every one has asked; nothing when all have ended."""
        self._look()
        await self._is_complete.wait()
        self._asked.sort(key=lambda asked: asked[0].position)
        return [ask for ask, _ in self._asked]

    async def answer(self, written: Sequence[Written]) -> None:
        """Pass on what was written, in the order of `gathered`."""
        asked, self._asked = self._asked, []
        self._is_complete.clear()
        for (_, waiting), found in zip(asked, written, strict=True):
            if not waiting.done():
                waiting.set_result(found)

    def _look(self) -> None:
        if len(self._asked) == self._playing:
            self._is_complete.set()


@dataclass(kw_only=True)
class Counter:
    """Where the calls of attempts meet: all that are made at the same moment go to the pool as one batch."""

    episodes: Episodes
    _calls: list[tuple[PoolCall, asyncio.Future[ToolResult]]] = field(default_factory=list)
    _work: set["asyncio.Task[None]"] = field(default_factory=set)

    async def call(self, call: PoolCall) -> ToolResult:
        """The result of a call."""
        result: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        if not self._calls:
            task = asyncio.ensure_future(self._flush())
            self._work.add(task)
            task.add_done_callback(self._work.discard)
        self._calls.append((call, result))
        return await result

    async def _flush(self) -> None:
        await asyncio.sleep(0)  # the others have been answered in the same step, and are about to call
        calls, self._calls = self._calls, []
        fit = []
        for call, result in calls:
            try:
                call.instance.check_running()
                fit.append((call, result))
            except SandboxError as error:
                result.set_exception(error)
        try:
            results = await self.episodes.call([call for call, _ in fit])
        except BaseException as error:
            for _, result in fit:
                result.set_exception(error)
            return
        for (_, waiting), found in zip(fit, results, strict=True):
            if not waiting.done():
                waiting.set_result(found)


class _Seated:
    """An instance whose calls go through the counter."""

    def __init__(self, instance: Instance, counter: Counter) -> None:
        self._instance, self._counter = instance, counter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._instance, name)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, thought: str | None = None
    ) -> ToolResult:
        given: Any = {} if arguments is None else arguments
        return await self._counter.call(PoolCall(instance=self._instance, tool=name, arguments=given, thought=thought))


class TokenPolicy:
    """The model being trained as the policy of one attempt; it keeps the episode's tokens."""

    uses_meta_tools = True

    def __init__(
        self,
        episode: Episode,
        desk: Desk,
        tokens: ChatTokens,
        *,
        prompt: Sequence[Message],
        position: int,
        manner: Manner,
        context_tokens: int | None,
        about: Mapping[str, Any],
    ) -> None:
        self.episode, self._desk, self._tokens = episode, desk, tokens
        self._prompt, self._position, self._manner = list(prompt), position, manner
        self._context_tokens, self._about = context_tokens, dict(about)
        self._head = tokens.head(prompt)
        self._segments: list[list[int]] = []

    @property
    def is_strict(self) -> bool:
        """Whether a broken rule of the format ends the rollout."""
        return self._manner.is_strict

    def describe(self) -> dict[str, Any]:
        """What is recorded of it."""
        manner = self._manner
        return {
            "kind": "training",
            **self._about,
            "protocol": "text",
            "is_strict": manner.is_strict,
            "window": manner.window.to_dict(),
            "result_chars": manner.result_chars,
            "tool_prefix": manner.tool_prefix,
            "keeps_thoughts": manner.keeps_thoughts,
        }

    async def act(self, view: View) -> Action:
        """Ask for the next message, and read it.

        Raises:
            ContextFullError: what the model should see no longer fits.
        """
        self.episode.view = view
        if view.turns:
            self._add_segment(view)
        shown = visible([len(s) for s in self._segments], self._manner.window, head_size=len(self._head))
        prompt = self._head + [token for turn in shown for token in self._segments[turn]]
        if self._context_tokens is not None and len(prompt) >= self._context_tokens:
            message = f"a prompt of {len(prompt)} tokens leaves no room for a reply within {self._context_tokens}"
            raise ContextFullError(message, next_step="give the window a limit of tokens")
        written = await self._desk.ask(Ask(prompt=prompt, position=self._position, turn=len(view.turns)))
        self.episode.turns.append(TurnTokens(prompt=prompt, output=written.output, logprobs=written.logprobs))
        self.episode.seen.append(shown)
        return self._read(written, len(prompt), view)

    def transcript(self, view: View) -> tuple[Message, ...]:
        """The whole conversation, whatever the window."""
        found = list(self._prompt)
        for turn in view.turns:
            found += [conversation.written(turn), *self._told(view, turn)]
        return tuple(found)

    def _read(self, written: Written, prompt_tokens: int, view: View) -> Action:
        is_ended = self._tokens.is_ended(written.output)
        reply = Reply(
            content=self._tokens.text(written.output),
            finish_reason="stop" if is_ended else "length",
            usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=len(written.output)),
        )
        turn = len(view.turns)
        action = protocols.action_of(reply, self._naming(view), is_text=True, is_strict=self.is_strict, turn=turn)
        if is_ended or action.violations:
            return action
        cut = violation(INVALID_ARGUMENTS, turn, f"the message was cut at {len(written.output)} tokens")
        return Action(thought=action.thought, violations=(cut,), message=action.message, usage=action.usage)

    def _add_segment(self, view: View) -> None:
        """Keep the last turn as later ones are shown it."""
        output = list(self.episode.turns[-1].output)
        if not self._tokens.is_ended(output):  # lenient: the turn goes on as if it had come to its end
            output.append(self._tokens.tokenizer.eos_token_id)
        kept = output if self._manner.keeps_thoughts else self._tokens.without_thoughts(output)
        self._segments.append(kept + self._tokens.told(self._told(view, view.turns[-1])))

    def _told(self, view: View, turn: Any) -> list[Message]:
        listing = protocols.listing(self._naming(view))
        return conversation.told(turn, listing=listing, result_chars=self._manner.result_chars)

    def _naming(self, view: View) -> protocols.Naming:
        return protocols.Naming(tools=view.tools, prefix=self._manner.tool_prefix)


async def play(policy: TokenPolicy, desk: Desk, counter: Counter, *, max_turns: int) -> None:
    """Play one episode to its end; the record is the episode's `trajectory`.

    A failing environment is part of the record. Anything else that fails is an error of the training itself.

    Raises:
        CapacityError: the pool has no room for as many instances as the batch has rollouts.
    """
    episode = policy.episode
    try:
        try:
            instance = await episode.episodes.take(episode._placed)
        except CapacityError as error:
            step = "make the pool larger (`Episodes(most_instances=…, memory_bytes=…)`), or the batch smaller"
            raise CapacityError(error.message, next_step=step) from error
        except (LoadError, WorkerError) as error:
            episode.trajectory = await _unlaunched(episode, policy, error)
            return
        try:
            seated: Any = _Seated(instance, counter)
            episode.trajectory, failure = await attempts.attempt_of(seated, policy, max_turns=max_turns)
        finally:
            await episode.episodes.give_back(instance)
        if failure is not None and not isinstance(failure, ContextFullError | SandboxError):
            raise failure
    finally:
        desk.leave()


async def _unlaunched(episode: Episode, policy: TokenPolicy, error: SandboxError) -> Trajectory:
    """The record of an episode whose environment could not be launched."""
    trusted = bool(episode.episodes.settings.get("trust_remote_code", False))
    tier = await choose_tier("auto", trust_remote_code=trusted, environment=episode.environment)
    return await attempts.unlaunched(
        episode.environment, episode.task, policy, seed=episode._placed.seed, tier=tier, error=error
    )
