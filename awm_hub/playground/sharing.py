"""Share links: a whole attempt in the address of a page, so that nothing is stored anywhere.

An attempt is the environment, its hash, the task, the seed, the calls and the answer. Instances are deterministic, so
that repeating the calls gives the same results, rows and verdict. In the address it is JSON, compressed with zlib, in
base64 of the alphabet for URLs. Whoever opens a link reads what anybody may have written: it is checked like a file.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from awm_hub import schema
from awm_hub.canonical import from_json, to_json
from awm_hub.environment import Call, Environment
from awm_hub.errors import RecordError, UsageError
from awm_hub.playground.visits import Visit

VERSION = 1
MAX_LINK_CHARS = 6000
"""What browsers, mail programs and proxies take without cutting it; Spaces take more."""
_MAX_BYTES = 256 * 1024
_MAX_CALLS = 200


class ShareError(RecordError):
    """A share link cannot be read, or does not fit what it is about."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """An attempt, as a link carries it."""

    dataset: str | None
    """None: the playground's own."""
    environment: str
    content_hash: str
    task: str | None
    """The last part of its id."""
    seed: int = 0
    calls: tuple[Call, ...] = ()
    is_ended: bool = False
    answer: str | None = None

    @classmethod
    def of(cls, visit: Visit, dataset: str | None) -> Self:
        """What was done in a visit."""
        return cls(
            dataset=dataset,
            environment=visit.environment.id,
            content_hash=visit.environment.content_hash,
            task=visit.task.slug if visit.task else None,
            seed=visit.seed,
            calls=tuple(Call(tool=m.step.tool, arguments=dict(m.step.arguments)) for m in visit.moves),
            is_ended=visit.is_ended,
            answer=visit.answer,
        )

    def text(self) -> str:
        """The text for a link.

        Raises:
            UsageError: it would be longer than a link may be.
        """
        calls = [[call.tool, call.arguments] for call in self.calls]
        ending = [self.answer] if self.is_ended else []
        parts = [VERSION, self.dataset, self.environment, self.content_hash, self.task, self.seed, calls, ending]
        text = base64.urlsafe_b64encode(zlib.compress(to_json(parts).encode(), 9)).decode().rstrip("=")
        if len(text) > MAX_LINK_CHARS or len(self.calls) > _MAX_CALLS:
            message = f"{len(self.calls)} calls are more than a link can carry"
            raise UsageError(message, next_step="download the trajectory and open it in the viewer")
        return text

    @classmethod
    def read(cls, text: str) -> Self:
        """From the text of a link.

        Raises:
            ShareError: it is no such text.
        """
        try:
            return cls._from(_unpacked(text))
        except (binascii.Error, zlib.error, ValueError, TypeError, KeyError, RecordError) as error:
            step = "ask for the link again; the end may be missing"
            raise ShareError("this link cannot be read", next_step=step) from error

    @classmethod
    def _from(cls, parts: Any) -> Self:
        version, dataset, environment, content_hash, task, seed, calls, ending = parts
        if version != VERSION or len(calls) > _MAX_CALLS or not isinstance(seed, int) or isinstance(seed, bool):
            raise ValueError("another form")
        texts = (environment, content_hash, *(one for one in (dataset, task, *ending) if one is not None))
        if not all(isinstance(one, str) for one in texts) or not schema.ID_PATTERN.fullmatch(environment):
            raise ValueError("no texts")
        return cls(
            dataset=dataset,
            environment=environment,
            content_hash=content_hash,
            task=task,
            seed=seed,
            calls=tuple(_call(*call) for call in calls),
            is_ended=bool(ending),
            answer=ending[0] if ending else None,
        )

    def check(self, environment: Environment) -> None:
        """See that an environment is the one that the attempt was made in.

        Raises:
            ShareError: it has changed since.
        """
        if environment.content_hash != self.content_hash:
            message = f"{environment.id} has changed since this link was made: its calls would not mean the same"
            raise ShareError(message, next_step="open the dataset at the revision of then, or play the task anew")

    async def repeat(self, visit: Visit) -> None:
        """Do again what was done, on a visit that has just begun.

        Raises:
            EpisodeError: the instance was closed meanwhile.
        """
        for call in self.calls:
            await visit.call(call.tool, call.arguments)
        if self.is_ended:
            await visit.submit(self.answer)


def _unpacked(text: str) -> Any:
    """The JSON value in a text.

    Raises:
        ValueError: it is too long or cut short; or whatever the steps of unpacking raise.
    """
    if len(text) > 2 * MAX_LINK_CHARS or not text.isascii():
        raise ValueError("too long")
    packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    inflater = zlib.decompressobj()
    data = inflater.decompress(packed, _MAX_BYTES)
    if not inflater.eof:
        raise ValueError("cut short, or too large")
    return from_json(data.decode())


def _call(tool: Any, arguments: Any) -> Call:
    if not isinstance(tool, str) or not isinstance(arguments, Mapping):
        raise ValueError("no call")
    return Call(tool=tool, arguments=dict(arguments))
