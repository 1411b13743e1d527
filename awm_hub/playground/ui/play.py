"""Play: an instance of the visitor's own, a form for its tools, live tables, the way back, and the verdict."""

import html
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from awm_hub.canonical import to_json
from awm_hub.environment import Environment, Task
from awm_hub.errors import AwmHubError, EpisodeError, UnknownNameError, UsageError
from awm_hub.playground import board, changes, fragments
from awm_hub.playground.sharing import Shared as SharedAttempt
from awm_hub.playground.ui.form import CSS as FORM_CSS
from awm_hub.playground.ui.form import ToolForm, packed, tool_form
from awm_hub.playground.ui.hall import QUIET, Hall, Shared
from awm_hub.playground.ui.links import Place
from awm_hub.playground.visits import Visit

SLOT = "play"
_ROAM = "Roam free"
_POLL_S = 2.0
_MAX_ROWS = 100
_PICK_JS = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-to]');
  if (button) trigger('select', { index: Number(button.dataset.to), value: button.dataset.to });
});
"""
_REVEAL_JS = """
const reveal = () => element.querySelectorAll('.awm-live').forEach((region) => {
  const cell = region.querySelector('td.awm-changed');
  if (!cell) return;
  const hidden = cell.offsetLeft + cell.offsetWidth - region.clientWidth;
  if (hidden > 0) region.scrollLeft = hidden + 8;
});
watch('value', () => requestAnimationFrame(() => requestAnimationFrame(reveal)));
"""
"""A changed cell far to the right is scrolled to."""
_COPY_JS = """
element.addEventListener('click', async (event) => {
  const button = event.target.closest('button');
  if (!button) return;
  await navigator.clipboard.writeText(button.previousElementSibling.innerText);
  button.innerText = 'Copied';
});
"""
_TO_LINK_JS = "(text) => text ? window.location.origin + window.location.pathname + '?play=' + text : ''"
_DOWNLOAD_JS = """(text) => {
  if (!text) return [];
  const made = JSON.parse(text);
  const name = (made.task_id || made.environment_id).replaceAll('/', '-') + '.json';
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
  return [];
}"""
CSS = """
.awm-moves { margin: 0 0 .5rem; padding-left: 1.5rem; }
.awm-moves li { padding: .25rem 0; overflow-wrap: anywhere; }
.awm-undo { border: 1px solid var(--awm-line); border-radius: .3rem; padding: 0 .5rem; background: none;
  color: var(--awm-accent); cursor: pointer; font-size: .8rem; min-height: 1.75rem; }
.awm-instruction { font-size: 1.05rem; white-space: pre-wrap; overflow-wrap: anywhere; }
#awm-start { align-self: flex-end; }
#awm-board:has(#awm-only input:checked) .awm-still { display: none; }
"""
CSS += changes.CSS + FORM_CSS


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The components that show a visit."""

    card: gr.HTML
    start: gr.Button
    board: gr.Row
    result: gr.HTML
    verdict: gr.HTML
    tables: gr.HTML
    since: gr.Radio
    moves: gr.HTML
    mcp: gr.HTML
    seen: gr.State
    """Version of the visit that is shown."""
    form: ToolForm

    @property
    def shown(self) -> list[Any]:
        """In the order of `_shown`."""
        return [
            self.card,
            self.start,
            self.board,
            self.result,
            self.verdict,
            self.tables,
            self.moves,
            self.mcp,
            self.seen,
        ]


def build(hall: Hall, shared: Shared) -> None:
    """The view, in its tab."""
    with gr.Row():
        tasks = gr.Dropdown(
            label="Task",
            choices=[_ROAM],
            value=_ROAM,
            interactive=True,
            elem_id="awm-play-task",
            scale=5,
            min_width=260,
        )
        start = gr.Button("Start", variant="primary", elem_id="awm-start", visible=False, scale=1, min_width=120)
    card = gr.HTML('<p class="awm-soft">Choose an environment under Browse.</p>', js_on_load="")
    with gr.Row(visible=False, elem_id="awm-board") as row:
        with gr.Column(scale=2, min_width=320):
            form = tool_form()
            hint = gr.Button("Show me the next step", size="sm", elem_id="awm-hint")
            result = gr.HTML(js_on_load="", elem_id="awm-result")
            answer = gr.Textbox(
                label="Answer", lines=2, placeholder="What you tell the user in the end", elem_id="awm-answer"
            )
            submit = gr.Button("Submit answer and judge", variant="primary", elem_id="awm-submit")
            verdict = gr.HTML(js_on_load="", elem_id="awm-verdict")
        with gr.Column(scale=3, min_width=320):
            with gr.Accordion("Calls so far", open=True):
                moves = gr.HTML(js_on_load=_PICK_JS, elem_id="awm-history")
            with gr.Accordion("Share or keep", open=False):
                share = gr.Button("Make a link", size="sm", elem_id="awm-share")
                link = gr.Textbox(label="Link", buttons=["copy"], interactive=False, elem_id="awm-link")
                export = gr.Button("Download the trajectory", size="sm", elem_id="awm-export")
            with gr.Accordion("Connect an MCP client", open=False) as connect:
                mcp = gr.HTML(js_on_load=_COPY_JS)
            since = gr.Radio(
                ["the last call", "the beginning"],
                value="the last call",
                label="Rows changed since",
                elem_id="awm-since",
            )
            gr.Checkbox(label="Changed rows only", elem_id="awm-only", container=False)
            tables = gr.HTML(js_on_load=_REVEAL_JS, elem_id="awm-tables")
    packed, exported = (gr.Textbox(visible="hidden", show_label=False, elem_classes="awm-unshown") for _ in range(2))
    seen, timer = gr.State(-1), gr.Timer(_POLL_S, active=False)
    parts = _Parts(
        card=card,
        start=start,
        board=row,
        result=result,
        verdict=verdict,
        tables=tables,
        since=since,
        moves=moves,
        mcp=mcp,
        seen=seen,
        form=form,
    )
    events = _Events(hall, parts)
    shared.place.change(
        events.arrive, [shared.place, shared.link], [tasks, *parts.shown, form.tools, shared.link], **QUIET
    )
    tasks.input(_with_task, [shared.place, tasks], shared.place, **QUIET)
    start.click(events.start, [shared.place, tasks, since], [*parts.shown, form.tools, answer], **QUIET)
    form.on_call(events.call, [since], parts.shown, **QUIET)
    hint.click(events.hint, None, form.wanted, **QUIET)
    submit.click(events.submit, [answer, since], parts.shown, **QUIET)
    since.input(events.look, since, parts.shown, **QUIET)
    moves.select(events.undo, since, parts.shown, **QUIET)
    share.click(events.share, shared.place, packed, **QUIET).then(None, packed, link, js=_TO_LINK_JS)
    export.click(events.export, None, exported, **QUIET).then(None, exported, None, js=_DOWNLOAD_JS)
    seen.change(lambda: "", None, link, **QUIET)  # a link holds the calls up to when it was made
    connect.expand(lambda: gr.Timer(active=True), None, timer, **QUIET)
    connect.collapse(lambda: gr.Timer(active=False), None, timer, **QUIET)
    timer.tick(events.follow, [since, seen], parts.shown, **QUIET)


def _with_task(place: Place, task: str) -> Place:
    return Place(dataset=place.dataset, environment=place.environment, task=None if task == _ROAM else task)


def warn(error: AwmHubError) -> None:
    """Tell a visitor what is the matter, and the next step."""
    gr.Warning(html.escape(fragments.told(error)))


class _Events:
    """What happens when a visitor does something."""

    def __init__(self, hall: Hall, parts: _Parts) -> None:
        self._hall, self._parts = hall, parts

    async def arrive(self, place: Place, link: str | None, request: gr.Request) -> list[Any]:
        """Another environment or task is looked at; an attempt that came with the address is repeated."""
        if place.environment is None:
            return [gr.skip() for _ in range(len(self._parts.shown) + 3)]
        try:
            environment = await self._hall.environment(place, request)
            choices = [(_ROAM, _ROAM), *((_titled(t), t.slug) for t in environment.tasks)]
            chosen = _task(environment, place.task)
            visit = self._hall.visits.get(_visitor(request), SLOT)
            if link is not None:
                visit = await self._repeated(SharedAttempt.read(link), environment, request)
            elif visit is not None and not _is_at(visit, environment, chosen):
                visit = None
        except AwmHubError as error:
            shown = _nothing(fragments.message(fragments.told(error), "bad"), can_start=False)
            return [gr.skip(), *shown, gr.skip(), None]
        task = chosen.slug if chosen else _ROAM
        picked = gr.Dropdown(choices=choices, value=task)
        if visit is None:
            card = board.task_card(environment, chosen, is_live=False)
            shown = _nothing(card)
        else:
            shown = await self._shown(visit, "the last call", request)
        return [picked, *shown, packed(environment.tools), None]

    async def start(self, place: Place, task: str, since: str, request: gr.Request) -> list[Any]:
        """Begin, or begin anew."""
        try:
            environment = await self._hall.environment(place, request)
            slug = None if task == _ROAM else task
            visit = await self._hall.visits.open(_visitor(request), SLOT, environment, task=slug)
            return [*await self._shown(visit, since, request), packed(environment.tools), ""]
        except AwmHubError as error:
            warn(error)
            return self._unchanged(2)

    async def call(self, tool: str, arguments: dict[str, Any], since: str, request: gr.Request) -> list[Any]:
        """Call a tool with what the form holds."""
        return await self._doing(request, since, lambda visit: visit.call(tool, arguments))

    async def hint(self, request: gr.Request) -> Any:
        """Put the next call of the reference solution into the form."""
        visit = self._hall.visits.get(_visitor(request), SLOT)
        if visit is None:
            gr.Info("Press Start first.")
            return gr.skip()
        call = visit.hint()
        if call is None:
            gr.Info(_no_hint(visit))
            return gr.skip()
        return (call.tool, to_json(call.arguments))

    async def submit(self, answer: str, since: str, request: gr.Request) -> list[Any]:
        """End the episode."""
        visit = self._hall.visits.get(_visitor(request), SLOT)
        if visit is not None and visit.task is not None and visit.task.kind != "change" and not answer.strip():
            gr.Warning("This task asks for an answer. Write it under Answer.")
            return self._unchanged()
        return await self._doing(request, since, lambda visit: visit.submit(answer))

    async def undo(self, since: str, request: gr.Request, event: gr.EventData) -> list[Any]:
        """Go back."""
        to = event._data.get("index") if isinstance(event._data, dict) else None
        if not isinstance(to, int):
            return self._unchanged()

        async def back(visit: Visit) -> None:
            await visit.undo(max(0, min(to, len(visit.moves))))

        return await self._doing(request, since, back)

    async def look(self, since: str, request: gr.Request) -> list[Any]:
        """Show the same visit otherwise."""
        return await self._doing(request, since, _nothing_to_do)

    async def follow(self, since: str, seen: int, request: gr.Request) -> list[Any]:
        """Show what somebody else did to the instance."""
        visit = self._hall.visits.get(_visitor(request), SLOT)
        if visit is None or visit.version == seen:
            return self._unchanged()
        return await self._doing(request, since, _nothing_to_do)

    async def share(self, place: Place, request: gr.Request) -> str:
        """The text of a link."""
        try:
            return SharedAttempt.of(self._visit(request), place.dataset).text()
        except AwmHubError as error:
            warn(error)
            return ""

    async def export(self, request: gr.Request) -> str:
        """The trajectory as a file's text."""
        try:
            found = await self._visit(request).trajectory()
        except AwmHubError as error:
            warn(error)
            return ""
        return to_json(found.to_dict())

    async def _repeated(self, link: SharedAttempt, environment: Environment, request: gr.Request) -> Visit:
        link.check(environment)
        visit = await self._hall.visits.open(_visitor(request), SLOT, environment, task=link.task, seed=link.seed)
        await link.repeat(visit)
        return visit

    async def _doing(self, request: gr.Request, since: str, work: Callable[[Visit], Awaitable[Any]]) -> list[Any]:
        """Do something with the visit, and show what came of it."""
        try:
            visit = self._visit(request)
            await work(visit)
            return await self._shown(visit, since, request)
        except EpisodeError:
            gr.Warning("This attempt has ended. Press Start over, or go back to one of its calls.")
            return self._unchanged()
        except AwmHubError as error:
            warn(error)
            return self._unchanged()

    def _visit(self, request: gr.Request) -> Visit:
        visit = self._hall.visits.get(_visitor(request), SLOT)
        if visit is None:
            minutes = self._hall.settings.idle_timeout_s / 60
            message = f"Your instance was closed, since nobody used it for {minutes:g} minutes, or it was never opened"
            raise UsageError(message, next_step="Press Start.")
        return visit

    def _unchanged(self, more: int = 0) -> list[Any]:
        return [gr.skip() for _ in range(len(self._parts.shown) + more)]

    async def _shown(self, visit: Visit, since: str, request: gr.Request) -> list[Any]:
        moves = visit.moves
        dump, diff = await visit.picture(since_beginning=since == "the beginning", max_rows=_MAX_ROWS)
        return [
            board.task_card(visit.environment, visit.task, is_live=True),
            gr.Button("Start over", variant="secondary", visible=True),
            gr.Row(visible=True),
            changes.result_html(moves[-1].step) if moves else "",
            board.verdict_card(visit),
            changes.tables_html(dump, diff),
            board.moves_list(moves, is_ended=visit.is_ended),
            board.mcp_card(visit, origin_of(self._hall, request)),
            visit.version,
        ]


def origin_of(hall: Hall, request: gr.Request) -> str:
    """The address that visitors reach the playground at."""
    if hall.settings.host:
        return f"https://{hall.settings.host}"
    return f"http://{request.headers.get('host', '127.0.0.1')}"


def _visitor(request: gr.Request) -> str:
    assert request.session_hash is not None
    return request.session_hash


def _task(environment: Environment, name: str | None) -> Task | None:
    """The task of that name; None, and a message, where there is none."""
    try:
        return environment.task(name) if name else None
    except UnknownNameError as error:
        warn(error)
        return None


def _nothing(card: str, *, can_start: bool = True) -> list[Any]:
    start = gr.Button("Start", variant="primary", visible=can_start)
    return [card, start, gr.Row(visible=False), "", "", "", "", "", -1]


def _is_at(visit: Visit, environment: Environment, task: Task | None) -> bool:
    there = visit.task.slug if visit.task else None
    return (visit.environment.content_hash, there) == (environment.content_hash, task.slug if task else None)


async def _nothing_to_do(visit: Visit) -> None:
    pass


def _no_hint(visit: Visit) -> str:
    if visit.task is None:
        return "You are roaming: there is no task to have a hint about."
    if not visit.task.solution:
        return "This task has no reference solution."
    return "Every call of the reference solution is made. What is left is the answer."


def _titled(task: Task) -> str:
    steps = "" if task.solution is None else f" · {len(task.solution)} calls"
    words = " ".join(task.instruction.split())
    return f"{task.slug}{steps} — {words[:90]}"
