"""`awm-hub serve`: environments as live MCP servers, over HTTP or, for one desktop client, over stdio."""

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Any

from awm_hub.cli.options import Parser, Verbs, add_dataset, add_launch, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean_line, counted
from awm_hub.errors import UsageError

if TYPE_CHECKING:
    from awm_hub.hub import Environments
    from awm_hub.serving import Address, ServerSettings

_DETAILS = """Over HTTP, POST /instances with the controller's token opens an instance and answers with its MCP URL,
which is all that an agent gets. The token is AWM_HUB_CONTROLLER_TOKEN, or a random one that is printed once. Clients
that cannot ask first connect to /ENV/mcp?key=NAME, one instance per key.

With --stdio, stdin and stdout are the MCP stream of one instance, and everything else goes to stderr. docs/serving.md
describes the routes. Ctrl-C and SIGTERM end the server; the exit code is 0."""

_HTTP_ONLY = ("host", "port", "allowed_host", "single", "capacity", "idle_timeout")
"""Options that have no meaning with --stdio."""
_CURL = """curl {url}/instances -H {quote}Authorization: Bearer {token}{quote} \\
    -H 'Content-Type: application/json' -d '{{"environment": "{environment}"}}'"""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "serve",
        "Serve a dataset as MCP servers.",
        details=_DETAILS,
        examples=(
            "awm-hub serve --port 8000",
            "awm-hub serve --host 0.0.0.0 --allowed-host tools.example",
            "awm-hub serve --stdio public_library_1 --task renew_mateos_loans",
        ),
    )
    _add_http(parser)
    parser.add_argument("--stdio", metavar="ENV", help="serve one instance of this environment on stdin and stdout")
    parser.add_argument("--task", metavar="TASK", help="with --stdio: start from the state that this task sets up")
    parser.add_argument("--output-schemas", action="store_true", help="publish the tools' output schemas")
    parser.add_argument(
        "--plain-schemas",
        action="store_true",
        help="publish optional parameters without null, for simple clients",
    )
    add_dataset(parser)
    add_launch(parser)
    parser.set_defaults(run=run, seed=None)


def _add_http(parser: Parser) -> None:
    """The options of the HTTP server; None tells one that was not given, so that --stdio can refuse the others."""
    parser.add_argument("--host", metavar="HOST", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="PORT", help="0 picks a free one (default 8000)")
    parser.add_argument(
        "--allowed-host",
        action="append",
        metavar="NAME",
        help="a name that clients may use for this server, besides the loopback names; may be repeated",
    )
    parser.add_argument(
        "--single", action="store_true", default=None, help="one shared instance per environment at /ENV/mcp"
    )
    parser.add_argument("--capacity", type=int, metavar="N", help="live instances at most (default 1024)")
    parser.add_argument(
        "--idle-timeout",
        type=float,
        metavar="SECONDS",
        help="close instances that nobody used for so long; 0 keeps them (default 1800)",
    )


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Serve until stopped."""
    import logging

    from awm_hub.cli.reports import ServeReport
    from awm_hub.hub import load

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    _check_combination(arguments, console)
    environments = load(arguments.dataset, revision=arguments.revision)
    if arguments.stdio is not None:
        _serve_stdio(environments, arguments)
        return Finished(data=ServeReport(url=None))
    _check_files(environments)
    return Finished(data=ServeReport(url=_serve_http(environments, arguments, console)))


def _check_combination(arguments: argparse.Namespace, console: Console) -> None:
    if arguments.stdio is None:
        for name in ("task", "seed"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name} needs --stdio", next_step=f"over HTTP, POST /instances names the {name}")
        return
    if console.is_json:
        raise UsageError("--stdio and --json both need stdout", next_step="leave out --json")
    given = [f"--{name.replace('_', '-')}" for name in _HTTP_ONLY if getattr(arguments, name) is not None]
    if given:
        options = " and ".join(given)
        raise UsageError(f"--stdio would ignore {options}", next_step=f"leave out {options}")


def _check_files(environments: "Environments") -> None:
    """Read one row of each local file, so that a damaged dataset is noticed now and not by a client."""
    if environments.revision is None:
        for name in {entry.file: entry.id for entry in environments.entries.values()}.values():
            environments[name]


def _settings(arguments: argparse.Namespace) -> "ServerSettings":
    from awm_hub.serving import ServerSettings

    asked = {
        "host": arguments.host,
        "port": arguments.port,
        "allowed_hosts": None if arguments.allowed_host is None else tuple(arguments.allowed_host),
        "single": arguments.single,
        "capacity": arguments.capacity,
        "idle_timeout_s": arguments.idle_timeout,
    }
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if arguments.idle_timeout == 0:
        given["idle_timeout_s"] = None
    return ServerSettings(
        **given,
        publish_output_schemas=arguments.output_schemas,
        plain_schemas=arguments.plain_schemas,
        trust_remote_code=arguments.trust_remote_code,
    )


def _serve_stdio(environments: "Environments", arguments: argparse.Namespace) -> None:
    from awm_hub.serving import serve_stdio

    with contextlib.suppress(KeyboardInterrupt):
        serve_stdio(
            environments[arguments.stdio],
            task=arguments.task,
            seed=arguments.seed or 0,
            settings=_settings(arguments),
            revision=environments.revision,
        )


def _serve_http(environments: "Environments", arguments: argparse.Namespace, console: Console) -> str:
    from awm_hub.serving import serve_http

    reached: list[str] = []

    def ready(address: "Address") -> None:
        reached.append(address.url)
        _say_ready(address, environments, console)

    try:
        serve_http(environments, settings=_settings(arguments), on_ready=ready)
    except KeyboardInterrupt:
        if not reached:
            raise
    console.say("stopped")
    return reached[0]


def _say_ready(address: "Address", environments: "Environments", console: Console) -> None:
    token = {"token": address.token} if address.token_is_generated else {}
    if console.is_json:
        console.progress("listening", url=address.url, environments=len(environments), **token)
        return
    console.say(f"{counted(len(environments), 'environment')} of {clean_line(environments.source)} at {address.url}")
    for name, value in token.items():
        console.say(f"controller's {name}, shown only once: {value}")
    if environments:
        shown = address.token if token else "$AWM_HUB_CONTROLLER_TOKEN"
        quote = "'" if token else '"'
        console.say("this opens an instance and answers with its MCP URL:")
        console.say(_CURL.format(url=address.url, token=shown, environment=next(iter(environments)), quote=quote))
    console.say("Ctrl-C stops the server")
