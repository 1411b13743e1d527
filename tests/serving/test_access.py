"""Host, Origin and the controller's token."""

import httpx
import pytest
from starlette.routing import Route

from awm_hub.environment import Environment
from awm_hub.errors import UsageError
from awm_hub.serving import Address, ServerSettings, build_app
from awm_hub.serving.access import AllowedNames

OPEN_PATHS = {"/health", "/i/{id}/mcp", "/{environment}/mcp"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.", "a b", ""])
async def test_a_foreign_host_is_refused_before_anything_else(stranger: httpx.AsyncClient, host: str) -> None:
    for path in ("/health", "/instances", "/made/mcp", "/i/0/mcp"):
        response = await stranger.post(path, headers={"Host": host}, json={})
        assert response.status_code == 421
        assert response.json()["error"]["type"] == "AccessError"
        assert "--allowed-host" in response.json()["error"]["next"]


@pytest.mark.parametrize("origin", ["http://evil.example", "https://evil.example:8000", "null", "file://", "localhost"])
async def test_a_foreign_page_is_refused(stranger: httpx.AsyncClient, origin: str) -> None:
    for path in ("/health", "/made/mcp"):
        response = await stranger.post(path, headers={"Origin": origin}, json={})
        assert response.status_code == 403
        assert response.json()["error"]["type"] == "AccessError"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:8000", "[::1]:8000", "[::1]"])
async def test_loopback_names_are_answered_on_every_port(stranger: httpx.AsyncClient, host: str) -> None:
    response = await stranger.get("/health", headers={"Host": host, "Origin": f"http://{host}"})
    assert response.status_code == 200


def test_an_allowed_name_counts_for_its_port_only_where_it_has_one() -> None:
    names = AllowedNames.of(ServerSettings(host="192.0.2.7", allowed_hosts=("Tools.example", "hub.example:8443")))
    assert names.has_host("tools.example")
    assert names.has_host("tools.example:81")
    assert names.has_host("192.0.2.7:8000")
    assert names.has_host("hub.example:8443")
    assert not names.has_host("hub.example")
    assert not names.has_host("hub.example:80")
    assert not names.has_host("other.tools.example")
    assert names.has_origin("https://tools.example")
    assert not names.has_origin("ftp://tools.example")


def test_the_wildcard_address_allows_no_name_of_its_own() -> None:
    assert not AllowedNames.of(ServerSettings(host="0.0.0.0")).has_host("0.0.0.0:8000")


def test_an_allowed_host_that_is_no_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="not a host name"):
        build_app({}, settings=ServerSettings(allowed_hosts=("http://tools.example/",)))


async def test_every_route_but_the_agents_and_health_needs_the_token(
    environments: dict[str, Environment], stranger: httpx.AsyncClient
) -> None:
    routes = [r for r in build_app(environments).routes if isinstance(r, Route)]
    guarded = {r.path for r in routes if r.path.removesuffix("/") not in OPEN_PATHS}
    assert {p for p in guarded if not p.endswith("/")} == {
        "/instances",
        "/instances/{id}",
        "/instances/{id}/judge",
        "/instances/{id}/diff",
    }
    for path in guarded:
        for method in ("GET", "POST", "DELETE", "PUT"):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "the token"}):
                response = await stranger.request(method, path.replace("{id}", "0"), headers=headers)
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
                assert response.json()["error"]["type"] == "AccessError"


async def test_the_agents_url_reaches_tools_and_nothing_else(
    opened: object, stranger: httpx.AsyncClient, address: Address
) -> None:
    instance = await opened(task="add_third")  # type: ignore[operator]
    for path in ("judge", "diff", "mcp/judge", "mcp/diff", ""):
        for method in ("GET", "POST"):
            response = await stranger.request(method, f"/i/{instance['id']}/{path}", json={"answer": None})
            assert response.status_code == 404
            assert response.json()["error"]["type"] == "UnknownNameError"
    assert instance["url"] == f"{address.url}/i/{instance['id']}/mcp"
