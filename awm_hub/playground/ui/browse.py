"""Browse: the environments of a dataset as a gallery that is searched and filtered, and other datasets to open."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from awm_hub.errors import AwmHubError
from awm_hub.playground import fragments, plots
from awm_hub.playground.catalogue import FLAGS, SORTS, Catalogue, Catalogues, Entry, Wanted, statistics
from awm_hub.playground.ui.hall import QUIET, Hall, Shared, token_of
from awm_hub.playground.ui.links import Place
from awm_hub.safetext import clean_line
from awm_hub.schema import SPLITS, USAGES

PAGE = 24
"""Cards of a page."""
_ANY = "any"
_Range = tuple[int | None, int | None]
_ALL: _Range = (None, None)
_SIZES: Mapping[str, Mapping[str, _Range]] = {
    "tools": {_ANY: _ALL, "up to 20": (None, 20), "21–30": (21, 30), "31–40": (31, 40), "over 40": (41, None)},
    "tables": {_ANY: _ALL, "up to 10": (None, 10), "11–16": (11, 16), "17–24": (17, 24), "over 24": (25, None)},
    "tasks": {_ANY: _ALL, "up to 5": (None, 5), "6–10": (6, 10), "over 10": (11, None)},
    "difficulty": {_ANY: _ALL, "1–2": (1, 2), "3–5": (3, 5), "6–9": (6, 9), "10 or more": (10, None)},
}
_PICK_JS = """
element.addEventListener('click', (event) => {
  const card = event.target.closest('[data-environment]');
  if (!card || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  trigger('select', { index: 0, value: card.dataset.environment });
});
"""
CSS = (
    plots.CSS
    + """
.awm-gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); gap: .75rem; }
a.awm-pick, .gradio-style a.awm-pick { display: flex; flex-direction: column; gap: .4rem; padding: .9rem 1rem;
  border: 1px solid var(--awm-line); border-radius: .6rem; background: var(--awm-raised); color: var(--awm-ink);
  text-decoration: none; text-align: left; overflow-wrap: anywhere; min-width: 0;
  transition: border-color .12s, transform .12s; }
a.awm-pick:hover, a.awm-pick:focus-visible { border-color: var(--awm-accent); transform: translateY(-1px);
  outline: 2px solid var(--awm-accent); outline-offset: -1px; }
.awm-pick-title { font-weight: 650; font-size: 1.05rem; line-height: 1.3; }
.awm-pick-id { color: var(--awm-soft); font-family: ui-monospace, monospace; font-size: .78rem; }
.awm-pick-told { color: var(--awm-soft); font-size: .88rem; line-height: 1.4; display: -webkit-box;
  -webkit-line-clamp: 3; -webkit-box-orient: vertical; overflow: hidden; }
.awm-pick-size { display: flex; flex-wrap: wrap; gap: .25rem .9rem; font-size: .85rem; margin-top: auto; }
.awm-pick-size b { font-weight: 650; }
.awm-tags { display: flex; flex-wrap: wrap; gap: .3rem; }
.awm-tag { border: 1px solid var(--awm-line); border-radius: 1rem; padding: .02rem .55rem; font-size: .75rem;
  color: var(--awm-soft); background: var(--awm-paper); }
.awm-figures { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 0; padding: .25rem 0; color: var(--awm-ink); }
.awm-figures div { display: flex; gap: .4rem; align-items: baseline; }
.awm-figures dd { font-size: 1.25rem; font-weight: 650; margin: 0; order: -1; }
.awm-figures dt { color: var(--awm-soft); }
.awm-facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem; margin: 0; }
.awm-facts dt { color: var(--awm-soft); } .awm-facts dd { margin: 0; overflow-wrap: anywhere; }
.awm-page-title { font-size: 1.5rem; margin: 0 0 .3rem; line-height: 1.25; }
.awm-told { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.55; max-width: 75ch; margin: .25rem 0; }
.awm-fold { border: 1px solid var(--awm-line); border-radius: .5rem; background: var(--awm-raised); margin: 0 0 .5rem; }
.awm-fold > summary { cursor: pointer; padding: .55rem .8rem; display: flex; flex-wrap: wrap; gap: .3rem .6rem;
  align-items: baseline; }
.awm-fold > summary::before { content: "▸"; color: var(--awm-soft); }
.awm-fold[open] > summary::before { content: "▾"; }
.awm-fold > summary:focus-visible { outline: 2px solid var(--awm-accent); border-radius: .5rem; }
.awm-fold[open] > summary .awm-brief { display: none; }
.awm-fold > summary code { font-weight: 650; background: none; } .awm-fold .awm-brief { color: var(--awm-soft);
  flex: 1 1 16rem; min-width: 0; }
.awm-inside { padding: 0 .9rem .75rem; } .awm-inside > * { margin: .4rem 0; }
.awm-scroll { overflow-x: auto; }
.awm-scroll table, .gradio-style .awm-scroll table {
  border-collapse: collapse; border: 0; width: 100%; font-size: .86rem; }
.awm-scroll :is(table, thead, tbody, tr) { border: 0 !important; }
.awm-scroll th, .awm-scroll td { text-align: left; padding: .3rem .6rem .3rem 0; border: 0;
  border-bottom: 1px solid var(--awm-line); vertical-align: top; color: var(--awm-ink); background: none; }
.awm-scroll th { color: var(--awm-soft); font-weight: 600; }
.awm-code { background: var(--awm-paper); border: 1px solid var(--awm-line); border-radius: .35rem; padding: .55rem;
  overflow: auto; max-height: 26rem; font-size: .8rem; white-space: pre; margin: 0; color: var(--awm-ink); }
.awm-checks { display: flex; flex-wrap: wrap; gap: .3rem .5rem; }
.awm-go { border: 1px solid var(--awm-accent); border-radius: .35rem; padding: .2rem .7rem; background: none;
  color: var(--awm-accent); cursor: pointer; font-size: .85rem; min-height: 2rem; }
.awm-go:hover, .awm-go:focus-visible { background: var(--awm-accent); color: var(--awm-paper); }
.awm-heading { font-size: 1.05rem; margin: 1rem 0 .4rem; }
.awm-pager { align-items: center; justify-content: center; }
.awm-pager p { text-align: center; margin: 0; color: var(--awm-soft); }
.awm-pager:not(:has(button)) { display: none; }
.awm-plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); }
.awm-plot svg { max-width: none; }
"""
)


@dataclass(frozen=True, kw_only=True)
class _Filters:
    """The components that say what is looked for, in the order of `_wanted`."""

    text: gr.Textbox
    sort: gr.Dropdown
    categories: gr.Dropdown
    flags: gr.CheckboxGroup
    split: gr.Radio
    usage: gr.Radio
    sizes: tuple[gr.Radio, ...]

    @property
    def all(self) -> list[Any]:
        """As inputs."""
        return [self.text, self.sort, self.categories, self.flags, self.split, self.usage, *self.sizes]


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """The components that show what was found, in the order of `_found`."""

    figures: gr.HTML
    gallery: gr.HTML
    page: gr.State
    told: gr.HTML
    before: gr.Button
    after: gr.Button
    plots: gr.HTML

    @property
    def all(self) -> list[Any]:
        """As outputs."""
        return [self.figures, self.gallery, self.page, self.told, self.before, self.after, self.plots]


def build(hall: Hall, shared: Shared) -> None:
    """The view, in its tab."""
    source = gr.HTML(js_on_load="", elem_id="awm-source", visible=False)
    filters = _filters()
    shown = _gallery()
    with gr.Accordion("Open another dataset", open=False, elem_id="awm-open"):
        name, button, upload = _opening()
    dataset = gr.State("?")
    events = _Events(hall)
    wanted = [shared.place, *filters.all]
    gr.on(
        None,
        events.arrive,
        [shared.place, dataset],
        [dataset, source, filters.categories, filters.text, *shown.all],
        **QUIET,
    )
    for component in filters.all:
        component.change(events.look, wanted, shown.all, trigger_mode="always_last", **QUIET)
    shown.before.click(events.back, [*wanted, shown.page], shown.all, **QUIET)
    shown.after.click(events.forth, [*wanted, shown.page], shown.all, **QUIET)
    shown.gallery.select(_pick, shared.place, [shared.place, shared.tabs], **QUIET)
    gr.on([button.click, name.submit], events.open, name, shared.place, **QUIET)
    upload.upload(events.take, upload, shared.place, **QUIET)


def _filters() -> _Filters:
    with gr.Row():
        text = gr.Textbox(
            label="Search scenarios, tasks, tools and tables",
            placeholder="for example: overdue loans, invoice, search_members",
            elem_id="awm-search",
            scale=4,
            min_width=300,
        )
        sort = gr.Dropdown([(told, key) for key, told in SORTS.items()], value="best", label="Sort by", min_width=150)
    with gr.Accordion("Filters", open=False, elem_id="awm-filters"):
        with gr.Row():
            categories = gr.Dropdown([], value=[], multiselect=True, label="Categories", min_width=240)
            known = [(told, key) for key, told in FLAGS.items()]
            flags = gr.CheckboxGroup(known, label="The audit says", min_width=240)
        with gr.Row():
            sizes = tuple(
                gr.Radio(list(ranges), value=_ANY, label=_LABELS[key], min_width=200, elem_id=f"awm-filter-{key}")
                for key, ranges in _SIZES.items()
            )
        with gr.Row():
            split = gr.Radio([_ANY, *SPLITS], value=_ANY, label="Split", min_width=200)
            usage = gr.Radio([_ANY, *USAGES], value=_ANY, label="Usage", min_width=200)
    return _Filters(text=text, sort=sort, categories=categories, flags=flags, split=split, usage=usage, sizes=sizes)


_LABELS = {"tools": "Tools", "tables": "Tables", "tasks": "Tasks", "difficulty": "Calls that a task takes"}


def _gallery() -> _Shown:
    figures = gr.HTML(js_on_load="", elem_id="awm-figures")
    gallery = gr.HTML(js_on_load=_PICK_JS, elem_id="awm-gallery")
    with gr.Row(elem_classes="awm-pager"):
        before = gr.Button("← Previous", size="sm", visible=False, min_width=100, elem_id="awm-before")
        told = gr.HTML(js_on_load="")
        after = gr.Button("Next →", size="sm", visible=False, min_width=100, elem_id="awm-after")
    with gr.Accordion("Statistics", open=True, elem_id="awm-statistics"):
        plotted = gr.HTML(js_on_load="")
    return _Shown(
        figures=figures,
        gallery=gallery,
        page=gr.State(0),
        told=told,
        before=before,
        after=after,
        plots=plotted,
    )


def _opening() -> tuple[gr.Textbox, gr.Button, gr.File]:
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            name = gr.Textbox(
                label="Dataset on the Hub",
                placeholder="owner/name",
                info="Opened as you: sign in for private ones. Empty leads back to this playground's own set.",
                elem_id="awm-dataset",
            )
            button = gr.Button("Open", variant="primary", elem_id="awm-open-dataset")
        upload = gr.File(
            label="… or a Parquet file of environments",
            file_types=[".parquet"],
            type="filepath",
            height=150,
            elem_classes="awm-upload",
        )
    return name, button, upload


class _Events:
    """What happens on the page."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._catalogues = Catalogues()

    async def arrive(self, place: Place, dataset: str | None, request: gr.Request) -> list[Any]:
        """Show a dataset, when it is another one than before."""
        if place.dataset == dataset:
            return [gr.skip() for _ in range(11)]
        try:
            found = await self._catalogue(place, request)
        except AwmHubError as error:
            told = gr.HTML(fragments.message(fragments.told(error)), visible=True)
            return [place.dataset, told, gr.skip(), gr.skip(), *_found([], 0, place, is_known=False)]
        named = fragments.message(f"Dataset: {clean_line(found.source, 200)}", "soft")
        own = gr.HTML(named, visible=place.dataset is not None)
        categories = gr.Dropdown(choices=list(found.categories), value=[])
        return [place.dataset, own, categories, "", *_found(found.find(Wanted()), 0, place)]

    async def look(self, place: Place, request: gr.Request, *filters: Any) -> list[Any]:
        """Show the first page of what fits."""
        return await self._turn(place, filters, 0, request)

    async def back(self, place: Place, request: gr.Request, *rest: Any) -> list[Any]:
        """Show the page before."""
        return await self._turn(place, rest[:-1], rest[-1] - 1, request)

    async def forth(self, place: Place, request: gr.Request, *rest: Any) -> list[Any]:
        """Show the next page."""
        return await self._turn(place, rest[:-1], rest[-1] + 1, request)

    async def open(self, name: str | None, request: gr.Request) -> Any:
        """Lead to another dataset, if it can be opened."""
        named = (name or "").strip()
        if not named:
            return Place()
        try:
            await self._hall.sources.open(named, token_of(request))
        except AwmHubError as error:
            gr.Warning(fragments.message(fragments.told(error)))
            return gr.skip()
        return Place(dataset=named)

    async def take(self, path: str | None) -> Any:
        """Lead to a file that was uploaded, if it can be read."""
        if path is None:
            return Place()
        try:
            return Place(dataset=await asyncio.to_thread(self._hall.sources.keep_file, path))
        except AwmHubError as error:
            gr.Warning(fragments.message(fragments.told(error)))
            return gr.skip()

    async def _turn(self, place: Place, filters: tuple[Any, ...], page: int, request: gr.Request) -> list[Any]:
        try:
            catalogue = await self._catalogue(place, request)
        except AwmHubError:
            return _found([], 0, place, is_known=False)
        return _found(await asyncio.to_thread(catalogue.find, _wanted(*filters)), page, place)

    async def _catalogue(self, place: Place, request: gr.Request) -> Catalogue:
        return await self._catalogues.of(await self._hall.environments(place, request))


def _pick(place: Place, event: gr.SelectData) -> tuple[Place, Any]:
    return Place(dataset=place.dataset, environment=str(event.value)), gr.Tabs(selected="environment")


def _wanted(
    text: str, sort: str, categories: list[str], flags: list[str], split: str, usage: str, *sizes: str
) -> Wanted:
    ranges = {key: _SIZES[key].get(size, _ALL) for key, size in zip(_SIZES, sizes, strict=True)}
    return Wanted(
        text=text or "",
        sort=sort or "best",
        categories=tuple(categories or ()),
        flags=tuple(flags or ()),
        split=None if split == _ANY else split,
        usage=None if usage == _ANY else usage,
        **ranges,
    )


def _found(entries: list[Entry], page: int, place: Place, *, is_known: bool = True) -> list[Any]:
    """A page of entries, as values of `_Shown`."""
    last = max(0, (len(entries) - 1) // PAGE)
    page = max(0, min(page, last))
    cards = fragments.gallery(entries[page * PAGE : (page + 1) * PAGE], place.dataset) if is_known else ""
    figures = statistics(entries)
    told = f"Page {page + 1} of {last + 1}" if last else ""
    return [
        fragments.figures(figures) if entries else "",
        cards,
        page,
        fragments.message(told, "soft") if told else "",
        gr.Button(visible=last > 0, interactive=page > 0),
        gr.Button(visible=last > 0, interactive=page < last),
        plots.plots(figures) if entries else "",
    ]
