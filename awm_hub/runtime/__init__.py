"""The runtime: rows become live instances, sealed off from the machine they run on.

Host (trusted) → zygote (clean, preloaded) → sealed workers, each hosting the instances of one environment, and one-shot
sealed forks for everything else that touches a row: image builds, verifiers, database reads. Nothing of a row ever
runs, or is opened by SQLite, in the host; `awm_hub.sandbox` is what runs on the other side.
"""

from awm_hub.runtime.limits import Limits, Options
from awm_hub.runtime.pool import InstancePool, PoolUsage
from awm_hub.runtime.states import Snapshot
from awm_hub.runtime.sync import Instance, launch
from awm_hub.runtime.syncpool import LocalPool, PoolCall

__all__ = [
    "Instance",
    "InstancePool",
    "Limits",
    "LocalPool",
    "Options",
    "PoolCall",
    "PoolUsage",
    "Snapshot",
    "launch",
]
