"""The web application of a playground: the pages, and the MCP URLs of the visitors' instances.

| route | who | what |
|---|---|---|
| `/` | visitors | the pages |
| `/i/{id}/mcp` | a visitor's MCP client | the tools of that visitor's instance |
| `/health` | anyone | whether it is up, how many instances are live, and how their code is kept in |

There is no controller, and no URL that opens an instance of an environment by its name.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI

from awm_hub import __version__
from awm_hub.errors import SealError
from awm_hub.playground.settings import PlaygroundSettings
from awm_hub.playground.sources import Sources
from awm_hub.playground.visits import Visits
from awm_hub.runtime.tiers import choose_tier
from awm_hub.serving.app import agent_endpoint
from awm_hub.serving.settings import ServerSettings

_MAX_UPLOAD = "64mb"


def create_app(settings: PlaygroundSettings | None = None) -> FastAPI:
    """The application, to be run by an ASGI server, in one process.

    Args:
        settings: Default: from the environment.

    Raises:
        UsageError: a setting is not what it should be.
        DataError: the dataset cannot be opened.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    import gradio as gr

    from awm_hub.playground.ui import shell
    from awm_hub.playground.ui.hall import Hall

    settings = settings or PlaygroundSettings.from_environment()
    visits = Visits(
        capacity=settings.capacity,
        idle_timeout_s=settings.idle_timeout_s,
        trust_remote_code=settings.trust_remote_code,
    )
    serving = ServerSettings(allowed_hosts=settings.hosts)
    routes, lifespan = agent_endpoint(visits.instances, serving)

    sources = Sources(settings)

    @contextlib.asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        async with lifespan():
            yield
        sources.close()

    app = FastAPI(title=shell.TITLE, lifespan=living, docs_url=None, redoc_url=None, openapi_url=None)
    app.router.redirect_slashes = False
    app.router.routes.extend(routes)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        try:
            tier = await choose_tier("auto", trust_remote_code=settings.trust_remote_code)
        except SealError:
            tier = "none"
        return {"status": "ok", "version": __version__, "instances": len(visits), "tier": tier}

    hall = Hall(settings=settings, visits=visits, sources=sources)
    blocks = shell.build(hall, has_sign_in="OAUTH_CLIENT_ID" in os.environ)
    mounted: FastAPI = gr.mount_gradio_app(
        app,
        blocks,
        path="/",
        theme=shell.theme(),
        css=shell.css(),
        footer_links=[],
        show_error=False,
        max_file_size=_MAX_UPLOAD,
        ssr_mode=False,
        mcp_server=False,
    )
    return mounted
