"""An environment's page: what it is, its data, tools, tasks and code, without starting anything."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError
from awm_hub.playground import diagram, fragments
from awm_hub.playground.markup import joined
from awm_hub.playground.relations import Cell, relations, seed_rows
from awm_hub.playground.snippets import snippets
from awm_hub.playground.ui.hall import QUIET, Hall, Shared
from awm_hub.playground.ui.links import Place
from awm_hub.safetext import clean, clean_line

_MAX_ROWS, _CELL_WIDTH, _EXACT = 500, 2_000, 2**53
_LANGUAGES = ("python", "shell", "json", "python", "python")
_TOOLS, _VERIFIERS, _SCHEMA = "Tools", "Verifiers (spoilers)", "Schema"
_DIAGRAM_JS = """
const pick = (event) => {
  const table = event.target.closest('[data-table]');
  if (table) { event.preventDefault(); trigger('select', { index: Number(table.dataset.number), value: table.dataset.table }); }
};
const mark = (event) => {
  const table = event.target.closest('[data-table]');
  const on = event.type === 'mouseover' || event.type === 'focusin';
  element.querySelectorAll('.awm-on').forEach((found) => found.classList.remove('awm-on'));
  if (!table || !on) return;
  const number = table.dataset.number;
  element.querySelectorAll(`[data-from="${number}"], [data-to="${number}"]`).forEach((found) => {
    found.classList.add('awm-on');
    const other = found.dataset.from === number ? found.dataset.to : found.dataset.from;
    element.querySelector(`[data-number="${other}"]`)?.classList.add('awm-on');
  });
};
element.addEventListener('click', pick);
element.addEventListener('keydown', (event) => { if (event.key === 'Enter' || event.key === ' ') pick(event); });
['mouseover', 'mouseout', 'focusin', 'focusout'].forEach((name) => element.addEventListener(name, mark));
"""  # noqa: E501
_TASK_JS = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-tab]');
  if (button) trigger('select', { index: 0, value: [button.dataset.tab, button.dataset.task] });
});
"""
CSS = f"""
{diagram.CSS}
.awm-task-card {{ margin: 0 0 .6rem; }}
.awm-plain-code {{ border: 1px solid var(--awm-line) !important; border-radius: .5rem !important;
  background: var(--awm-raised) !important; }}
.awm-plain-code .cm-gutters {{ display: none !important; }}
.awm-plain-code .cm-editor {{ background: none !important; padding: 0 .4rem .4rem; }}
.awm-task-card details > summary {{ cursor: pointer; color: var(--awm-soft); }}
"""


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The components that show an environment, in the order of `_page`."""

    head: gr.HTML
    body: gr.Column
    overview: gr.HTML
    tables: gr.HTML
    facts: gr.HTML
    table: gr.Dropdown
    grid: gr.Dataframe
    ddl: gr.Code
    tools: gr.HTML
    tasks: gr.HTML
    module: gr.Radio
    code: gr.Code
    ways: tuple[gr.Code, ...]

    @property
    def all(self) -> list[Any]:
        """As outputs."""
        found = [self.head, self.body, self.overview, self.tables, self.facts, self.table, self.grid, self.ddl]
        return [*found, self.tools, self.tasks, self.module, self.code, *self.ways]


def build(hall: Hall, shared: Shared) -> None:
    """The view, in its tab."""
    head = gr.HTML(fragments.message("Choose an environment under Browse.", "soft"), js_on_load="", elem_id="awm-head")
    with gr.Column(visible=False, elem_id="awm-environment") as body:
        with gr.Row():
            play = gr.Button("Play", variant="primary", elem_id="awm-go-play", size="md", scale=0, min_width=110)
            watch = gr.Button("Watch an agent", elem_id="awm-go-watch", size="md", scale=0, min_width=180)
        with gr.Tabs(elem_id="awm-environment-tabs") as tabs:
            parts = _tabs(head, body)
    seen = gr.State(("", ""))
    events = _Events(hall, parts)
    shared.place.change(events.arrive, [shared.place, seen], [seen, *parts.all], **QUIET)
    parts.table.input(events.choose, [shared.place, parts.table], [parts.grid, parts.ddl], **QUIET)
    parts.tables.select(events.follow, shared.place, [tabs, parts.table, parts.grid, parts.ddl], **QUIET)
    parts.module.input(events.read, [shared.place, parts.module], parts.code, **QUIET)
    parts.tasks.select(_with_task, shared.place, [shared.place, shared.tabs], **QUIET)
    play.click(lambda: gr.Tabs(selected="play"), None, shared.tabs, **QUIET)
    watch.click(lambda: gr.Tabs(selected="watch"), None, shared.tabs, **QUIET)


def _tabs(head: gr.HTML, body: gr.Column) -> _Parts:
    with gr.Tab("Overview", id="overview"):
        overview = gr.HTML(js_on_load="", elem_id="awm-overview")
        tables = gr.HTML(js_on_load=_DIAGRAM_JS, elem_id="awm-diagram")
        facts = gr.HTML(js_on_load="", elem_id="awm-provenance")
    with gr.Tab("Data", id="data"):
        table = gr.Dropdown(label="Table", choices=[], interactive=True, elem_id="awm-table")
        grid = gr.Dataframe(
            interactive=False, wrap=False, max_height=520, show_search="filter", label="Rows at the start",
            elem_id="awm-grid", buttons=["copy", "fullscreen"], datatype="str",
        )  # fmt: skip
        ddl = _plain_code(label="Definition", language="sql")
    with gr.Tab("Tools", id="tools"):
        tools = gr.HTML(js_on_load="", elem_id="awm-tools")
    with gr.Tab("Tasks", id="tasks"):
        tasks = gr.HTML(js_on_load=_TASK_JS, elem_id="awm-tasks")
    with gr.Tab("Code", id="code"):
        module = gr.Radio([_TOOLS, _VERIFIERS, _SCHEMA], value=_TOOLS, label="Module", elem_id="awm-module")
        code = gr.Code(language="python", interactive=False, show_label=False, max_lines=45, elem_id="awm-code")
    with gr.Tab("Use", id="use"):
        ways = tuple(
            _plain_code(language=language, elem_id=f"awm-way-{position}")
            for position, language in enumerate(_LANGUAGES)
        )
    return _Parts(
        head=head, body=body, overview=overview, tables=tables, facts=facts, table=table, grid=grid, ddl=ddl,
        tools=tools, tasks=tasks, module=module, code=code, ways=ways,
    )  # fmt: skip


def _plain_code(**settings: Any) -> gr.Code:
    """A short text of code, without line numbers."""
    return gr.Code(interactive=False, show_line_numbers=False, elem_classes="awm-plain-code", **settings)


class _Events:
    """What happens on the page."""

    def __init__(self, hall: Hall, parts: _Parts) -> None:
        self._hall, self._count = hall, len(parts.all)

    async def arrive(self, place: Place, seen: tuple[str, str], request: gr.Request) -> list[Any]:
        """Show an environment, when it is another one than before."""
        here = (place.dataset or "", place.environment or "")
        if here == tuple(seen):
            return [gr.skip() for _ in range(self._count + 1)]
        if place.environment is None:
            return [here, *self._nothing("Choose an environment under Browse.", "soft")]
        try:
            environment = await self._hall.environment(place, request)
        except AwmHubError as error:
            return [here, *self._nothing(fragments.told(error), "bad")]
        return [here, *await asyncio.to_thread(_page, environment, place.dataset)]

    def _nothing(self, told: str, tone: str) -> list[Any]:
        rest = [gr.skip() for _ in range(self._count - 2)]
        return [fragments.message(told, tone), gr.Column(visible=False), *rest]

    async def choose(self, place: Place, table: str, request: gr.Request) -> list[Any]:
        """Show the rows of a table."""
        return await self._of(place, request, lambda e: _rows(e, table), 2)

    async def follow(self, place: Place, event: gr.SelectData, request: gr.Request) -> list[Any]:
        """From the diagram to a table's rows."""
        number = event.index if isinstance(event.index, int) else 0

        def rows(environment: Environment) -> list[Any]:
            names = [t.name for t in environment.tables]
            name = names[number] if 0 <= number < len(names) else ""
            return [gr.Tabs(selected="data"), gr.Dropdown(value=name), *_rows(environment, name)]

        return await self._of(place, request, rows, 4)

    async def read(self, place: Place, module: str, request: gr.Request) -> Any:
        """Show a module of the code."""
        return (await self._of(place, request, lambda e: [_code(e, module)], 1))[0]

    async def _of(
        self, place: Place, request: gr.Request, made: Callable[[Environment], list[Any]], count: int
    ) -> list[Any]:
        try:
            environment = await self._hall.environment(place, request)
        except AwmHubError as error:
            gr.Warning(fragments.message(fragments.told(error)))
            return [gr.skip() for _ in range(count)]
        return await asyncio.to_thread(made, environment)


def _with_task(place: Place, event: gr.SelectData) -> tuple[Any, Any]:
    value = event.value
    if not isinstance(value, list) or len(value) != 2 or value[0] not in ("play", "watch"):
        return gr.skip(), gr.skip()
    found = Place(dataset=place.dataset, environment=place.environment, task=str(value[1]))
    return found, gr.Tabs(selected=value[0])


def _page(environment: Environment, dataset: str | None) -> list[Any]:
    """An environment, as values of `_Parts`."""
    heading = fragments.heading
    e = environment
    names = [t.name for t in e.tables]
    first = names[0] if names else None
    drawn = joined([heading("Tables"), diagram.diagram(relations(e), e.title)])
    known = joined([heading("Audit"), fragments.audit(e), heading("Provenance"), fragments.provenance(e)])
    ways = [gr.Code(value=s.code, label=f"{s.title} — {s.told}") for s in snippets(e, dataset)]
    tables = [(clean_line(name, 80), name) for name in names]
    return [
        fragments.head(e),
        gr.Column(visible=True),
        fragments.scenario(e),
        drawn,
        known,
        gr.Dropdown(choices=tables, value=first),
        *_rows(e, first or ""),
        fragments.tools(e),
        fragments.tasks(e),
        _TOOLS,
        _code(e, _TOOLS),
        *ways,
    ]


def _rows(environment: Environment, name: str) -> list[Any]:
    found = seed_rows(environment, name, most=_MAX_ROWS)
    table = next((t for t in environment.tables if t.name == name), None)
    cells = [[_cell(cell) for cell in row] for row in found.rows]
    kinds = ["number" if _is_numeric(column) else "str" for column in zip(*cells, strict=True)]
    headers = [clean_line(c, 80) for c in found.columns] or ["(no column)"]
    more = f", the first {_MAX_ROWS}" if found.is_cut else ""
    grid = gr.Dataframe(
        value={"headers": headers, "data": cells or [[""] * len(headers)]},
        datatype=kinds or "str",  # type: ignore[arg-type]
        label=f"Rows at the start{more}" if cells else "No rows at the start",
    )
    statements = [table.ddl, *table.indexes] if table else []
    return [grid, clean(";\n\n".join(statements))]


def _cell(value: Cell) -> Cell:
    """A value as the grid shows it; numbers that a browser would round are texts."""
    if isinstance(value, str):
        return clean_line(value, _CELL_WIDTH)
    is_exact = value is None or abs(value) < _EXACT
    return value if is_exact else str(value)


def _is_numeric(column: tuple[Cell, ...]) -> bool:
    return any(c is not None for c in column) and all(c is None or isinstance(c, int | float) for c in column)


def _code(environment: Environment, module: str) -> Any:
    if module == _SCHEMA:
        statements = [s for t in environment.tables for s in (t.ddl, *t.indexes)]
        text = "".join(f"{s};\n\n" for s in [*statements, *environment.further_ddl])
        return gr.Code(value=clean(text), language="sql")
    if module == _VERIFIERS:
        own = [v.code for t in environment.tasks for v in t.verifiers if v.code]
        text = "\n\n".join([environment.verifier_module or "", *own]).strip()
        return gr.Code(value=clean(text or "# no verifier code"), language="python")
    return gr.Code(value=clean(environment.code), language="python")
