"""The entity-relationship diagram of an environment as SVG: tables with their key columns, foreign keys as lines.

A table stands to the right of those that it refers to. Colours are the page's variables, so that it is read in light
and dark; a reader that does not see it gets the same as text.
"""

from collections.abc import Iterator, Sequence

from awm_hub.playground.layout import Layout, arrange
from awm_hub.playground.markup import Markup, counted, element, joined, line
from awm_hub.playground.relations import Relation, TableColumn

_WIDTH, _HEAD, _ROW, _BETWEEN, _EDGE = 184, 26, 17, 64, 10
_MAX_TABLES, _MAX_ROWS = 60, 8
_NAME_WIDTH, _COLUMN_WIDTH = 24, 21
CSS = """
.awm-er { overflow: auto; max-height: 80rem; border: 1px solid var(--awm-line); border-radius: .5rem;
  background: var(--awm-raised); }
@media (max-width: 40rem) { .awm-er { max-height: 34rem; } }
.awm-er:focus-visible { outline: 2px solid var(--awm-accent); outline-offset: 2px; }
.awm-er svg { display: block; margin: 0 auto; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.awm-er-box { fill: var(--awm-paper, #fff); stroke: var(--awm-line); }
.awm-er-head { fill: var(--awm-accent); opacity: .14; }
.awm-er-table { cursor: pointer; }
.awm-er-table text { fill: var(--awm-ink); font-size: 11.5px; }
.awm-er-table text.awm-er-name { font-weight: 700; font-size: 12.5px; }
.awm-er-table text.awm-er-mark { fill: var(--awm-soft); font-size: 9.5px; font-weight: 700; }
.awm-er-table text.awm-er-more { fill: var(--awm-soft); }
.awm-er-line { fill: none; stroke: var(--awm-soft); stroke-width: 1.3; opacity: .6; }
.awm-er-end { fill: var(--awm-soft); }
.awm-er-table:hover .awm-er-box, .awm-er-table:focus .awm-er-box, .awm-er-table.awm-on .awm-er-box {
  stroke: var(--awm-accent); stroke-width: 2; }
.awm-er-table:focus { outline: none; }
.awm-er-line.awm-on { stroke: var(--awm-accent); stroke-width: 2.2; opacity: 1; }
"""


def diagram(relations: Sequence[Relation], title: str) -> Markup:
    """The diagram, in a frame that scrolls by itself.

    Args:
        relations: The tables. Of very many, the first ones are drawn.
        title: What the diagram is of.
    """
    drawn = relations[:_MAX_TABLES]
    if not drawn:
        return element("p", "There is no table.", class_="awm-soft")
    numbers = {r.name: i for i, r in reversed(list(enumerate(drawn)))}
    lines = [(i, numbers[f.target]) for i, r in enumerate(drawn) for f in r.references if f.target in numbers]
    layout = arrange([_height(r) for r in drawn], lines)
    width = len(layout.layers) * (_WIDTH + _BETWEEN) - _BETWEEN + 2 * _EDGE
    height = max(s.top + s.height for s in layout.spots.values()) + 2 * _EDGE
    svg = element(
        "svg",
        element("title", line(f"Tables of {title}", 200)),
        element("desc", _told(drawn)),
        joined(_edges(drawn, numbers, layout)),
        joined(_table(r, i, layout) for i, r in enumerate(drawn)),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="group",
    )
    left = len(relations) - len(drawn)
    more = [element("p", f"… and {counted(left, 'more table')}", class_="awm-soft")] if left else []
    frame = element("div", svg, class_="awm-er", tabindex="0", role="region", aria_label="Diagram of the tables")
    return joined([frame, *more])


def _told(relations: Sequence[Relation]) -> str:
    """The diagram in words."""
    parts = []
    for r in relations:
        targets = list(dict.fromkeys(line(f.target, 60) for f in r.references))
        parts.append(line(r.name, 60) + (f" refers to {', '.join(targets)}" if targets else ""))
    return "; ".join(parts)


def _rows(relation: Relation) -> tuple[TableColumn, ...]:
    return relation.shown_columns[:_MAX_ROWS]


def _left(relation: Relation) -> int:
    return len(relation.columns) - len(_rows(relation))


def _height(relation: Relation) -> float:
    return _HEAD + _ROW * (len(_rows(relation)) + (_left(relation) > 0)) + 6


def _x(layer: int) -> float:
    return _EDGE + layer * (_WIDTH + _BETWEEN)


def _table(relation: Relation, number: int, layout: Layout) -> Markup:
    spot = layout.spots[number]
    x, y = _x(spot.layer), spot.top + _EDGE
    own = {name for f in relation.references if f.target == relation.name for name in f.columns}
    rows: list[Markup] = []
    for position, column in enumerate(_rows(relation)):
        base = y + _HEAD + _ROW * position + 13
        mark = "PK" if column.is_key else "FK"
        name = line(column.name, _COLUMN_WIDTH) + (" ↺" if column.name in own else "")
        rows.append(_text(mark, x + 8, base, "awm-er-mark"))
        rows.append(_text(name, x + 28, base))
    if more := _left(relation):
        base = y + _HEAD + _ROW * len(_rows(relation)) + 13
        rows.append(_text(f"+ {counted(more, 'more column')}", x + 28, base, "awm-er-more"))
    return element(
        "g",
        element("title", _hint(relation)),
        _rect(x, y, spot.height, "awm-er-box"),
        _rect(x, y, _HEAD, "awm-er-head"),
        _text(line(relation.name, _NAME_WIDTH), x + 8, y + 17, "awm-er-name"),
        *rows,
        class_="awm-er-table",
        data_table=line(relation.name),
        data_number=number,
        tabindex="0",
        role="button",
    )


def _hint(relation: Relation) -> str:
    return "\n".join([line(relation.name, 80), *(line(f"{c.name} {c.type}", 80) for c in relation.columns[:40])])


def _rect(x: float, y: float, height: float, kind: str) -> Markup:
    return element("rect", class_=kind, x=f"{x:.1f}", y=f"{y:.1f}", width=_WIDTH, height=f"{height:.1f}", rx=5)


def _text(words: str, x: float, y: float, kind: str | None = None) -> Markup:
    return element("text", words, class_=kind, x=f"{x:.1f}", y=f"{y:.1f}")


def _edges(drawn: Sequence[Relation], numbers: dict[str, int], layout: Layout) -> Iterator[Markup]:
    seen = set()
    for number, relation in enumerate(drawn):
        shown = [c.name for c in _rows(relation)]
        for reference in relation.references:
            target = numbers.get(reference.target)
            first = reference.columns[0] if reference.columns else ""
            if target is None or target == number or (number, target, first) in seen:
                continue
            seen.add((number, target, first))
            row = shown.index(first) if first in shown else 0
            yield from _edge(number, target, _HEAD + _ROW * row + 9, layout)


def _edge(start: int, end: int, port: float, layout: Layout) -> Iterator[Markup]:
    """A line from a column of one table to the head of another."""
    a, b = layout.spots[start], layout.spots[end]
    from_x, from_y, to_y = _x(a.layer), a.top + _EDGE + port, b.top + _EDGE + _HEAD / 2
    if a.layer > b.layer:
        points = [(from_x, from_y)]
        for lane in layout.lanes.get((start, end), ()):
            spot = layout.spots[lane]
            y = spot.centre + _EDGE
            points += [(_x(spot.layer) + _WIDTH, y), (_x(spot.layer), y)]
        points.append((_x(b.layer) + _WIDTH, to_y))
    else:  # it closes a circle, and is drawn around
        points = [(from_x + _WIDTH, from_y), (_x(b.layer) + _WIDTH, to_y)]
    yield element("path", class_="awm-er-line", d=_curve(points, a.layer > b.layer), data_from=start, data_to=end)
    x, y = points[-1]
    yield element("circle", class_="awm-er-end", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3)


def _curve(points: Sequence[tuple[float, float]], is_leftwards: bool) -> str:
    (x, y), parts = points[0], []
    for i, (next_x, next_y) in enumerate(points[1:]):
        if i % 2 and is_leftwards:
            parts.append(f"L{next_x:.1f},{next_y:.1f}")
        else:
            bend = -_BETWEEN / 2 if is_leftwards else _BETWEEN / 2
            last = next_x - bend if is_leftwards else next_x + bend
            parts.append(f"C{x + bend:.1f},{y:.1f} {last:.1f},{next_y:.1f} {next_x:.1f},{next_y:.1f}")
        x, y = next_x, next_y
    return f"M{points[0][0]:.1f},{points[0][1]:.1f}" + "".join(parts)
