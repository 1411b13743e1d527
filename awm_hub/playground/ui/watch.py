"""Watch an agent: choose who attempts a task, see every step as it happens, and two runs side by side.

A visitor's key goes from its field into the object that asks the model, which lives as long as the run and is on no
shared object. What visitors share here is the events by which their own runs are stopped, and nothing else.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from awm_hub.canonical import to_json
from awm_hub.environment import Environment, Task
from awm_hub.errors import AwmHubError, UsageError
from awm_hub.playground import fragments
from awm_hub.playground.markup import element, text
from awm_hub.playground.transcript import Transcript
from awm_hub.playground.ui.hall import QUIET, Hall, Shared, token_of
from awm_hub.playground.ui.links import Place
from awm_hub.playground.visitors_endpoint import VisitorsEndpoint
from awm_hub.playground.watching import SCRIPTED_PACE_S, Ended, Watch
from awm_hub.policy import ChatPolicy, Policy, RandomPolicy, SolutionPolicy
from awm_hub.safetext import clean_line

SLOTS = ("left", "right")
_SOLUTION, _RANDOM, _HUB, _ENDPOINT = "solution", "random", "hub", "endpoint"
_SCRIPTED = (("Reference solution", _SOLUTION), ("Random calls", _RANDOM))
_MODELS = (("A model, with my Hugging Face account", _HUB), ("A model at an endpoint of mine", _ENDPOINT))
_WHO = {_SOLUTION: "the reference solution", _RANDOM: "chance"}
_PROTOCOLS = (("native tool calls", "native"), ("in the text", "text"))
_PROMPT_WIDTH, _KEPT_S = 90, 900
_NOTHING = '<p class="awm-soft awm-empty">Press <b>Start</b>, and every step appears here as it happens.</p>'
_DOWNLOAD_JS = """(text) => {
  if (!text) return [];
  const found = JSON.parse(text);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  link.download = String(found.task_id || found.environment_id).replace(/[^A-Za-z0-9_.-]+/g, '_') + '.json';
  link.click();
  URL.revokeObjectURL(link.href);
  return [];
}"""
CSS = """
.awm-transcript { display: flex; flex-direction: column; gap: .6rem; color: var(--awm-ink); }
.awm-turn {
  border: 1px solid var(--awm-line); border-left: 4px solid var(--awm-line); border-radius: .5rem; padding: .6rem .9rem;
  background: var(--awm-paper, transparent); min-width: 0; animation: awm-appear .25s ease-out;
}
.awm-turn-call { border-left-color: var(--awm-accent); }
.awm-turn-task, .awm-turn-said { background: var(--awm-raised); }
.awm-turn-answer { border-left-color: var(--awm-ink); background: var(--awm-raised); }
.awm-outcome h3 { font-size: 1.1rem; margin: 0 0 .25rem; }
.awm-outcome.awm-good h3 { color: var(--awm-good); } .awm-outcome.awm-bad h3 { color: var(--awm-bad); }
.awm-outcome.awm-doubtful h3 { color: var(--awm-doubtful); }
.awm-outcome summary { cursor: pointer; color: var(--awm-soft); }
.awm-status { color: var(--awm-soft); margin: 0; display: flex; align-items: center; gap: .5rem; min-height: 1.5rem; }
.awm-dot {
  width: .6rem; height: .6rem; border-radius: 50%; background: var(--awm-accent);
  animation: awm-beat 1.2s ease-in-out infinite;
}
.awm-empty {
  border: 1px dashed var(--awm-line); border-radius: .5rem; padding: 1.5rem 1rem; margin: 0; text-align: center;
}
.awm-unshown { display: none !important; }
@keyframes awm-beat { 50% { opacity: .25; transform: scale(.75); } }
@keyframes awm-appear { from { opacity: 0; transform: translateY(.25rem); } }
@media (prefers-reduced-motion: reduce) { .awm-dot, .awm-turn { animation: none; } }
"""


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """Who attempts a task, as the form says it; the key is in no representation."""

    kind: str
    hub_model: str = ""
    provider: str = ""
    address: str = ""
    model: str = ""
    protocol: str = "native"


def build(hall: Hall, shared: Shared) -> None:
    """The view, in its tab."""
    place_card = gr.HTML(_welcome(), js_on_load="", elem_id="awm-watch-place")
    example = gr.Button("Show me one", variant="primary", elem_id="awm-watch-example")
    with gr.Column(visible=False, elem_id="awm-watch-board") as board:
        tasks = gr.Dropdown(label="Task", choices=[], interactive=True, elem_id="awm-watch-task")
        compare = gr.Checkbox(label="Compare with another run", value=False, elem_id="awm-watch-compare")
        with gr.Row(equal_height=False):
            events = _Events(hall)
            lanes = [_lane(events, shared, tasks, slot) for slot in SLOTS]
    compare.input(lambda both: gr.Column(visible=bool(both)), compare, lanes[1], **QUIET)
    shared.place.change(events.arrive, [shared.place, tasks], [place_card, example, board, tasks], **QUIET)
    example.click(events.example, shared.place, shared.place, **QUIET)
    tasks.input(_with_task, [shared.place, tasks], shared.place, **QUIET)


def _lane(events: "_Events", shared: Shared, tasks: gr.Dropdown, slot: str) -> gr.Column:
    """The controls and the transcript of one run."""
    is_first = slot == SLOTS[0]
    has_sign_in = "OAUTH_CLIENT_ID" in os.environ
    choices = [*_SCRIPTED, *(_MODELS if has_sign_in else _MODELS[1:])]
    column = gr.Column(visible=is_first, min_width=320, elem_id=f"awm-watch-{slot}")
    with column:
        kind = gr.Dropdown(
            label="Who attempts it", choices=choices, value=_SOLUTION if is_first else _RANDOM, interactive=True
        )
        with gr.Group(visible=False) as hub:
            hub_model = gr.Textbox(label="Model on the Hub", placeholder="openai/gpt-oss-120b", max_length=200)
            provider = gr.Textbox(label="Inference provider", placeholder="chosen by the router", max_length=40)
        with gr.Group(visible=False) as endpoint:
            address = gr.Textbox(
                label="Address (OpenAI-compatible, https)",
                placeholder="https://api.example.org/v1",
                max_length=500,
                elem_id=f"awm-watch-address-{slot}",
            )
            model = gr.Textbox(label="Model", placeholder="as the endpoint calls it", max_length=200)
            key = gr.Textbox(
                label="Key",
                type="password",
                info="Sent to this address and nowhere else; not stored, gone when you close the page.",
                max_length=4096,
                html_attributes=gr.InputHTMLAttributes(autocomplete="off", spellcheck=False),
                elem_id=f"awm-watch-key-{slot}",
            )
        protocol = gr.Radio(label="Tool calls", choices=list(_PROTOCOLS), value="native", visible=False)
        with gr.Row():
            start = gr.Button("Start", variant="primary", min_width=120, elem_id=f"awm-watch-start-{slot}")
            stop = gr.Button("Stop", variant="stop", min_width=120, interactive=False, elem_id=f"awm-watch-stop-{slot}")
        shown = gr.HTML(_NOTHING, js_on_load="", elem_id=f"awm-watch-transcript-{slot}")
        export = gr.Button("Download the trajectory", size="sm", visible=False, elem_id=f"awm-watch-export-{slot}")
        exported = gr.Textbox(visible="hidden", show_label=False, elem_classes="awm-unshown")
    record = gr.State("", time_to_live=_KEPT_S)
    kind.change(_fields, kind, [hub, endpoint, protocol], **QUIET)
    form = [kind, hub_model, provider, address, model, protocol, key]
    outputs = [shown, start, stop, export, record]
    start.click(events.starting(slot), [shared.place, tasks, *form], outputs, **QUIET)
    stop.click(events.stopping(slot), None, stop, **QUIET)
    export.click(lambda found: found, record, exported, **QUIET).then(None, exported, None, js=_DOWNLOAD_JS)
    return column


def _fields(kind: str) -> list[Any]:
    is_model = kind in (_HUB, _ENDPOINT)
    return [gr.Group(visible=kind == _HUB), gr.Group(visible=kind == _ENDPOINT), gr.Radio(visible=is_model)]


class _Events:
    """What happens when a visitor does something."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._stops: dict[tuple[str, str], asyncio.Event] = {}
        """By which runs under way are stopped, by visitor and slot."""

    async def arrive(self, place: Place, now: str | None, request: gr.Request) -> list[Any]:
        """Another environment or task is looked at."""
        if place.environment is None:
            return [_welcome(), gr.Button(visible=True), gr.Column(visible=False), gr.skip()]
        try:
            environment = await self._hall.environment(place, request)
        except AwmHubError as error:
            told = fragments.message(fragments.told(error), "bad")
            return [told, gr.Button(visible=True), gr.Column(visible=False), gr.skip()]
        slugs = [task.slug for task in environment.tasks]
        wanted = place.task if place.task in slugs else now if now in slugs else next(iter(slugs), None)
        picked = gr.Dropdown(choices=[(_titled(task), task.slug) for task in environment.tasks], value=wanted)
        return [_card(environment), gr.Button(visible=False), gr.Column(visible=bool(slugs)), picked]

    async def example(self, place: Place, request: gr.Request) -> Any:
        """The first environment of the dataset, for whoever does not want to choose."""
        try:
            found = await self._hall.environments(place, request)
        except AwmHubError as error:
            _warn(error)
            return gr.skip()
        return Place(dataset=place.dataset, environment=next(iter(found), None))

    def starting(self, slot: str) -> Any:
        """What the start button of a lane does."""

        async def start(
            place: Place,
            task: str | None,
            kind: str,
            hub_model: str,
            provider: str,
            address: str,
            model: str,
            protocol: str,
            key: str,
            request: gr.Request,
        ) -> AsyncIterator[list[Any]]:
            choice = _Choice(
                kind=kind,
                hub_model=hub_model,
                provider=provider,
                address=address,
                model=model,
                protocol=protocol,
            )
            async for shown in self._run(slot, place, task, choice, key, request):
                yield shown

        return start

    def stopping(self, slot: str) -> Any:
        """What the stop button of a lane does."""

        async def stop(request: gr.Request) -> Any:
            stopping = self._stops.get((_visitor(request), slot))
            if stopping is not None:
                stopping.set()
            return gr.Button("Stopping …" if stopping else "Stop", interactive=False)

        return stop

    async def _run(
        self, slot: str, place: Place, task: str | None, choice: _Choice, key: str, request: gr.Request
    ) -> AsyncIterator[list[Any]]:
        """One attempt, from the button to the verdict."""
        visitor, stopping = _visitor(request), asyncio.Event()
        async with contextlib.AsyncExitStack() as closing:
            try:
                environment = await self._hall.environment(place, request)
                chosen = _task(environment, task)
                token = token_of(request) if choice.kind == _HUB else None
                policy = await _policy(choice, key, token, environment, closing)
                seed = SLOTS.index(slot) if choice.kind == _RANDOM else 0
                visit = await self._hall.visits.open(visitor, slot, environment, task=chosen.slug, seed=seed)
            except AwmHubError as error:
                _warn(error)
                yield [gr.skip()] * 5
                return
            self._stops[visitor, slot] = stopping
            closing.callback(self._forget, visitor, slot, stopping)
            pace_s = SCRIPTED_PACE_S if choice.kind in _WHO else 0.0
            watch = Watch(visit, policy, stopping=stopping, pace_s=pace_s)
            transcript, record = Transcript(chosen, _WHO.get(choice.kind, "the model")), ""
            yield _running(transcript.html)
            async with contextlib.aclosing(watch.events()) as events:
                async for event in events:
                    transcript.add(event)
                    if isinstance(event, Ended):
                        record = "" if event.trajectory is None else to_json(event.trajectory.to_dict())
                        break
                    yield _running(transcript.html)
            yield _over(transcript.html, record)

    def _forget(self, visitor: str, slot: str, stopping: asyncio.Event) -> None:
        if self._stops.get((visitor, slot)) is stopping:
            del self._stops[visitor, slot]


async def _policy(
    choice: _Choice, key: str, token: str | None, environment: Environment, closing: contextlib.AsyncExitStack
) -> Policy:
    """What attempts the task; a model's connections are closed with the run.

    Raises:
        UsageError: something is missing, or an address is none that is asked.
    """
    if choice.kind == _SOLUTION:
        return SolutionPolicy({environment.id: environment})
    if choice.kind == _RANDOM:
        return RandomPolicy()
    if choice.kind == _HUB:
        endpoint = await VisitorsEndpoint.signed_in(token, choice.hub_model, provider=choice.provider.strip())
    elif choice.kind == _ENDPOINT:
        endpoint = await VisitorsEndpoint.at(choice.address, choice.model, key=key)
    else:
        raise UsageError("nobody is chosen who attempts it", next_step="choose one")
    await closing.enter_async_context(endpoint)
    return ChatPolicy(endpoint, protocol="text" if choice.protocol == "text" else "native")


def _task(environment: Environment, slug: str | None) -> Task:
    if not slug:
        raise UsageError("no task is chosen", next_step="choose one above")
    return environment.task(slug)


def _running(shown: str) -> list[Any]:
    started = gr.Button("Running …", interactive=False)
    return [shown, started, gr.Button("Stop", interactive=True), gr.Button(visible=False), ""]


def _over(shown: str, record: str) -> list[Any]:
    stop, export = gr.Button("Stop", interactive=False), gr.Button(visible=bool(record))
    return [shown, gr.Button("Start again", interactive=True), stop, export, record]


def _with_task(place: Place, task: str | None) -> Place:
    return Place(dataset=place.dataset, environment=place.environment, task=task)


def _visitor(request: gr.Request) -> str:
    assert request.session_hash is not None
    return request.session_hash


def _welcome() -> str:
    told = "An agent works on a task, and you see every call, its result and the rows that it changes."
    return element(
        "section",
        element("h2", "Watch an agent"),
        element("p", told),
        element("p", "Choose an environment under Browse, or take the first one.", class_="awm-soft"),
        class_="awm-card",
    )


def _card(environment: Environment) -> str:
    heading = element("h2", clean_line(environment.title))
    told = element("p", "Choose a task and who attempts it. Scripts need no model and no key.", class_="awm-soft")
    return element("section", heading, told, class_="awm-card")


def _titled(task: Task) -> str:
    words = " ".join(task.instruction.split())
    cut = words if len(words) <= _PROMPT_WIDTH else f"{words[:_PROMPT_WIDTH]}…"
    return clean_line(f"{task.slug} · {cut}")


def _warn(error: AwmHubError) -> None:
    """Tell a visitor what is the matter, and the next step."""
    gr.Warning(text(fragments.told(error)))
