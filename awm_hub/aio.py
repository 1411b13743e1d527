"""The async core: the same verbs as the top-level package, as coroutines."""

from awm_hub.runtime.instance import Instance, launch
from awm_hub.runtime.pool import InstancePool, LocalPool, PoolCall

__all__ = ["Instance", "InstancePool", "LocalPool", "PoolCall", "launch"]
