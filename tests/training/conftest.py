"""What the tests of training share: the tiny tokenizer, episodes in the small library, and a way to play scripts."""

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from training.scripted import Script, Trainer, row_of

from awm_hub.training.episodes import Episodes
from training import tiny

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
if importlib.util.find_spec("trl"):  # else these tests share a process with those of the Hub
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """The tiny tokenizer; not to be changed."""
    pytest.importorskip("transformers")
    pytest.importorskip("trl")
    return tiny.tiny_tokenizer()


@pytest.fixture
def episodes() -> Iterator[Episodes]:
    """Episodes in the small library, closed in the end."""
    found = Episodes({"public_library_1": tiny.library()})
    yield found
    found.close()


@pytest.fixture
def play(tokenizer: Any, episodes: Episodes) -> Callable[..., Any]:
    """Plays scripts with a rollout on a stand-in for a trainer: the output, the trainer and the script."""

    def go(*scripts: Sequence[str], rows: Sequence[dict[str, Any]] | None = None, **settings: Any) -> Any:
        from awm_hub.training.rollout import WindowedRollout

        more = {name: settings.pop(name) for name in ("logprob",) if name in settings}
        steps = settings.pop("steps_per_generation", 1)
        script = Script(tokenizer, *scripts, **more)
        rollout = WindowedRollout(generate=script, **settings)
        wanted = [row_of()] * len(scripts) * (rollout.slots or 1) if rows is None else rows
        made = [episodes.factory()() for _ in wanted]
        for episode, row in zip(made, wanted, strict=True):
            episode.reset(**row)
        trainer = Trainer(tokenizer, made, steps_per_generation=steps)
        output = rollout([row["prompt"] for row in wanted], trainer)
        return type("Played", (), {"output": output, "trainer": trainer, "script": script, "rollout": rollout})()

    return go
