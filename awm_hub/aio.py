"""The async core: `launch`, `judge`, instances and pools as coroutines; `load` is the same in both."""

from awm_hub.hub import load
from awm_hub.judging import judge_async as judge
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.launching import launch
from awm_hub.runtime.pool import InstancePool, LocalPool, PoolCall

__all__ = ["Instance", "InstancePool", "LocalPool", "PoolCall", "judge", "launch", "load"]
