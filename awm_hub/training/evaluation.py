"""Evaluating the model that is being trained, on tasks that it was not trained on, as it will be used.

`ModelEndpoint` stands for a model in memory where an endpoint over the network would stand, so that the policy, the
rollouts and the figures are those of every other evaluation in this package. Requests that come at the same time are
answered by one `generate` call, and each draws from random numbers of its own: what else is in the batch changes
nothing but rounding. Prompts are put together from the very tokens that were generated, as in training.

Give the window that the policy will be deployed with. One that was trained on cut histories and is shown full ones, or
the reverse, loses most of what it learned (paper §5). A window of tokens counts an estimate here, as `ChatPolicy` does
everywhere, and tokens in training: a window of turns is the same in both.
"""

import asyncio
import logging
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from awm_hub.environment import Environment
from awm_hub.errors import ContextFullError, UsageError
from awm_hub.history import Window
from awm_hub.hub import Environments
from awm_hub.inference import Reply, Sampling, Usage
from awm_hub.judging import Judge
from awm_hub.policy import ChatPolicy
from awm_hub.policy.chat import RESULT_CHARS
from awm_hub.policy.parsing import split_thoughts
from awm_hub.rollouts import MAX_TURNS, Metrics, measure, rollout
from awm_hub.rollouts.plans import as_mapping
from awm_hub.training.tokens import ChatTokens

PAPER_WINDOW = Window(turns=10)
"""Of the paper's evaluation (§5, §6)."""
PAPER_SAMPLING = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_tokens=2048)
"""Of the paper's evaluation (§6); at most 2,048 tokens of a response, as in its training (§5)."""
_REMEMBERED = 20_000
"""Messages whose tokens are kept, a few hundred numbers each."""

_log = logging.getLogger(__name__)


def pass_at_1(
    model: Any,
    tokenizer: Any,
    environments: Environment | Mapping[str, Environment] | Iterable[Environment],
    *,
    split: str | None = "test",
    tasks: Sequence[str] | None = None,
    rollouts_per_task: int = 1,
    window: Window = PAPER_WINDOW,
    sampling: Sampling = PAPER_SAMPLING,
    is_strict: bool = True,
    keeps_thoughts: bool = True,
    result_chars: int = RESULT_CHARS,
    template: str | None = None,
    max_turns: int = MAX_TURNS,
    concurrency: int = 16,
    judge: str | Judge | None = "decision",
    seed: int = 0,
    name: str | None = None,
    out: str | os.PathLike[str] | None = None,
    trust_remote_code: bool = False,
) -> Metrics | None:
    """Let a model in memory attempt tasks, and count; `overall.pass_at_1` is the share of tasks that it completes.

    The same seed gives the same attempts, but for what rounding in batches of another make-up changes.

    Args:
        model: Of transformers, unwrapped; its mode of training is put back afterwards.
        tokenizer: The model's.
        environments: One environment, several, or what `awm_hub.load` returns.
        split: Only environments of this split; None: all that are given.
        tasks: Ids, or last parts of them; default: every task.
        rollouts_per_task: Attempts at each task; with n of them, `pass_at` goes up to n.
        window: What the policy sees of its history where it is deployed; default: the paper's evaluation.
        sampling: How replies are drawn; default: the paper's evaluation.
        is_strict: Whether a broken rule of the format ends an attempt.
        keeps_thoughts: Whether earlier thoughts stay in the history, as in training.
        result_chars: Longer results are shortened.
        template: Another chat template than the tokenizer's.
        max_turns: Assistant messages of an attempt at most.
        concurrency: Attempts at the same time, and so the largest batch.
        judge: What `awm_hub.judge` takes.
        seed: Of the attempts and of what is drawn.
        name: What the model is called in the record; name the training step where `out` is used.
        out: Directory of the run; default: a temporary one. A run that is there already is gone on with.
        trust_remote_code: Run without a seal where this machine cannot seal a process.

    Returns:
        The figures; None where there is no environment of the split, which is also logged as a warning.
    """
    kept = _of_split(as_mapping(environments), split)
    if not kept:
        _log.warning("there is no environment of the split %r: nothing is evaluated", split)
        return None
    drawn = sampling if sampling.seed is not None else replace(sampling, seed=seed)
    endpoint = ModelEndpoint(model, tokenizer, sampling=drawn, template=template, name=name, batch=concurrency)
    policy = ChatPolicy(
        endpoint,
        protocol="text",
        window=window,
        is_strict=is_strict,
        result_chars=result_chars,
        keeps_thoughts=keeps_thoughts,
    )
    with tempfile.TemporaryDirectory() as place:
        run = rollout(
            kept,
            policy,
            out=out or place,
            tasks=tasks,
            rollouts_per_task=rollouts_per_task,
            concurrency=concurrency,
            seed=seed,
            max_turns=max_turns,
            judge=judge,
            trust_remote_code=trust_remote_code,
        )
        return measure(run.values())


class ModelEndpoint:
    """A model in memory that can be asked, by many at a time.

    Args:
        model: Of transformers.
        tokenizer: The model's.
        sampling: What requests say about sampling; what it leaves open is drawn at temperature 1 from all tokens.
        template: Another chat template than the tokenizer's.
        name: What is recorded; default: where the model came from.
        context_tokens: Prompt and reply at most; default: what the model was made for.
        batch: Requests that are answered by one `generate` call, at most.
        wait_s: A batch is closed when nothing was asked for this long.

    Raises:
        UsageError: the tokenizer has no chat template, or sampling has stop texts.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        sampling: Sampling = PAPER_SAMPLING,
        template: str | None = None,
        name: str | None = None,
        context_tokens: int | None = None,
        batch: int = 16,
        wait_s: float = 0.02,
    ) -> None:
        if sampling.stop:
            raise UsageError("a model in memory takes no stop texts", next_step="leave out stop")
        self._model, self._sampling = model, sampling
        self._chat = ChatTokens(tokenizer, template=template)
        self._tokenizer, self._template = tokenizer, template
        self._name = name or str(getattr(model.config, "name_or_path", "") or type(model).__name__)
        self._context = context_tokens or int(model.config.max_position_embeddings)
        self._ends = _ends(model, tokenizer)
        self._batch, self._wait_s = batch, wait_s
        self._waiting: list[_Request] = []
        self._worker: asyncio.Task[None] | None = None
        self._tokens: OrderedDict[tuple[str, str], list[int]] = OrderedDict()

    @property
    def sampling(self) -> Sampling:
        """What requests say about sampling unless `chat` is told otherwise."""
        return self._sampling

    def describe(self) -> dict[str, Any]:
        """What is recorded of it."""
        return {"model": self._name, "host": "memory", "sampling": self._sampling.to_dict()}

    def check_key(self) -> None:
        """Nothing: no key is needed."""

    async def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        sampling: Sampling | None = None,
    ) -> Reply:
        """The model's next message.

        Raises:
            ContextFullError: the prompt leaves no room for a reply.
        """
        started_s = time.monotonic()
        chosen = sampling or self._sampling
        prompt = self._prompt(messages, tools)
        room = self._context - len(prompt)
        if room < 1:
            message = f"the prompt has {len(prompt)} tokens, and the context {self._context}"
            raise ContextFullError(message, next_step="a shorter window, or a larger context")
        most = min(room, chosen.max_tokens or room)
        loop = asyncio.get_running_loop()
        request = _Request(prompt=prompt, sampling=chosen, most=most, answer=loop.create_future())
        self._waiting.append(request)
        if self._worker is None or self._worker.done() or self._worker.get_loop() is not loop:
            self._worker = loop.create_task(self._serve())
        output = await request.answer
        text = self._chat.text(output)
        self._remember(text, output)
        seconds = time.monotonic() - started_s
        usage = Usage(prompt_tokens=len(prompt), completion_tokens=len(output), seconds=seconds, requests=1)
        is_ended = output[-1] in self._ends
        return Reply(content=text, finish_reason="stop" if is_ended else "length", usage=usage)

    async def _serve(self) -> None:
        """Answer what waits, batch by batch, until nothing does."""
        while self._waiting:
            count = -1
            while count < len(self._waiting) < self._batch:
                count = len(self._waiting)
                await asyncio.sleep(self._wait_s)
            batch, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
            try:
                outputs = await asyncio.to_thread(self._generated, batch)
            except Exception as error:  # whoever asked is told, whatever the model raised
                for request in batch:
                    if not request.answer.done():
                        request.answer.set_exception(error)
                continue
            for request, output in zip(batch, outputs, strict=True):
                if not request.answer.done():
                    request.answer.set_result(output)

    def _generated(self, batch: Sequence["_Request"]) -> list[list[int]]:
        """The tokens of the replies, by one call of the model."""
        import torch

        width = max(len(request.prompt) for request in batch)
        padding = self._tokenizer.pad_token_id
        padding = self._tokenizer.eos_token_id if padding is None else padding
        ids = [[padding] * (width - len(r.prompt)) + r.prompt for r in batch]
        seen = [[0] * (width - len(r.prompt)) + [1] * len(r.prompt) for r in batch]
        was_training = self._model.training
        self._model.eval()
        try:
            with torch.no_grad():
                found = self._model.generate(
                    input_ids=torch.tensor(ids, device=self._model.device),
                    attention_mask=torch.tensor(seen, device=self._model.device),
                    max_new_tokens=max(request.most for request in batch),
                    do_sample=False,
                    logits_processor=[_Drawing([request.sampling for request in batch])],
                    eos_token_id=sorted(self._ends),
                    pad_token_id=padding,
                )
        finally:
            self._model.train(was_training)
        rows = found[:, width:].tolist()
        return [self._until_end(row[: request.most]) for row, request in zip(rows, batch, strict=True)]

    def _until_end(self, output: list[int]) -> list[int]:
        end = next((i for i, token in enumerate(output) if token in self._ends), len(output) - 1)
        return output[: end + 1]

    def _prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> list[int]:
        """A conversation as tokens. What the model wrote itself is not tokenised again, in the text protocol."""
        starts = [position for position, message in enumerate(messages) if message["role"] == "assistant"]
        if tools or any(message.get("tool_calls") for message in messages):
            rendered = self._tokenizer.apply_chat_template(
                list(messages), tools=tools, add_generation_prompt=True, tokenize=False, chat_template=self._template
            )
            return self._encoded(rendered)
        found = self._chat.head(messages[: starts[0]] if starts else messages)
        for start, end in zip(starts, [*starts[1:], len(messages)], strict=False):
            found += self._written(messages[start]["content"] or "") + self._chat.told(messages[start + 1 : end])
        return found

    def _written(self, text: str) -> list[int]:
        """The tokens of a message in the history, its end included."""
        thought, said = split_thoughts(text)
        kept = self._tokens.get((thought or "", said))
        return kept if kept is not None else [*self._encoded(text), self._tokenizer.eos_token_id]

    def _remember(self, text: str, output: list[int]) -> None:
        """Keep a message's tokens under what a policy may make of it: with its thought, or without."""
        whole = output if output[-1] in self._ends else [*output, self._tokenizer.eos_token_id]
        thought, said = split_thoughts(text)
        self._tokens[("", said)] = self._chat.without_thoughts(whole)
        self._tokens[(thought or "", said)] = whole
        while len(self._tokens) > _REMEMBERED:
            self._tokens.popitem(last=False)

    def _encoded(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return found


@dataclass(frozen=True, kw_only=True)
class _Request:
    """A prompt that waits for its reply."""

    prompt: list[int]
    sampling: Sampling
    most: int
    """Tokens of the reply."""
    answer: "asyncio.Future[list[int]]"


class _Drawing:
    """Draws each row's next token by the row's own sampling and seed, and leaves `generate` nothing else to choose."""

    def __init__(self, samplings: Sequence[Sampling]) -> None:
        self._samplings = samplings
        self._generators: list[Any] | None = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        if self._generators is None:
            self._generators = [_generator(sampling.seed, scores.device) for sampling in self._samplings]
        drawn = [self._drawn(*each) for each in zip(scores, self._samplings, self._generators, strict=True)]
        found = torch.full_like(scores, float("-inf"))
        found[torch.arange(len(drawn)), torch.stack(drawn)] = 0.0
        return found

    @staticmethod
    def _drawn(scores: Any, sampling: Sampling, generator: Any) -> Any:
        """A token: of the k likeliest, of those the likeliest that together have probability p."""
        temperature = 1.0 if sampling.temperature is None else sampling.temperature
        if temperature == 0:
            return scores.argmax()
        size = len(scores) if sampling.top_k is None or sampling.top_k < 1 else min(sampling.top_k, len(scores))
        values, tokens = (scores.float() / temperature).topk(size)
        shares = values.softmax(0)
        if sampling.top_p is not None:
            shares = shares * (shares.cumsum(0) - shares < max(sampling.top_p, 1e-9))
        return tokens[shares.multinomial(1, generator=generator)[0]]


def _generator(seed: int | None, device: Any) -> Any:
    import torch

    found = torch.Generator(device=device)
    if seed is None:
        found.seed()
    else:
        found.manual_seed(seed)
    return found


def _ends(model: Any, tokenizer: Any) -> set[int]:
    """Tokens that end a message: the tokenizer's, and those that the model was published with."""
    own = getattr(model.generation_config, "eos_token_id", None)
    return {tokenizer.eos_token_id, *(own if isinstance(own, list) else [own] if own is not None else [])}


def _of_split(environments: Mapping[str, Environment], split: str | None) -> Mapping[str, Environment]:
    if split is None:
        return environments
    if isinstance(environments, Environments):
        return environments.where(split=split)
    return {name: found for name, found in environments.items() if found.split == split}
