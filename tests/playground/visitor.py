"""A visitor of the playground, and the fixtures of whoever tests with one; a module says by `address` where it goes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playground.served import running_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ENVIRONMENT = "public_library_1"
WAIT_MS = 20_000
_DRAWN = "#awm-form [data-drawn]"
_HINTED = f"""(drawn) => {{
  if (document.body.innerText.includes('Every call of the reference solution is made')) return 'none';
  return document.querySelector('{_DRAWN}').dataset.drawn === drawn ? null : 'filled';
}}"""
"""Whether a hint came after the form was drawn so."""


class Visitor:
    """One browser context, with everything that went wrong in it.

    Args:
        browser: Where the context is made.
        address: The playground's, without a slash at its end.
        context: How the context differs from a desktop's, as `Browser.new_context` takes it.
    """

    def __init__(self, browser: "Browser", address: str, **context: Any) -> None:
        self.address, self.complaints = address, list[str]()
        self.may_see = [address, "data:", "blob:"]
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"pageerror {error}"))
        self.page.on("request", self._see)
        self.page.on("dialog", self._refuse)

    def go(self, query: str = "") -> "Page":
        """Open an address of the playground."""
        self.page.goto(f"{self.address}/{query}")
        self.page.wait_for_selector("#awm-tabs")
        return self.page

    def start(self, task: str | None) -> None:
        """Open the environment's play view and begin."""
        self.go(f"?env={ENVIRONMENT}&view=play" + (f"&task={task}" if task else ""))
        self.begin()

    def begin(self) -> None:
        """Press Start, and wait for the instance."""
        self.page.click("#awm-start")
        self.page.wait_for_selector("#awm-board")
        self.page.wait_for_selector("#awm-history >> text=No calls yet", state="attached")

    def make_hinted_call(self) -> bool:
        """Make the next call of the reference solution; False where there is none left."""
        calls, drawn = self.calls(), self.page.get_attribute(_DRAWN, "data-drawn")
        self.page.click("#awm-hint")
        if self.page.wait_for_function(_HINTED, arg=drawn).json_value() == "none":
            return False
        self.page.locator("#awm-form .awm-call").click()
        self.page.wait_for_function("n => document.querySelectorAll('#awm-history li').length > n", arg=calls)
        return True

    def told(self, words: str) -> None:
        """Wait for a message with these words, and close it."""
        message = self.page.locator(".toast-body", has_text=words).first
        message.wait_for()
        message.get_by_role("button").first.click()
        message.wait_for(state="detached")

    def calls(self) -> int:
        """How many calls the history shows."""
        return self.page.locator("#awm-history li").count()

    def close(self) -> None:
        """Close the tab."""
        self.context.close()

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.complaints.append(f"console {message.text}")

    def _see(self, request: Any) -> None:
        if not request.url.startswith(tuple(self.may_see)):
            self.complaints.append(f"external {request.url}")

    def _refuse(self, dialog: Any) -> None:
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A browser for the tests of a module; one that outlives them would disturb tests with an event loop."""
    with running_browser() as found:
        yield found


def _visiting(browser: "Browser", address: str) -> Iterator[Visitor]:
    found = Visitor(browser, address)
    yield found
    found.close()
    assert found.complaints == [], found.complaints


@pytest.fixture
def visitor(browser: "Browser", address: str) -> Iterator[Visitor]:
    """A visitor on a desktop, in whose browser nothing may go wrong."""
    yield from _visiting(browser, address)


@pytest.fixture
def other(browser: "Browser", address: str) -> Iterator[Visitor]:
    """Another one, with cookies of their own."""
    yield from _visiting(browser, address)
