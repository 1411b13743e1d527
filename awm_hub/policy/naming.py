"""Policies by the names that the command line and configuration files give them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from awm_hub.environment import Environment
from awm_hub.errors import DataError, UsageError
from awm_hub.inference import Endpoint
from awm_hub.policy.acting import Policy
from awm_hub.policy.chat import ChatPolicy
from awm_hub.policy.scripted import NoopPolicy, RandomPolicy, ReplayPolicy, SolutionPolicy
from awm_hub.trajectory import Trajectory, decoded, trajectory_from

NAMES = ("solution", "noop", "random", "replay:FILE", "chat")


def policy_from(
    name: str, *, environments: Mapping[str, Environment], endpoint: Endpoint | None = None, **settings: Any
) -> Policy:
    """A policy by its name: `solution`, `noop`, `random`, `replay:FILE` or `chat`.

    Args:
        name: Which; `replay:` is followed by the path of a trajectory as JSON.
        environments: Where its tasks are from.
        endpoint: The model of `chat`.
        settings: Further arguments of the policy.

    Raises:
        DataError: the file of a replay is no trajectory.
        UsageError: there is no such policy, `chat` has no endpoint, or the policy does not take these settings.
    """
    kind, _, path = name.partition(":")
    try:
        match kind:
            case "solution":
                return SolutionPolicy(environments, **settings)
            case "noop":
                return NoopPolicy(**settings)
            case "random":
                return RandomPolicy(**settings)
            case "replay" if path:
                return ReplayPolicy(read_trajectory(Path(path)), **settings)
            case "chat" if endpoint is not None:
                return ChatPolicy(endpoint, **settings)
            case "chat":
                raise UsageError(
                    "the policy chat needs a model", next_step="give the model, and a base URL where needed"
                )
    except TypeError as error:
        message = f"the policy {kind} does not take {', '.join(sorted(settings))}"
        raise UsageError(message, next_step="leave these settings out") from error
    raise UsageError(f"there is no policy {name!r}", next_step=f"one of {', '.join(NAMES)}")


def read_trajectory(path: Path) -> Trajectory:
    """A trajectory from its JSON file.

    Raises:
        DataError: the file cannot be read, or is no trajectory.
    """
    try:
        return trajectory_from(decoded(path.read_bytes(), str(path)), str(path))
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}", next_step="give a trajectory's JSON file"
        ) from error
