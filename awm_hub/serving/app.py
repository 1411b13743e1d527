"""The web application: the controller's routes, the MCP URLs, and what lives as long as the server does.

| route | who | what |
|---|---|---|
| `POST /instances` `{environment, task?, seed?}` | controller | opens an instance: 201, its id and MCP URL |
| `GET /instances` | controller | what is open |
| `DELETE /instances/{id}` | controller | closes one |
| `POST /instances/{id}/judge` `{answer}` | controller | ends the episode with an answer: the verdict |
| `GET /instances/{id}/diff` | controller | rows added, removed and changed so far |
| `/i/{id}/mcp` | agent | the tools of one instance |
| `/{environment}/mcp` | agent | one instance per MCP session, or per `?key=NAME` |
| `GET /health` | anyone | whether the server is up |

Nothing redirects: SDKs follow a redirect with a new session each time. A trailing slash is accepted everywhere.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from awm_hub import __version__, aio
from awm_hub.canonical import from_json, to_json
from awm_hub.environment import Environment
from awm_hub.errors import RecordError, UsageError
from awm_hub.judging import judge_async
from awm_hub.serving.access import AllowedNames, ControllerOnly, NameGuard
from awm_hub.serving.ending import first_of
from awm_hub.serving.endpoint import McpEndpoint, read_body
from awm_hub.serving.instances import Instances, LiveInstance
from awm_hub.serving.protocol import make_server
from awm_hub.serving.refusals import Refusal, answer, refuse
from awm_hub.serving.settings import ServerSettings

Handler = Callable[[Request], Awaitable[Response]]
Lifespan = Callable[[], AbstractAsyncContextManager[None]]
_MAX_NAME = 200
_SURROGATE = re.compile("[\ud800-\udfff]")


def build_app(environments: Mapping[str, Environment], *, settings: ServerSettings | None = None) -> Starlette:
    """The application for a dataset. Whoever mounts it runs its lifespan.

    Raises:
        UsageError: an allowed host is not a host name.
    """
    settings = settings or ServerSettings()
    instances = Instances(
        environments,
        launch=_launcher(settings, getattr(environments, "revision", None)),
        capacity=settings.capacity,
        idle_timeout_s=settings.idle_timeout_s,
    )
    manager = _manager(settings)
    app = Starlette(
        routes=_routes(instances, manager.handle_request, settings),
        middleware=[Middleware(NameGuard, names=AllowedNames.of(settings))],
        exception_handlers={HTTPException: _refuse_http, Exception: _refuse},
        lifespan=lambda _: _lifespan(instances, manager),
    )
    app.router.redirect_slashes = False
    return app


def agent_endpoint(instances: Instances, settings: ServerSettings) -> tuple[list[Route], Lifespan]:
    """The MCP URLs of instances that another application opens, and what that application's lifespan has to enter.

    There is nothing else: no controller, and no URL that opens instances.
    """
    manager = _manager(settings)
    mcp = McpEndpoint(instances, manager.handle_request, is_single=False)
    guarded = NameGuard(mcp, names=AllowedNames.of(settings))
    return _both("/i/{id}/mcp", guarded, name="instance"), lambda: _lifespan(instances, manager)


def _manager(settings: ServerSettings) -> StreamableHTTPSessionManager:
    return StreamableHTTPSessionManager(app=make_server(settings), stateless=True, json_response=True)


class Controller:
    """The controller's routes."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances

    async def open(self, request: Request) -> Response:
        """`POST /instances`."""
        asked = await _read_object(request, {"environment": str, "task": str, "seed": int})
        if "environment" not in asked:
            raise _usage("'environment' is missing", '{"environment": "…", "task": "…"}; awm-hub list shows them')
        lease = await self._instances.open(
            asked["environment"], task=asked.get("task"), seed=asked.get("seed", 0), opened_by="controller"
        )
        url = str(request.url_for("instance", id=lease.id))
        task = lease.instance.task
        found = {
            "id": lease.id,
            "url": url,
            "environment": lease.environment.id,
            "task": None if task is None else task.id,
            "prompt": None if task is None else task.prompt,
            "seed": lease.instance.seed,
            "tier": lease.instance.tier,
            "tools_count": len(lease.instance.list_tools()),
        }
        return answer(found, HTTPStatus.CREATED, {"location": f"/instances/{lease.id}"})

    async def listing(self, _request: Request) -> Response:
        """`GET /instances`."""
        found = [
            {
                "id": lease.id,
                "environment": lease.environment.id,
                "task": None if lease.instance.task is None else lease.instance.task.id,
                "opened_by": lease.opened_by,
                "idle_s": round(lease.idle_s, 3),
            }
            for lease in self._instances
        ]
        return answer({"instances": found})

    async def close(self, request: Request) -> Response:
        """`DELETE /instances/{id}`."""
        lease = self._instances[request.path_params["id"]]
        await self._instances.close(lease)
        return answer({"id": lease.id, "closed": True})

    async def judge(self, request: Request) -> Response:
        """`POST /instances/{id}/judge`. Judging again, with the same answer, is no error."""
        lease = self._instances[request.path_params["id"]]
        asked = await _read_object(request, {"answer": str})
        if lease.instance.task is None:
            raise _usage("this instance has no task to judge", "POST /instances with a task")
        async with lease.judging:
            await lease.submit(asked.get("answer"))
            trajectory = await lease.instance.trajectory()
            verdict = await judge_async(trajectory, environment=lease.environment)
        return answer(verdict.to_dict())

    async def diff(self, request: Request) -> Response:
        """`GET /instances/{id}/diff`."""
        lease = self._instances[request.path_params["id"]]
        diff = await lease.instance.diff()
        return answer({"id": lease.id, "diff": diff.to_dict(), "rows_count": diff.rows_count})

    async def health(self, _request: Request) -> Response:
        """`GET /health`."""
        counts = {"environments": len(self._instances.environments), "instances": len(self._instances)}
        return answer({"status": "ok", "version": __version__, **counts})


def _routes(instances: Instances, manager: ASGIApp, settings: ServerSettings) -> list[Route]:
    controller = Controller(instances)
    mcp = McpEndpoint(instances, manager, is_single=settings.single)

    def guarded(**handlers: Handler) -> ASGIApp:
        return ControllerOnly(_methods(**handlers), settings.token)

    return [
        *_both("/health", _methods(GET=controller.health)),
        *_both("/instances", guarded(GET=controller.listing, POST=controller.open)),
        *_both("/instances/{id}", guarded(DELETE=controller.close)),
        *_both("/instances/{id}/judge", guarded(POST=controller.judge)),
        *_both("/instances/{id}/diff", guarded(GET=controller.diff)),
        *_both("/i/{id}/mcp", mcp, name="instance"),
        *_both("/{environment}/mcp", mcp),
    ]


def _both(path: str, app: ASGIApp, name: str | None = None) -> list[Route]:
    return [Route(path, app, name=name), Route(path + "/", app)]


def _methods(**handlers: Handler) -> ASGIApp:
    """An endpoint that has one handler per method and answers every error as JSON."""
    allowed = ", ".join(sorted(handlers))

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        handler = handlers.get(request.method)
        try:
            if handler is None:
                raise _not_allowed(request.method, allowed)
            response = await handler(request)
        except ClientDisconnect:
            return
        except Exception as error:
            response = refuse(error)
        await response(scope, receive, send)

    return _Endpoint(serve)


class _Endpoint:
    """Starlette takes a plain function for a request handler; this keeps it an ASGI application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _launcher(settings: ServerSettings, revision: str | None) -> Any:
    async def launch(environment: Environment, *, task: str | None, seed: int) -> LiveInstance:
        return await aio.launch(
            environment,
            task=task,
            seed=seed,
            trust_remote_code=settings.trust_remote_code,
            limits=settings.limits,
            options=settings.options,
            revision=revision,
        )

    return launch


@contextlib.asynccontextmanager
async def _lifespan(instances: Instances, manager: StreamableHTTPSessionManager) -> AsyncIterator[None]:
    started, ended = asyncio.Event(), asyncio.Event()

    async def manage() -> None:
        async with manager.run():
            started.set()
            await ended.wait()

    managing = asyncio.create_task(manage())  # a task of its own, else its task group would wrap every exception
    sweeping = asyncio.create_task(instances.sweep_forever())
    await first_of(started.wait(), managing)
    try:
        yield
    finally:
        ended.set()
        sweeping.cancel()
        await asyncio.gather(managing, sweeping, return_exceptions=True)
        await instances.close_all()


async def _read_object(request: Request, fields: Mapping[str, type]) -> dict[str, Any]:
    """Read a JSON object with these fields; null counts as left out."""
    headers = request.headers
    if headers.get("content-length", "0") == "0" and not {"content-type", "transfer-encoding"} & set(headers):
        example = to_json(dict.fromkeys(fields, "…"))
        raise _usage("the request has no body", f"send a JSON object, {example}, with Content-Type: application/json")
    try:
        found = from_json((await read_body(request)).decode(), "the body")
    except UnicodeDecodeError as error:
        raise _usage("the body is not UTF-8", "send a JSON object") from error
    except RecordError as error:
        raise _usage(error.message, "send a JSON object") from error
    if not isinstance(found, dict):
        raise _usage("the body is not a JSON object", f"fields: {', '.join(fields)}")
    for name, value in found.items():
        _check_field(name, value, fields)
    return {name: value for name, value in found.items() if value is not None}


def _check_field(name: str, value: Any, fields: Mapping[str, type]) -> None:
    if name not in fields:
        raise _usage(f"unknown field {name[:64]!r}", f"fields: {', '.join(fields)}")
    if value is not None and type(value) is not fields[name]:
        raise _usage(f"{name!r} is not {_KINDS[fields[name]]}", f"fields: {', '.join(fields)}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise _usage(f"{name!r} is outside 64 bits", "choose a smaller number")
    if isinstance(value, str) and _SURROGATE.search(value):
        raise _usage(f"{name!r} holds half a character (a lone surrogate)", "send whole characters")
    if isinstance(value, str) and name != "answer" and len(value) > _MAX_NAME:
        raise _usage(f"{name!r} is too long", "awm-hub list shows the environments, awm-hub show ENV their tasks")


_KINDS = {str: "text", int: "an integer"}


def _usage(message: str, next_step: str) -> UsageError:
    return UsageError(message, next_step=next_step)


def _not_allowed(method: str, allowed: str) -> Refusal:
    return Refusal(
        HTTPStatus.METHOD_NOT_ALLOWED,
        f"{method} is not served here",
        next_step=f"use {allowed}",
        headers={"allow": allowed},
    )


async def _refuse_http(request: Request, error: Exception) -> Response:
    """Starlette's own errors: a path that nothing is routed to."""
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.INTERNAL_SERVER_ERROR
    return refuse(
        Refusal(
            status,
            f"nothing is served at {request.url.path[:200]!r}",
            next_step="POST /instances opens an instance and answers with its MCP url; /{environment}/mcp is one too",
            kind="UnknownNameError",
        )
    )


async def _refuse(_request: Request, error: Exception) -> Response:
    return refuse(error)
