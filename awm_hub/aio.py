"""The async core: the same verbs as the top-level package, as coroutines."""

from awm_hub.runtime.instance import Instance, launch

__all__ = ["Instance", "launch"]
