"""The page around the views: what they share, the header, the tabs, and the address bar."""

import html
from importlib.resources import files
from typing import Any

import gradio as gr

from awm_hub.errors import AwmHubError
from awm_hub.playground import fragments
from awm_hub.playground.sharing import Shared as SharedAttempt
from awm_hub.playground.ui import browse, environment, play, viewer, watch
from awm_hub.playground.ui.hall import QUIET, Hall, Shared
from awm_hub.playground.ui.links import Place

TITLE = "AWM playground"
_HEADER = (
    '<div class="awm-header"><p class="awm-brand">Agent World Model <span>playground</span></p>'
    '<p class="awm-tagline">Worlds for tool-using agents. Each is a small organisation in software: a database, tools '
    "that read and change it, and tasks whose outcome is judged. Browse them, play one, watch an agent try.</p></div>"
)
_VIEW_JS = """
  const chosen = document.querySelector('#awm-tabs [role=tab][aria-selected=true]');
  const view = /^awm-tab-([a-z]+)/.exec(chosen?.id ?? '')?.[1];
"""
_TO_ADDRESS_BAR = f"""(query) => {{{_VIEW_JS}
  const now = new URLSearchParams(location.search), then = new URLSearchParams(query);
  const isSame = now.get('env') === then.get('env') && now.get('dataset') === then.get('dataset');
  if (view && then.has('env')) then.set('view', view);
  const address = location.pathname + (then.size ? '?' + then : '');
  history[isSame || now.has('play') ? 'replaceState' : 'pushState'](null, '', address);
  if (!window.awmGoesBack) addEventListener('popstate', () => location.reload());
  window.awmGoesBack = true;
  return [];
}}"""
"""Another environment is another entry of the browser's history."""
_VIEW_TO_ADDRESS_BAR = f"""() => {{
  const tell = () => {{{_VIEW_JS}
    const now = new URLSearchParams(location.search);
    if (!view || !now.has('env') || now.get('view') === view) return;
    now.set('view', view);
    history.replaceState(null, '', location.pathname + '?' + now);
  }};
  const tabs = document.querySelector('#awm-tabs [role=tablist]');
  if (tabs) new MutationObserver(tell).observe(tabs, {{ attributeFilter: ['aria-selected'], subtree: true }});
}}"""
"""The address names the view, whoever chose it."""


def build(hall: Hall, *, has_sign_in: bool) -> gr.Blocks:
    """The page.

    Args:
        hall: What the views are given.
        has_sign_in: Whether visitors can sign in with Hugging Face here.
    """
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True, delete_cache=(3600, 3600)) as blocks:
        with gr.Row(elem_classes="awm-top"):
            gr.HTML(_HEADER, js_on_load="")
            if has_sign_in:
                gr.LoginButton(size="sm", scale=0, min_width=200)
        place, link = gr.State(Place()), gr.State(None)
        query = gr.Textbox(visible="hidden", show_label=False, elem_id="awm-query", elem_classes="awm-unshown")
        with gr.Tabs(elem_id="awm-tabs") as tabs:
            shared = Shared(place=place, tabs=tabs, link=link)
            for name, told, view in VIEWS:
                with gr.Tab(told, id=name, elem_id=f"awm-tab-{name}"):
                    view.build(hall, shared)
        blocks.load(_arrive, outputs=[place, link, tabs], **QUIET)
        blocks.load(None, None, None, js=_VIEW_TO_ADDRESS_BAR)
        place.change(lambda found: found.query, place, query, **QUIET)
        query.change(None, query, None, js=_TO_ADDRESS_BAR)
        blocks.unload(_leaving(hall))
    built: gr.Blocks = blocks
    built.space_id = None  # the header that gradio has for a Space loads fonts and facts from elsewhere
    return built


VIEWS = (
    ("browse", "Browse", browse),
    ("environment", "Environment", environment),
    ("play", "Play", play),
    ("watch", "Watch", watch),
    ("viewer", "Viewer", viewer),
)


def css() -> str:
    """The page's style sheet."""
    own = files("awm_hub.playground.ui").joinpath("style.css").read_text(encoding="utf-8")
    return "\n".join([own, *(view.CSS for _, _, view in VIEWS)])


def theme() -> gr.themes.Base:
    """System fonts, so that nothing is loaded from elsewhere, and the colours of the style sheet."""
    found = gr.themes.Soft(
        primary_hue="teal",
        secondary_hue="teal",
        neutral_hue="slate",
        radius_size="sm",
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"],
    )
    look = {f"{name}{scheme}": value for name, value in _LOOK.items() for scheme in ("", "_dark")}
    # gradio resolves what has no dark variant in the light scheme alone
    return found.set(block_padding="0", color_accent="var(--awm-accent)", input_radius=".35rem", **look)


_INK, _SOFT, _LINE, _ACCENT = (f"var(--awm-{name})" for name in ("ink", "soft", "line", "accent"))
_PAPER, _RAISED, _BAD = (f"var(--awm-{name})" for name in ("paper", "raised", "bad"))
_LOOK: dict[str, Any] = {
    "background_fill_primary": _PAPER,
    "background_fill_secondary": _RAISED,
    "block_background_fill": "transparent",
    "block_border_width": "0",
    "block_info_text_color": _SOFT,
    "block_label_background_fill": "transparent",
    "block_label_border_width": "0",
    "block_label_text_color": _SOFT,
    "block_shadow": "none",
    "block_title_background_fill": "transparent",
    "block_title_text_color": _INK,
    "body_background_fill": _PAPER,
    "body_text_color": _INK,
    "body_text_color_subdued": _SOFT,
    "border_color_accent": _ACCENT,
    "border_color_primary": _LINE,
    "button_border_width": "1px",
    "button_cancel_background_fill": _PAPER,
    "button_cancel_background_fill_hover": _RAISED,
    "button_cancel_border_color": _BAD,
    "button_cancel_border_color_hover": _BAD,
    "button_cancel_shadow": "none",
    "button_cancel_shadow_hover": "none",
    "button_cancel_text_color": _BAD,
    "button_cancel_text_color_hover": _BAD,
    "button_primary_background_fill": _ACCENT,
    "button_primary_background_fill_hover": _ACCENT,
    "button_primary_border_color": _ACCENT,
    "button_primary_shadow": "none",
    "button_primary_shadow_hover": "none",
    "button_primary_text_color": _PAPER,
    "button_secondary_background_fill": _PAPER,
    "button_secondary_background_fill_hover": _RAISED,
    "button_secondary_border_color": _LINE,
    "button_secondary_border_color_hover": _ACCENT,
    "button_secondary_shadow": "none",
    "button_secondary_shadow_hover": "none",
    "button_secondary_text_color": _INK,
    "checkbox_background_color": _PAPER,
    "checkbox_background_color_selected": _ACCENT,
    "checkbox_border_color": _SOFT,
    "checkbox_border_color_selected": _ACCENT,
    "checkbox_border_width": "1px",
    "checkbox_label_background_fill": _PAPER,
    "checkbox_label_background_fill_hover": _RAISED,
    "checkbox_label_background_fill_selected": _RAISED,
    "checkbox_label_border_color": _LINE,
    "checkbox_label_border_color_selected": _ACCENT,
    "checkbox_label_border_width": "1px",
    "checkbox_label_shadow": "none",
    "checkbox_label_shadow_hover": "none",
    "checkbox_label_text_color": _INK,
    "checkbox_label_text_color_selected": _INK,
    "code_background_fill": _RAISED,
    "input_background_fill": _PAPER,
    "input_background_fill_focus": _PAPER,
    "input_background_fill_hover": _PAPER,
    "input_border_color": _LINE,
    "input_border_color_focus": _ACCENT,
    "input_border_color_hover": _SOFT,
    "input_border_width": "1px",
    "input_placeholder_color": _SOFT,
    "input_shadow": "none",
    "input_shadow_focus": "none",
    "link_text_color": _ACCENT,
    "panel_background_fill": _PAPER,
    "table_border_color": _LINE,
    "table_even_background_fill": _PAPER,
    "table_odd_background_fill": _RAISED,
}
"""What gradio draws, in the colours of the style sheet; variables in a variable follow the scheme where it is set."""


async def _arrive(request: gr.Request) -> tuple[Place, str | None, Any]:
    """Where an address leads."""
    query = dict(request.query_params)
    if text := query.get("play"):
        try:
            attempt = SharedAttempt.read(text)
        except AwmHubError as error:
            gr.Warning(html.escape(fragments.told(error)))
            return Place(), None, gr.skip()
        found = Place(dataset=attempt.dataset, environment=attempt.environment, task=attempt.task)
        return found, text, gr.Tabs(selected="play")
    found = Place.of(query)
    wanted = query.get("view", "environment")
    known = wanted if wanted in {name for name, _, _ in VIEWS} else "environment"
    return found, None, gr.Tabs(selected=known) if found.environment else gr.skip()


def _leaving(hall: Hall) -> Any:
    async def leave(request: gr.Request) -> None:
        visitor = request.session_hash
        if visitor:
            await hall.visits.leave(visitor)

    return leave
