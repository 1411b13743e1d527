"""What a policy needs of a model: that it can be asked, and told apart from others.

`Endpoint` is that, and so is whatever stands before one, such as a desk that knows answers from an earlier run.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from awm_hub.inference.replies import Reply
from awm_hub.inference.sampling import Sampling


class Asked(Protocol):
    """A model that can be asked; see `awm_hub.inference.Endpoint`."""

    @property
    def sampling(self) -> Sampling:
        """What requests say about sampling unless `chat` is told otherwise."""
        ...

    def describe(self) -> dict[str, Any]:
        """What is recorded of it; never a key."""
        ...

    def check_key(self) -> None:
        """See that there is a token where one is needed, which is known without asking."""
        ...

    async def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        sampling: Sampling | None = None,
    ) -> Reply:
        """The model's next message."""
        ...
