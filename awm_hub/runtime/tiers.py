"""Which sandbox an environment runs in, decided once per launch and recorded; never a silent downgrade.

`sealed` needs Linux and a kernel that takes the filter; rows from the Hub run in nothing less. `process` isolates by a
process of its own and deadlines, without a seal: for other systems and only for code that the user trusts. The bundled
environments are this project's own code and run there with a notice.
"""

import asyncio
import logging

from awm_hub import hub
from awm_hub.environment import Environment
from awm_hub.errors import SealError
from awm_hub.runtime.processes import zygote

_TRUST = "pass --trust-remote-code (or trust_remote_code=True) if you trust this code with your files and tokens"
logger = logging.getLogger("awm_hub")


async def choose_tier(wanted: str, *, trust_remote_code: bool, environment: Environment | None = None) -> str:
    """`sealed` or `process`.

    Raises:
        SealError: this machine cannot seal, or the wanted tier needs a trust that was not given.
    """
    if wanted == "process":
        if not _is_trusted(trust_remote_code, environment):
            raise SealError("the process tier runs code without a seal", next_step=_TRUST)
        return _noticed()
    if zygote().seals is None:
        await asyncio.to_thread(zygote().can_seal)
    if zygote().seals:
        return "sealed"
    if wanted == "sealed" or not _is_trusted(trust_remote_code, environment):
        raise SealError("this machine cannot seal a process", next_step=f"use Linux on x86_64, or {_TRUST}")
    return _noticed()


def _noticed() -> str:
    logger.warning("awm-hub: running without a seal (tier `process`)")
    return "process"


def _is_trusted(trust_remote_code: bool, environment: Environment | None) -> bool:
    """Whether the user, or the wheel this code came with, vouches for it."""
    if trust_remote_code or environment is None:
        return trust_remote_code
    entry = hub.load().entries.get(environment.id)
    return entry is not None and entry.content_hash == environment.content_hash
