"""A sampler that says what a script says, and stand-ins for what a rollout looks at."""

from collections.abc import Sequence
from typing import Any

from awm_hub.policy import opening
from awm_hub.training.generating import Ask, Written
from training import tiny

TASK = "owed_by_ingeborg"


class Script:
    """A sampler that writes what is written down: for the nth attempt, the messages of the nth script, in turn.

    Scripts come again when they are used up. A text that ends with an ellipsis is cut there, without its end.
    """

    def __init__(self, tokenizer: Any, *scripts: Sequence[str], logprob: float | None = None) -> None:
        self.tokenizer, self.scripts, self.logprob = tokenizer, scripts, logprob
        self.asked: list[list[Ask]] = []

    def __call__(self, asked: Sequence[Ask], trainer: Any) -> list[Written]:
        self.asked.append(list(asked))
        return [self._written(self.scripts[ask.position % len(self.scripts)][ask.turn]) for ask in asked]

    def _written(self, text: str) -> Written:
        ids = self.tokenizer(text.removesuffix("…"), add_special_tokens=False)["input_ids"]
        output = ids if text.endswith("…") else [*ids, self.tokenizer.eos_token_id]
        return Written(output=output, logprobs=None if self.logprob is None else [self.logprob] * len(output))


class Model:
    """As much of a model as a rollout looks at."""

    training = True
    config = type("Config", (), {"max_position_embeddings": 8192, "_name_or_path": "tiny"})()


class Trainer:
    """As much of a trainer as a rollout looks at, for tests without torch."""

    def __init__(self, tokenizer: Any, episodes: Sequence[Any], *, steps_per_generation: int = 1) -> None:
        self.processing_class, self.environments, self.model = tokenizer, list(episodes), Model()
        self.use_vllm = False
        self.accelerator = type("Alone", (), {"num_processes": 1, "unwrap_model": staticmethod(lambda model: model)})()
        self.state = type("State", (), {"global_step": 0})()
        values = {
            "steps_per_generation": steps_per_generation,
            "temperature": 1.0,
            "top_p": 1.0,
            "max_completion_length": 256,
            "chat_template_kwargs": None,
        }
        self.args = type("Args", (), values)()
        self.row_owners: list[int] = []


def row_of(task: str = TASK, **more: Any) -> dict[str, Any]:
    """A row of the training set, of a task of the small library."""
    environment = tiny.library()
    found = environment.task(task)
    return {
        "prompt": opening("text", environment.briefing, found.prompt),
        "environment_id": environment.id,
        "environment_hash": environment.content_hash,
        "task_id": found.id,
        "seed": 0,
        **more,
    }
