"""Environments as live MCP servers: one process for a whole dataset over HTTP, or one instance over stdio.

An instance is reached through its own URL, `/i/{id}/mcp`, whose 128 random bits are all an agent needs and all it gets:
tools. Opening, closing, judging and looking into the database belong to the controller, who has a token. Both majors of
the MCP SDK serve the same wire; `protocol` is the only module that tells them apart.
"""

from awm_hub.serving.app import build_app
from awm_hub.serving.server import Address, running_server, serve_http
from awm_hub.serving.settings import ServerSettings
from awm_hub.serving.stdio import serve_stdio

__all__ = ["Address", "ServerSettings", "build_app", "running_server", "serve_http", "serve_stdio"]
