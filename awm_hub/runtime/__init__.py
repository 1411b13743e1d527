"""The runtime: rows become live instances, sealed off from the machine they run on."""

from importlib import import_module
from typing import Any

_HOMES = {"Instance": "sync", "launch": "sync", "Limits": "limits", "Options": "limits", "Snapshot": "instance"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(f"awm_hub.runtime.{_HOMES[name]}"), name)
