"""A newcomer's way through the playground in a real browser, two visitors beside each other, and the MCP URL."""

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playground.served import running_browser, running_playground

import awm_hub

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ENVIRONMENT = "public_library_1"
WAIT_MS = 20_000
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_branches", "arguments": {}}}
HEADERS = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_playground() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with running_browser() as found:
        yield found


class Visitor:
    """One browser context, with everything that went wrong in it."""

    def __init__(self, browser: "Browser", address: str) -> None:
        self.address, self.complaints = address, list[str]()
        self.context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"pageerror {error}"))
        self.page.on("request", self._see)

    def go(self, query: str = "") -> "Page":
        self.page.goto(f"{self.address}/{query}")
        self.page.wait_for_selector("#awm-tabs")
        return self.page

    def start(self, task: str | None) -> None:
        """Open the environment's play view and begin."""
        self.go(f"?env={ENVIRONMENT}&view=play" + (f"&task={task}" if task else ""))
        self.page.click("#awm-start")
        self.page.wait_for_selector("#awm-board")
        self.page.wait_for_selector("#awm-history >> text=No calls yet", state="attached")

    def make_hinted_call(self) -> bool:
        """Make the next call of the reference solution; False where there is none left."""
        before = self.calls()
        self.page.click("#awm-hint")
        told = self.page.locator("text=Every call of the reference solution is made")
        filled = self.page.locator("#awm-form .awm-call")
        self.page.wait_for_timeout(900)
        if told.count():
            return False
        filled.click()
        self.page.wait_for_function("n => document.querySelectorAll('#awm-history li').length > n", arg=before)
        return True

    def calls(self) -> int:
        return self.page.locator("#awm-history li").count()

    def close(self) -> None:
        self.context.close()

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.complaints.append(f"console {message.text}")

    def _see(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.complaints.append(f"external {request.url}")


@pytest.fixture
def visitor(browser: "Browser", address: str) -> Iterator[Visitor]:
    found = Visitor(browser, address)
    yield found
    found.close()
    assert found.complaints == []


@pytest.fixture
def other(browser: "Browser", address: str) -> Iterator[Visitor]:
    found = Visitor(browser, address)
    yield found
    found.close()
    assert found.complaints == []


def change_task() -> Any:
    """One that only changes rows, so that no answer has to be worded."""
    return next(t for t in awm_hub.load()[ENVIRONMENT].tasks if t.kind == "change")


def test_a_newcomer_finds_a_task_completes_it_and_shares_it(visitor: Visitor, other: Visitor) -> None:
    page = visitor.go()
    page.get_by_placeholder(re.compile("search", re.I)).first.fill("library")
    page.locator(".awm-pick", has_text="Public Library Network").first.click()
    page.click("#awm-go-play")
    page.wait_for_selector("#awm-start")
    assert f"env={ENVIRONMENT}" in page.url
    visitor.start(change_task().slug)
    while visitor.make_hinted_call():
        pass
    page.fill("#awm-answer textarea", "Done.")
    page.click("#awm-submit")
    page.wait_for_selector(".awm-outcome >> text=COMPLETED")
    made = visitor.calls()
    page.get_by_text("Share or keep").click()
    page.click("#awm-share")
    page.wait_for_function("() => document.querySelector('#awm-link textarea').value.includes('?play=')")
    link = page.input_value("#awm-link textarea")

    other.page.goto(link)
    other.page.wait_for_selector(".awm-outcome >> text=COMPLETED")
    assert other.calls() == made == len(change_task().solution)


def test_visitors_see_nothing_of_each_other_and_undo_goes_back(visitor: Visitor, other: Visitor) -> None:
    visitor.start(change_task().slug)
    other.start(change_task().slug)
    assert visitor.make_hinted_call()
    assert visitor.make_hinted_call()
    other.page.click("text=the beginning")
    other.page.wait_for_timeout(500)
    assert (visitor.calls(), other.calls()) == (2, 0)
    visitor.page.click('#awm-history [data-to="0"]')
    visitor.page.wait_for_selector("#awm-history >> text=No calls yet")


def test_closing_the_tab_frees_the_instance(browser: "Browser", address: str) -> None:
    guest = Visitor(browser, address)
    guest.start(None)
    guest.page.get_by_text("Connect an MCP client").click()
    url = guest.page.locator(".awm-copy").first.inner_text()
    assert httpx.post(url, json=CALL, headers=HEADERS).status_code == 200
    guest.close()
    deadline = time.monotonic() + 30
    while httpx.post(url, json=CALL, headers=HEADERS).status_code != 404:
        assert time.monotonic() < deadline, "the instance is still there"
        time.sleep(0.2)


def test_what_an_mcp_client_calls_is_seen_by_the_visitor(visitor: Visitor) -> None:
    visitor.start(None)
    page = visitor.page
    page.get_by_text("Connect an MCP client").click()
    url = page.locator(".awm-copy").first.inner_text()
    answer = httpx.post(url, json=CALL, headers=HEADERS).json()
    assert "error" not in answer
    page.wait_for_selector("#awm-history li >> text=list_branches")
    assert httpx.post(url, json=CALL, headers={**HEADERS, "host": "evil.example"}).status_code == 421
    foreign = url.replace("/i/", f"/{ENVIRONMENT}/").replace(url.rsplit("/i/")[1], "mcp")
    assert httpx.post(foreign, json=CALL, headers=HEADERS).status_code in (404, 405)
