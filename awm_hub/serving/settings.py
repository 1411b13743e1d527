"""How a server behaves: where it listens, whom it lets in, how many instances it keeps and for how long."""

import os
import secrets
from dataclasses import dataclass, field

from awm_hub.errors import UsageError
from awm_hub.runtime.limits import Limits, Options

TOKEN_VARIABLE = "AWM_HUB_CONTROLLER_TOKEN"
MAX_BODY_BYTES = 4 * 2**20
"""Largest request, over HTTP and over stdio; the MCP SDKs take the same."""


def _token() -> str:
    return os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings of a server; the defaults suit one person on one machine.

    Raises:
        UsageError: the capacity or the idle timeout is too small.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    """0 picks a free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Names (`name` or `name:port`) that clients may use in Host and Origin besides the loopback names."""
    token: str = field(default_factory=_token, repr=False)
    """The controller's; from the environment variable `AWM_HUB_CONTROLLER_TOKEN`, else random."""
    single: bool = False
    """Keep one shared instance per environment at `/{environment}/mcp`, for a desktop client."""
    capacity: int = 1024
    """Live instances at most."""
    idle_timeout_s: float | None = 1800.0
    """Instances that nobody used for so long are closed; None keeps them."""
    publish_output_schemas: bool = False
    """Costs some clients milliseconds a call and swells an agent's prompt."""
    plain_schemas: bool = False
    """Publish `X | None` parameters as `X`, for clients that read no unions; null stays accepted."""
    trust_remote_code: bool = False
    limits: Limits = field(default_factory=Limits)
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise UsageError(f"a capacity of {self.capacity} holds no instance", next_step="--capacity 1 or more")
        if self.idle_timeout_s is not None and not self.idle_timeout_s > 0:
            message = f"an idle timeout of {self.idle_timeout_s:g} seconds is too short"
            raise UsageError(message, next_step="--idle-timeout 60, or 0 to keep instances until they are closed")

    @property
    def token_is_generated(self) -> bool:
        """Whether nobody but this process knows the token yet."""
        return self.token != os.environ.get(TOKEN_VARIABLE)
