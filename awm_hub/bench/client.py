"""The HTTP client library that is installed: httpx2 with the current majors of mcp and huggingface-hub, else httpx."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

httpx: Any = import_module("httpx2" if find_spec("httpx2") else "httpx")
