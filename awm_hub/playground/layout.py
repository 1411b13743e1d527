"""Where boxes and lines of a diagram go: layers from left to right, as Sugiyama, Tagawa and Toda (1981) draw them.

A box stands to the right of those that it points to. A line that passes a layer gets a lane there (a place of its own,
so that it runs between boxes and not behind them); order within a layer follows the neighbours, to have few crossings.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SWEEPS = 12
_LANE = 10.0
_GAP, _LANE_GAP = 22.0, 6.0


@dataclass(kw_only=True)
class Spot:
    """A box, or a lane of a line, in a layer."""

    number: int
    layer: int
    height: float
    top: float = 0.0
    left: list[int] = field(default_factory=list)
    """Neighbours in the layer to the left."""
    right: list[int] = field(default_factory=list)

    @property
    def centre(self) -> float:
        """Its middle, from above."""
        return self.top + self.height / 2


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The places of everything."""

    spots: Mapping[int, Spot]
    """Boxes by their position in the input, and lanes."""
    lanes: Mapping[tuple[int, int], tuple[int, ...]]
    """Line (from, to) → its lanes, from right to left."""
    layers: tuple[tuple[int, ...], ...]


def arrange(heights: Sequence[float], lines: Iterable[tuple[int, int]]) -> Layout:
    """Find a place for each box.

    Args:
        heights: Of the boxes, in pixels.
        lines: (from, to) pairs of boxes; those from a box to itself are left out.
    """
    pairs = _without_cycles(len(heights), sorted({(a, b) for a, b in lines if a != b}))
    ranks = _ranks(len(heights), pairs)
    spots = {i: Spot(number=i, layer=ranks[i], height=h) for i, h in enumerate(heights)}
    lanes: dict[tuple[int, int], tuple[int, ...]] = {}
    for start, end in pairs:
        chain = [start]
        for layer in range(ranks[start] - 1, ranks[end], -1):
            number = len(spots)
            spots[number] = Spot(number=number, layer=layer, height=_LANE)
            chain.append(number)
        chain.append(end)
        for a, b in pairwise(chain):
            spots[a].left.append(b)
            spots[b].right.append(a)
        lanes[start, end] = tuple(chain[1:-1])
    layers = _ordered(spots)
    _place(spots, layers)
    return Layout(spots=spots, lanes=lanes, layers=tuple(tuple(layer) for layer in layers))


def _without_cycles(count: int, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The lines without those that close a circle; found without recursion, since tables may be many."""
    targets: dict[int, list[int]] = defaultdict(list)
    for a, b in pairs:
        targets[a].append(b)
    state = [0] * count
    kept = []
    for root in range(count):
        stack = [(root, iter(targets[root]))] if not state[root] else []
        state[root] = state[root] or 1
        while stack:
            node, rest = stack[-1]
            for target in rest:
                if state[target] != 1:
                    kept.append((node, target))
                if not state[target]:
                    state[target] = 1
                    stack.append((target, iter(targets[target])))
                    break
            else:
                state[node] = 2
                stack.pop()
    return kept


def _ranks(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Layers: as far left as the lines allow, and those that point nowhere as near to their neighbours as can be."""
    targets: dict[int, list[int]] = defaultdict(list)
    sources: dict[int, list[int]] = defaultdict(list)
    for a, b in pairs:
        targets[a].append(b)
        sources[b].append(a)
    ranks, left = [0] * count, [len(targets[i]) for i in range(count)]
    ready = [i for i in range(count) if not left[i]]
    for node in ready:
        for source in sources[node]:
            ranks[source] = max(ranks[source], ranks[node] + 1)
            left[source] -= 1
            if not left[source]:
                ready.append(source)
    for node in range(count):
        if not targets[node] and sources[node]:
            ranks[node] = min(ranks[s] for s in sources[node]) - 1
    return _with_single_ones(ranks, [i for i in range(count) if not targets[i] and not sources[i]])


def _with_single_ones(ranks: list[int], single: Sequence[int]) -> list[int]:
    """Boxes without lines go where there are fewest."""
    linked = set(range(len(ranks))) - set(single)
    layers = max((ranks[i] for i in linked), default=min(3, len(single) - 1)) + 1
    counts = [sum(ranks[i] == layer for i in linked) for layer in range(layers)]
    for node in single:
        ranks[node] = min(range(layers), key=lambda layer: counts[layer])
        counts[ranks[node]] += 1
    return ranks


def _ordered(spots: Mapping[int, Spot]) -> list[list[int]]:
    layers: list[list[int]] = [[] for _ in range(max((s.layer for s in spots.values()), default=-1) + 1)]
    for spot in spots.values():
        layers[spot.layer].append(spot.number)
    places = {n: float(i) for layer in layers for i, n in enumerate(layer)}
    for sweep in range(_SWEEPS):
        is_rightwards = sweep % 2 == 0
        for layer in layers if is_rightwards else reversed(layers):
            means = {n: _mean(spots[n].left if is_rightwards else spots[n].right, places, places[n]) for n in layer}
            ranked = sorted((means[n], places[n], n) for n in layer)
            layer[:] = [n for _, _, n in ranked]
            places.update({n: float(i) for i, n in enumerate(layer)})
    return layers


def _mean(neighbours: Sequence[int], places: Mapping[int, float], own: float) -> float:
    return sum(places[n] for n in neighbours) / len(neighbours) if neighbours else own


def _place(spots: Mapping[int, Spot], layers: Sequence[Sequence[int]]) -> None:
    """Tops: stacked first, then each layer as near to its neighbours as its order allows."""
    tallest = max((_stack(spots, layer, [0.0] * len(layer)) for layer in layers), default=0.0)
    for layer in layers:
        start = (tallest - _stack(spots, layer, [0.0] * len(layer))) / 2
        for n in layer:
            spots[n].top += start
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            wanted = [_wanted(spots, spots[n]) for n in layer]
            _stack(spots, layer, wanted)
            shift = sum(w - spots[n].top for w, n in zip(wanted, layer, strict=True)) / len(layer)
            end = spots[layer[-1]].top + spots[layer[-1]].height
            shift = max(-spots[layer[0]].top, min(shift, max(tallest - end, -spots[layer[0]].top)))
            for n in layer:
                spots[n].top += shift
    least = min((s.top for s in spots.values()), default=0.0)
    for spot in spots.values():
        spot.top -= least


def _wanted(spots: Mapping[int, Spot], spot: Spot) -> float:
    near = [*spot.left, *spot.right]
    return sum(spots[n].centre for n in near) / len(near) - spot.height / 2 if near else spot.top


def _stack(spots: Mapping[int, Spot], layer: Sequence[int], wanted: Sequence[float]) -> float:
    """Put a layer's boxes below each other, none above where it wants to be; the height that they take."""
    end = float("-inf")
    for n, top in zip(layer, wanted, strict=True):
        spot = spots[n]
        spot.top = max(top, end)
        end = spot.top + spot.height + (_GAP if spot.height > _LANE else _LANE_GAP)
    return max(0.0, end - _GAP) if layer else 0.0
