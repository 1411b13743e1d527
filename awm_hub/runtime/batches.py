"""Many calls to the instances of one worker, in as few frames as possible.

Results are those of calling one after another. A batch whose process dies is taken up again call by call in a new
process, from the state before the batch: calls are transactions over rebuilt instances, so that only the call that
killed it is a fault. This module is part of `Instance` and uses what it keeps to itself.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from awm_hub.errors import LimitError, SandboxError
from awm_hub.runtime.instance import Call, Instance, as_text
from awm_hub.runtime.processes import OperationError, unbroken
from awm_hub.trajectory import ToolResult

_FRAME_CALLS = 256
_BATCH_S = 1.0


class Item(NamedTuple):
    """One call."""

    instance: Instance
    tool: str
    arguments: Mapping[str, Any]
    thought: str | None


async def call_many(items: Sequence[Item]) -> list[ToolResult]:
    """Call in order; all instances live on one worker.

    Raises:
        EpisodeError: an instance is closed or its episode has ended; nothing was called then.
    """
    return await unbroken(_call_locked(items))


async def _call_locked(items: Sequence[Item]) -> list[ToolResult]:
    async with AsyncExitStack() as stack:
        for instance in sorted({item.instance for item in items}, key=lambda i: i._residence.name):
            await stack.enter_async_context(instance._lock)
        for item in items:
            item.instance.check_running()
        results: list[ToolResult] = []
        while len(results) < len(items):
            results += await _call_some(items[len(results) : len(results) + _FRAME_CALLS])
        return results


async def _call_some(items: Sequence[Item]) -> list[ToolResult]:
    """Results of the first items, at least of one."""
    texts = [as_text(item.arguments) for item in items]
    sent = []
    for item, text in zip(items, texts, strict=True):
        if isinstance(text, ToolResult):
            break
        sent.append((item, text))
    if not sent:
        return [await _one(items[0])]
    answers = await _exchange(sent)
    if answers is None:
        for item, _ in sent:
            item.instance._residence.abandon()
        return [await _one(item) for item, _ in sent]
    results = []
    for (item, text), answer in zip(sent, answers, strict=False):
        result = item.instance._take(answer, item.tool, text)
        results.append(item.instance._record(item.tool, item.arguments, item.thought, result))
    for instance in {item.instance for item, _ in sent}:
        await instance._residence.settle()
    return results


async def _exchange(sent: Sequence[tuple[Item, str]]) -> list[Any] | None:
    """The worker's answers, or None if its process did not live to give them."""
    limits = sent[0][0].instance._residence.hosting.limits
    seen: set[Instance] = set()
    calls = []
    try:
        for instance in {item.instance for item, _ in sent}:
            await instance._residence.live()
        for item, text in sent:
            is_first = item.instance not in seen
            seen.add(item.instance)
            home = item.instance._residence
            calls.append([home.name, item.tool, text, home.calls_count + 1 if is_first else None])
        answers = await sent[0][0].instance._residence.worker.request(
            "calls", timeout_s=limits.call_hard_s + _BATCH_S, calls=calls
        )
    except (SandboxError, LimitError, OperationError):  # one by one, each of them has its own result
        return None
    return answers if isinstance(answers, list) and 0 < len(answers) <= len(sent) else None


async def _one(item: Item) -> ToolResult:
    result = await item.instance._perform(Call(item.tool, item.arguments))
    return item.instance._record(item.tool, item.arguments, item.thought, result)
