"""Every bundled tool in a real browser: its form sends what it was filled with, and that is valid."""

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr
import pytest
from jsonschema import Draft202012Validator
from playground.served import running_browser

import awm_hub
from awm_hub.canonical import to_json
from awm_hub.environment import Environment
from awm_hub.playground.ui import form as form_ui
from awm_hub.policy.guessing import arguments_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
Called = list[tuple[str, dict[str, Any]]]
ENVIRONMENTS = awm_hub.load()


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with running_browser() as found:
        yield found


def _wanted(environment: Environment) -> Called:
    """Two calls of each tool: one with all that is optional, as far as chance has it, and one of the solutions'."""
    draw = random.Random(environment.id)
    guesses = [(tool.name, arguments_for(tool.input_schema, draw)) for tool in environment.tools for _ in range(2)]
    solutions = {c.tool: dict(c.arguments) for task in environment.tasks for c in task.solution or ()}
    return [*guesses, *solutions.items()]


def _page(environment: Environment, wanted: Called, called: Called) -> Any:
    """The form of an environment's tools, and a button that has it filled in with the next of the wanted calls."""
    with gr.Blocks(analytics_enabled=False) as blocks:
        form = form_ui.tool_form()
        following, count = gr.Button("Next", elem_id="next"), gr.Textbox(label="Calls", elem_id="count")

        async def call(tool: str, arguments: dict[str, Any], _count: str, request: gr.Request) -> list[Any]:
            assert request.session_hash
            called.append((tool, arguments))
            return [str(len(called))]

        def fill() -> tuple[str, str]:
            tool, arguments = wanted[len(called)]
            return tool, to_json(arguments)

        form.on_call(call, [count], [count], concurrency_limit=None)
        following.click(fill, None, form.wanted)
        blocks.load(lambda: form_ui.packed(environment.tools), None, form.tools)
    return blocks


def _press_through(page: "Page", calls: Sequence[tuple[str, dict[str, Any]]]) -> None:
    for number, (tool, _) in enumerate(calls, 1):
        drawn = page.locator("[data-drawn]").get_attribute("data-drawn")
        page.click("#next")
        page.wait_for_function("(old) => document.querySelector('[data-drawn]').dataset.drawn !== old", arg=drawn)
        assert page.locator("#awm-form form").get_attribute("data-tool") == tool
        page.get_by_role("button", name="Call", exact=True).click()
        page.wait_for_function("n => document.querySelector('#count textarea').value === String(n)", arg=number)


@pytest.mark.parametrize("name", list(ENVIRONMENTS))
def test_the_form_of_every_tool_sends_what_it_was_filled_with_and_that_is_valid(browser: "Browser", name: str) -> None:
    environment, called = ENVIRONMENTS[name], Called()
    wanted = _wanted(environment)
    blocks = _page(environment, wanted, called)
    _, url, _ = blocks.launch(
        server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, css=form_ui.CSS, ssr_mode=False
    )
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(20_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        page.goto(url)
        page.wait_for_selector("#awm-form form")
        _press_through(page, wanted)
    finally:
        page.close()
        blocks.close()
    assert errors == []
    assert called == wanted
    assert {tool for tool, _ in called} == {tool.name for tool in environment.tools}
    for tool, arguments in called:
        Draft202012Validator(environment.tool(tool).input_schema).validate(arguments)
