"""Embeddings: texts as unit vectors, so that likeness is a cosine.

The scenario stage drops what is too like a scenario that it has, and the report says how diverse a pool is. Both work
with any `Embedder`. The default one is the `wordllama` package, which carries its weights of 16 MB and needs neither
network nor GPU; `module:Class` names one of your own.

How high a cosine means "the same" depends on the embedder. The paper drops from 0.85 on (§1) with an embedder that we
don't have; an embedder may state another bound as its attribute `same_from`.
"""

import importlib
import logging
import math
from collections.abc import Sequence
from importlib import metadata
from operator import mul
from pathlib import Path
from typing import Any, Protocol

from awm_hub.errors import UsageError

Vector = list[float]
PAPER_SAME_FROM = 0.85
"""The paper's bound (§1)."""
_CONFIG = "l2_supercat"
_INSTALL = "pip install 'awm-hub[synthesis]'"


class Embedder(Protocol):
    """Turns texts into vectors. It may have an attribute `same_from`, see `same_from`."""

    @property
    def name(self) -> str:
        """What it is, with its version: vectors of different names are not to be compared."""
        ...

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A unit vector for each text."""
        ...


class WordLlamaEmbedder:
    """Means of word vectors that were distilled from large models, with `wordllama`; loaded when first used."""

    same_from = 0.7
    """Measured on the pairs in its tests. With outlines, eight paraphrases have cosines from 0.66 to 0.83, of which
    this finds six and 0.85 none; ten neighbours that differ (ski and bicycle rental) have at most 0.64. By names alone,
    six paraphrases have 0.75 to 0.94, the ten neighbours at most 0.62, any two names of `domains.txt` at most 0.58."""

    def __init__(self) -> None:
        self._model: Any = None

    @property
    def name(self) -> str:
        """`wordllama`, the version of the package, and which of its weights."""
        try:
            return f"wordllama {metadata.version('wordllama')} {_CONFIG}"
        except metadata.PackageNotFoundError:
            return f"wordllama {_CONFIG}"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A unit vector for each text, the same in whatever company: a batch would sum in another order.

        Raises:
            UsageError: the package, or a file of it, is missing.
        """
        if self._model is None:
            self._model = _loaded_wordllama()
        return [_unit([float(x) for x in self._model.embed([text])[0]]) for text in texts]


def embedder_from(name: str) -> Embedder:
    """An embedder by its name: `wordllama`, or `module:Class` of your own, made without arguments.

    Raises:
        UsageError: there is no such embedder, or it cannot be made.
    """
    if name == "wordllama":
        return WordLlamaEmbedder()
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise UsageError(f"there is no embedder {name!r}", next_step="give wordllama, or module:Class of your own")
    try:
        made = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        message = f"the embedder {name} cannot be made: {error}"
        raise UsageError(message, next_step="name a class that is importable here and takes no arguments") from error
    if not isinstance(getattr(made, "name", None), str) or not callable(getattr(made, "embed", None)):
        message = f"{name} is no embedder"
        raise UsageError(message, next_step="give it an attribute `name` and a method `embed(texts)`")
    return made  # type: ignore[no-any-return]


def same_from(embedder: Embedder) -> float:
    """From which cosine on two scenarios count as the same: the embedder's own `same_from`, else the paper's."""
    return float(getattr(embedder, "same_from", PAPER_SAME_FROM))


def vectors(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """A unit vector for each text, whatever the embedder made of them.

    Raises:
        UsageError: it gave something other than one vector of finite numbers for each text.
    """
    made = [[float(x) for x in vector] for vector in embedder.embed(list(texts))] if texts else []
    if len(made) != len(texts) or len({len(vector) for vector in made}) > 1:
        message = f"the embedder {embedder.name} gave no vector of one length for each of {len(texts)} texts"
        raise UsageError(message, next_step="mend its `embed`, or use wordllama")
    if not all(math.isfinite(x) for vector in made for x in vector):
        message = f"the embedder {embedder.name} gave a vector with something other than finite numbers"
        raise UsageError(message, next_step="mend its `embed`, or use wordllama")
    return [_unit(vector) for vector in made]


def cosine(one: Vector, other: Vector) -> float:
    """Likeness of two unit vectors; a text that the embedder knows nothing of is like nothing.

    By way of their distance, which Python computes in C: a pool of a thousand takes half a million of them.
    """
    return 1.0 - math.dist(one, other) ** 2 / 2 if any(one) and any(other) else 0.0


def _unit(vector: Vector) -> Vector:
    length = math.sqrt(sum(map(mul, vector, vector)))
    return [x / length for x in vector] if length else vector


def _loaded_wordllama() -> Any:
    package = _wordllama()
    # The package looks for its own tokenizer in a folder of another name, and then asks the network: given as the
    # cache, its folder is searched as it is.
    folder = Path(package.__file__).parent
    try:
        return package.WordLlama.load(_CONFIG, cache_dir=folder, disable_download=True)
    except FileNotFoundError as error:
        message = f"wordllama lacks a file that its wheel carries: {error}"
        raise UsageError(message, next_step="pip install --force-reinstall wordllama") from error


def _wordllama() -> Any:
    """The package; its import configures the root logger, which is not its to configure."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        return importlib.import_module("wordllama")
    except ImportError as error:
        raise UsageError(f"embeddings need the package wordllama: {error}", next_step=_INSTALL) from error
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
