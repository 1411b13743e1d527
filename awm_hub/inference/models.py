"""The names of the models that an OpenAI-compatible server has, asked for when it does not know one.

A name that is nearly right is the usual mistake, and most servers list theirs at `/models`. The list is a courtesy: it
is asked for once and briefly, no redirect is followed, since a key goes with the request, and silence is an answer.
"""

import asyncio
import http.client
import json
import urllib.parse
from collections.abc import Mapping

_TIMEOUT_S = 3.0
_MAX_BYTES = 2**20
_MOST_NAMES, _MAX_NAME = 8, 120


async def served_models(base_url: str, key: str | None) -> tuple[str, ...]:
    """Names of some of a server's models; none where it does not tell at once."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await asyncio.to_thread(_listed, base_url, key)
    except (OSError, ValueError, http.client.HTTPException, RecursionError):
        return ()


def _listed(base_url: str, key: str | None) -> tuple[str, ...]:
    parts = urllib.parse.urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        place = f"{parts.path.rstrip('/')}/models{f'?{parts.query}' if parts.query else ''}"
        connection.request("GET", place, headers={"Authorization": f"Bearer {key}"} if key else {})
        response = connection.getresponse()
        return _names(json.loads(response.read(_MAX_BYTES))) if response.status == 200 else ()
    finally:
        connection.close()


def _names(found: object) -> tuple[str, ...]:
    rows = found.get("data") if isinstance(found, Mapping) else None
    names = [row.get("id") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return tuple(name for name in names if isinstance(name, str) and len(name) <= _MAX_NAME)[:_MOST_NAMES]
