"""What every view is given, and the components that views share."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import gradio as gr

from awm_hub.environment import Environment
from awm_hub.errors import UsageError
from awm_hub.hub import Environments
from awm_hub.playground.settings import PlaygroundSettings
from awm_hub.playground.sources import UPLOAD, Sources
from awm_hub.playground.ui.links import Place
from awm_hub.playground.visits import Visits

QUIET: dict[str, Any] = {"concurrency_limit": None, "api_visibility": "private", "show_progress": "hidden"}
"""How events are wired: visitors do not wait for each other, and nothing of it is an API."""


@dataclass(kw_only=True)
class Hall:
    """What every view is given. One for all visitors: nothing here is of one of them."""

    settings: PlaygroundSettings
    visits: Visits
    sources: Sources

    async def environments(self, place: Place, request: gr.Request) -> Environments:
        """The dataset that a visitor looks at, opened as the visitor.

        Raises:
            AwmHubError: there is none, or the visitor may not see it.
        """
        if place.dataset is None:
            return self.sources.default
        # An upload is open to whoever knows its name, also after a sign-in has expired.
        token = None if place.dataset.startswith(UPLOAD) else token_of(request)
        return await self.sources.open(place.dataset, token)

    async def environment(self, place: Place, request: gr.Request) -> Environment:
        """The environment that a visitor looks at.

        Raises:
            AwmHubError: there is none, or the visitor may not see it.
        """
        if place.environment is None:
            raise UsageError("no environment is chosen", next_step="choose one under Browse")
        found = await self.environments(place, request)
        return await asyncio.to_thread(found.__getitem__, place.environment)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Components that the views share."""

    place: gr.State
    tabs: gr.Tabs
    link: gr.State
    """The text of a share link that the visitor came by, to be repeated once. States hold what can be hashed."""


def token_of(request: gr.Request) -> str | None:
    """The token of a visitor who signed in; never the server's.

    Raises:
        UsageError: the sign-in has expired, so that the Hub would know nothing of this visitor any more.
    """
    session = getattr(request.request, "scope", {}).get("session", {})
    found = session.get("oauth_info") or {}
    token, expires_at = found.get("access_token"), found.get("expires_at")
    if token and expires_at is not None and expires_at <= time.time():
        raise UsageError("your sign-in has expired", next_step="reload the page and sign in again")
    return str(token) if token else None
