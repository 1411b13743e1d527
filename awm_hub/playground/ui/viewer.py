"""The viewer: trajectories that were made elsewhere, from an uploaded file or from a dataset on the Hub."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError
from awm_hub.playground.markup import element
from awm_hub.playground.records import Records, document_of, from_repo, from_upload
from awm_hub.playground.ui.hall import QUIET, Hall, Shared, token_of
from awm_hub.playground.ui.links import Place
from awm_hub.safetext import clean_line
from awm_hub.viewing import Listed
from awm_hub.viewing.document import counted
from awm_hub.viewing.page import html_fragment

_KEPT_S = 900
_FILE_TYPES = [".json", ".jsonl", ".parquet"]
_READING = '<p class="awm-status" role="status"><span class="awm-dot"></span>Reading …</p>'
_SHOWING = '<p class="awm-status" role="status"><span class="awm-dot"></span>Repeating the calls …</p>'
CSS = """
.awm-document { color: var(--awm-ink); line-height: 1.5; }
.awm-document h2, .awm-document h3, .awm-document h4, .awm-document h5, .awm-document h6 {
  font-size: 1rem; font-weight: 650; margin: 0 0 .35rem; color: var(--awm-ink); overflow-wrap: anywhere;
  unicode-bidi: isolate;
}
.awm-viewer > .awm-document > section > h2 { font-size: 1.3rem; margin-bottom: .75rem; }
.awm-document summary > h3, .awm-document summary > h4, .awm-document summary > h5 { display: inline; }
.awm-viewer .awm-document section section, .awm-viewer .awm-document details.awm-section {
  border-top: 1px solid var(--awm-line); padding: .8rem 0;
}
.awm-viewer .awm-document section section section { border: 0; padding: .4rem 0; }
.awm-document .awm-label { max-width: 100%; overflow-wrap: anywhere; }
.awm-document .awm-label:not(.awm-good):not(.awm-bad):not(.awm-doubtful) { color: var(--awm-soft); }
.awm-document .awm-block { margin: .4rem 0; padding: 0; border: 0; background: none; }
.awm-document .awm-name { margin: 0; font-size: .8rem; color: var(--awm-soft); }
.awm-document .awm-cut, .awm-document .awm-none { margin: .25rem 0; color: var(--awm-soft); font-size: .9rem; }
.awm-document dl { display: flex; flex-wrap: wrap; gap: .35rem 1.5rem; margin: 0 0 .35rem; }
.awm-document dt { font-size: .8rem; font-weight: 400; color: var(--awm-soft); }
.awm-document dd { margin: 0; overflow-wrap: anywhere; unicode-bidi: isolate; }
.awm-document pre {
  margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; unicode-bidi: isolate; background: none;
  color: inherit;
}
.awm-document pre.awm-json, .awm-document td, .awm-document .awm-block dd {
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .85rem;
}
.awm-document pre.awm-json { background: var(--awm-raised); border-radius: .3rem; padding: .5rem; }
.awm-document details > summary { cursor: pointer; color: var(--awm-ink); }
.awm-document summary > span { color: var(--awm-soft); font-size: .8rem; }
.awm-document .awm-wide { overflow-x: auto; margin: .35rem 0; }
.awm-document table {
  border: 0; border-collapse: collapse; min-width: 50%; margin: 0; width: auto; color: var(--awm-ink);
}
.awm-document tr { border: 0; background: none; }
.awm-document caption { text-align: left; font-weight: 600; padding: .25rem 0; font-size: .9rem; }
.awm-document .awm-unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.awm-document th, .awm-document td {
  text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border: 0;
  border-bottom: 1px solid var(--awm-line); background: none;
}
.awm-document th { font-size: .8rem; font-weight: 600; color: var(--awm-soft); white-space: nowrap; }
.awm-document td { max-width: 28rem; overflow-wrap: break-word; }
.awm-document tr.awm-added th, .awm-document ins { color: var(--awm-good); }
.awm-document tr.awm-removed th, .awm-document del { color: var(--awm-bad); }
.awm-document tr.awm-changed th { color: var(--awm-doubtful); }
.awm-document ins { text-decoration: none; font-weight: 600; }
.awm-document :focus-visible { outline: 2px solid var(--awm-accent); outline-offset: 2px; }
"""
"""Gradio prefixes selectors and parts them at every comma: there is no list inside of one."""


def build(hall: Hall, shared: Shared) -> None:
    """The view, in its tab."""
    gr.HTML(_welcome(), js_on_load="")
    with gr.Row():
        with gr.Column(min_width=280):
            upload = gr.File(
                label="A file: JSON, JSONL or Parquet",
                file_types=_FILE_TYPES,
                height=150,
                elem_id="awm-viewer-file",
                elem_classes="awm-upload",
            )
        with gr.Column(min_width=280):
            repo = gr.Textbox(label="Or a dataset on the Hub", placeholder="owner/name", max_length=250)
            load = gr.Button("Open", variant="primary", elem_id="awm-viewer-open")
    chosen = gr.Dropdown(label="Trajectory", choices=[], visible=False, interactive=True, elem_id="awm-viewer-chosen")
    shown = gr.HTML("", js_on_load="", elem_id="awm-viewer")
    records = gr.State(None, time_to_live=_KEPT_S)
    events = _Events(hall)
    read = [records, chosen, shown]
    show = (events.show, [records, chosen, shared.place], shown)
    upload.upload(lambda: _READING, None, shown, **QUIET).then(events.upload, upload, [*read, upload], **QUIET).then(
        *show, **QUIET
    )
    for trigger in (load.click, repo.submit):
        trigger(lambda: _READING, None, shown, **QUIET).then(events.open, repo, read, **QUIET).then(*show, **QUIET)
    chosen.input(lambda: _SHOWING, None, shown, **QUIET).then(*show, **QUIET)


class _Events:
    """What happens when a visitor does something."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def upload(self, path: str | None) -> list[Any]:
        """Read an uploaded file, which is gone afterwards."""
        if path is None:
            return [*_told("", None), gr.skip()]
        place = Path(path)
        try:
            return [*_read(await from_upload(place, clean_line(place.name, 100))), None]
        except AwmHubError as error:
            return [*_told("This file cannot be shown", error), None]

    async def open(self, repo: str, request: gr.Request) -> list[Any]:
        """Read a dataset, as the visitor."""
        try:
            return _read(await from_repo(repo, token_of(request)))
        except AwmHubError as error:
            return _told("This dataset cannot be shown", error)

    async def show(self, records: Records | None, name: str | None, place: Place, request: gr.Request) -> Any:
        """Show one of the trajectories."""
        if records is None or name is None:
            return gr.skip()
        try:
            rollout = await asyncio.to_thread(records.rollout, name)
            environments = [self._hall.sources.default, *await self._opened(place, request)]
            trust = self._hall.settings.trust_remote_code
            document = await document_of(rollout, environments, trust_remote_code=trust)
            return _document(await asyncio.to_thread(html_fragment, document), records)
        except AwmHubError as error:
            return _trouble("This trajectory cannot be shown", error)

    async def _opened(self, place: Place, request: gr.Request) -> list[Mapping[str, Environment]]:
        """The dataset that the visitor has open, if it is another one: trajectories may be from it."""
        if place.dataset is None:
            return []
        try:
            return [await self._hall.environments(place, request)]
        except AwmHubError:
            return []


def _read(records: Records) -> list[Any]:
    choices = [(_line(found), found.id) for found in records.lines]
    first = records.lines[0].id
    return [records, gr.Dropdown(choices=choices, value=first, visible=len(choices) > 1), _SHOWING]


def _told(title: str, error: AwmHubError | None) -> list[Any]:
    shown = "" if error is None else _trouble(title, error)
    return [None, gr.Dropdown(choices=[], value=None, visible=False), shown]


def _line(found: Listed) -> str:
    outcome = " / ".join(found.outcomes) or "not judged"
    parts = (found.id, outcome, counted(found.steps_count, "step"), found.policy)
    return clean_line(" · ".join(part for part in parts if part), 160)


def _document(fragment: str, records: Records) -> str:
    left = counted(len(records.unreadable), "trajectory").replace("trajectorys", "trajectories")
    note = f'<p class="awm-doubtful">{left} of this source cannot be read.</p>' if records.unreadable else ""
    return f'<div class="awm-viewer">{note}{fragment}</div>'


def _trouble(title: str, error: AwmHubError) -> str:
    step = [element("p", f"Next: {error.next_step}.", class_="awm-soft")] if error.next_step else []
    told = element("p", error.message)
    return element(
        "section", element("h3", title), told, *step, class_="awm-card awm-outcome awm-doubtful", role="alert"
    )


def _welcome() -> str:
    told = (
        "Look at what an agent did elsewhere: every call with its result and rows, the answer and the verdict. "
        "Files are read once and not kept."
    )
    return element("section", element("h2", "Viewer"), element("p", told), class_="awm-card")
