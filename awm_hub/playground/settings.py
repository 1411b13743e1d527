"""How a playground behaves: which dataset it opens, how many instances it keeps and for how long."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from awm_hub.errors import UsageError

PREFIX = "AWM_HUB_"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


@dataclass(frozen=True, kw_only=True)
class PlaygroundSettings:
    """Settings of a playground; the defaults suit a Space on free CPU hardware.

    Raises:
        UsageError: the capacity or the idle timeout is too small.
    """

    dataset: str | None = None
    """Hub dataset, folder or Parquet file; None is the dataset that comes with the package."""
    revision: str | None = None
    capacity: int = 256
    """Live instances at most; a visitor has one to play, and two while runs are compared."""
    idle_timeout_s: float = 900.0
    """Instances that nobody used for so long are closed."""
    hosts: tuple[str, ...] = ()
    """The public names, such as `owner-name.hf.space`; none is a server on one's own machine."""
    trust_remote_code: bool = False

    @property
    def host(self) -> str | None:
        """The name that addresses are written with."""
        return self.hosts[0] if self.hosts else None

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise UsageError(f"a capacity of {self.capacity} holds no visitor", next_step=f"{PREFIX}CAPACITY=1 or more")
        if not self.idle_timeout_s > 0:
            message = f"an idle timeout of {self.idle_timeout_s:g} seconds is too short"
            raise UsageError(message, next_step=f"{PREFIX}IDLE_TIMEOUT=60")

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] | None = None) -> Self:
        """From environment variables.

        `AWM_HUB_DATASET`, `AWM_HUB_REVISION`, `AWM_HUB_CAPACITY`, `AWM_HUB_IDLE_TIMEOUT` (seconds),
        `AWM_HUB_TRUST_REMOTE_CODE`, and `SPACE_HOST`, which a Space sets itself: one name, or several between commas.

        Args:
            variables: In place of this process's.

        Raises:
            UsageError: a variable holds something else than it should.
        """
        found = os.environ if variables is None else variables
        return cls(
            dataset=found.get(PREFIX + "DATASET") or None,
            revision=found.get(PREFIX + "REVISION") or None,
            capacity=int(_number(found, "CAPACITY", cls.capacity)),
            idle_timeout_s=_number(found, "IDLE_TIMEOUT", cls.idle_timeout_s),
            hosts=tuple(name for part in found.get("SPACE_HOST", "").split(",") if (name := part.strip())),
            trust_remote_code=_switch(found, "TRUST_REMOTE_CODE"),
        )


def _number(found: Mapping[str, str], name: str, default: float) -> float:
    text = found.get(PREFIX + name) or str(default)
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{PREFIX}{name}={text!r} is no number", next_step=f"{PREFIX}{name}={default:g}") from None


def _switch(found: Mapping[str, str], name: str) -> bool:
    text = found.get(PREFIX + name, "").strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise UsageError(f"{PREFIX}{name}={text!r} is neither on nor off", next_step=f"{PREFIX}{name}=1 or 0")
    return text in _TRUE
