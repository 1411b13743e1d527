# /// script
# requires-python = ">=3.11"
# dependencies = ["awm-hub"]
# ///
"""Serve an environment to an MCP client: a private instance over stdio, or a whole dataset over HTTP.

    uv run serve_mcp.py public_library_1 --task owed_by_ingeborg
    uv run serve_mcp.py --port 8000

In a dataset's repo this file takes the dataset it lies in, elsewhere the bundled one, or the one that --dataset names.
Over stdio the client starts this program itself; name `uv` and this file by their absolute paths (`command -v uv`).

Claude Desktop (claude_desktop_config.json), Cursor (.cursor/mcp.json), Windsurf, LM Studio, Gemini CLI:

    {"mcpServers": {"library": {"command": "/path/to/uv",
                                "args": ["run", "/path/to/serve_mcp.py", "public_library_1"]}}}

VS Code (.vscode/mcp.json):

    {"servers": {"library": {"type": "stdio", "command": "/path/to/uv",
                             "args": ["run", "/path/to/serve_mcp.py", "public_library_1"]}}}

Claude Code, Codex, and the Inspector, which shows the tools in a browser:

    claude mcp add library -- /path/to/uv run /path/to/serve_mcp.py public_library_1
    codex mcp add library -- /path/to/uv run /path/to/serve_mcp.py public_library_1
    npx @modelcontextprotocol/inspector /path/to/uv run /path/to/serve_mcp.py public_library_1

Over HTTP, once this runs with --port 8000, an instance of one's own is behind each name after `?key=`:

    claude mcp add --transport http library "http://127.0.0.1:8000/public_library_1/mcp?key=mine"
    {"mcpServers": {"library": {"url": "http://127.0.0.1:8000/public_library_1/mcp?key=mine"}}}

A client learns scenario, rules and, with --task, the task from the server's instructions. Whoever judges opens
instances with `POST /instances` and the controller's token, which is printed: docs/serving.md.
"""

import argparse
import contextlib
import sys
from pathlib import Path

import awm_hub as awm
from awm_hub.serving import Address, ServerSettings, serve_http, serve_stdio

HERE = Path(__file__).resolve().parent.parent
"""The dataset's repo, if this file lies in one."""


def main() -> None:
    """Serve until stopped, or until the client leaves."""
    arguments = parse()
    environments = awm.load(arguments.dataset)
    settings = ServerSettings(port=arguments.port or 0, plain_schemas=arguments.plain_schemas)
    with contextlib.suppress(KeyboardInterrupt):
        if arguments.port is not None:
            serve_http(environments, settings=settings, on_ready=say)
        else:
            environment = environments[arguments.environment]
            serve_stdio(environment, task=arguments.task, seed=arguments.seed, settings=settings)


def say(address: Address) -> None:
    """Say where clients connect."""
    token = f"; controller's token: {address.token}" if address.token_is_generated else ""
    print(f"{address.url}/ENVIRONMENT/mcp?key=NAME{token}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    text, _, _ = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("environment", nargs="?", help="id of the environment to serve over stdio")
    parser.add_argument("--task", help="start from what this task sets up, and tell the client what it is")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--port", type=int, help="serve the whole dataset over HTTP instead; 0 picks a free port")
    parser.add_argument("--dataset", default=str(HERE) if (HERE / "index.parquet").exists() else None)
    parser.add_argument("--plain-schemas", action="store_true", help="for clients that read no unions in schemas")
    found = parser.parse_args()
    if (found.environment is None) == (found.port is None):
        parser.error("name an environment, for stdio, or a --port, for HTTP")
    return found


if __name__ == "__main__":
    try:
        main()
    except awm.AwmHubError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
