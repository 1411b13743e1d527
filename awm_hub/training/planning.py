"""What a training run will take, from its numbers alone: rows, tokens, memory and hours, before anything is started.

Every figure is a formula over what the run, the dataset and the model are; each stands beside its figure in the table,
and none needs a GPU or weights. A rollout is played through with turns of given sizes and the very rule that cuts the
history (`awm_hub.history.visible`), so rows and contexts are exact for such turns: with maxima they are bounds, with
means they are estimates. Memory counts what grows with model and batch and leaves out what does not: the CUDA context,
fragmentation, and buffers of the libraries, some gigabytes a GPU. Treat the total as the least that is needed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from statistics import fmean
from typing import Any, Self

from awm_hub.environment import Environment
from awm_hub.errors import ContextFullError, DataError, UsageError
from awm_hub.history import Window, visible
from awm_hub.policy import Message, opening
from awm_hub.policy.conversation import tokens as estimated_tokens
from awm_hub.policy.protocols import Naming, listing
from awm_hub.rollouts.plans import as_mapping

INSTANCE_BYTES = {"functions": 333_000, "fastapi": 519_000}
"""Of one live instance among 1,024, by interface; measured, see `tests/bench/results/bench.md`."""
WORKER_BYTES = {"functions": 10_500_000, "fastapi": 35_600_000}
"""Of a worker process with its first instance; each environment has at least one. Measured too."""
_GB = 1e9


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """Sizes of a decoder of Qwen3's architecture: grouped attention, gated feed-forward, norms of queries and keys."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int = 151_936
    head_dim: int = 128
    is_tied: bool = False
    """Whether input and output embeddings are the same matrix."""

    @property
    def parameters(self) -> int:
        """All of them, embeddings included."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads) + 2 * self.head_dim
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return (1 if self.is_tied else 2) * self.vocabulary * self.hidden + self.layers * layer + self.hidden

    @property
    def kv_bytes(self) -> int:
        """Of the KV cache per token, in bfloat16: keys and values of each layer."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """From a configuration of transformers, such as `AutoConfig.from_pretrained` gives."""
        return cls(
            name=str(getattr(config, "name_or_path", "") or type(config).__name__),
            hidden=config.hidden_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            intermediate=config.intermediate_size,
            vocabulary=config.vocab_size,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            is_tied=bool(config.tie_word_embeddings),
        )


QWEN3: Mapping[str, ModelSize] = {
    size.name: size
    for size in (
        ModelSize(name="Qwen3-0.6B", hidden=1024, layers=28, heads=16, kv_heads=8, intermediate=3072, is_tied=True),
        ModelSize(name="Qwen3-1.7B", hidden=2048, layers=28, heads=16, kv_heads=8, intermediate=6144, is_tied=True),
        ModelSize(name="Qwen3-4B", hidden=2560, layers=36, heads=32, kv_heads=8, intermediate=9728, is_tied=True),
        ModelSize(name="Qwen3-8B", hidden=4096, layers=36, heads=32, kv_heads=8, intermediate=12288),
        ModelSize(name="Qwen3-14B", hidden=5120, layers=40, heads=40, kv_heads=8, intermediate=17408),
    )
}
"""From the models' own `config.json`; the paper trains 4B, 8B and 14B (§5)."""


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """What a plan needs to know of the environments; `facts_of` measures all but the results."""

    environments: int
    tasks: int
    head_tokens: int
    """System prompt, briefing and task."""
    listing_tokens: int
    """What `list_tools` answers."""
    result_tokens: int = 300
    """Of a tool's result. A guess: a run of your own tells better."""
    interface: str = "fastapi"
    """The heavier one, where there are both."""


@dataclass(frozen=True, kw_only=True)
class RunNumbers:
    """The numbers of a run; the defaults are the paper's (arXiv 2602.10090 §5)."""

    steps: int = 96
    prompts: int = 64
    """Tasks of a step."""
    rollouts: int = 16
    """Of each task."""
    window: Window = field(default_factory=lambda: Window(turns=3))
    max_turns: int = 20
    mean_turns: float | None = None
    """Of a rollout; None: all have as many as they may."""
    max_response_tokens: int = 2048
    mean_response_tokens: float | None = None
    """Of an assistant message; None: all are as long as they may be."""
    context_tokens: int = 32_000
    processes: int = 1
    """GPUs, each a process that trains and generates."""
    is_sharded: bool = False
    """Whether weights and optimizer are spread over the processes (FSDP, ZeRO-3)."""
    trainable_share: float = 1.0
    """Of the parameters; less with adapters (LoRA)."""
    parameter_bytes: int = 16
    """Of a trained parameter: float32 weight 4, gradient 4, Adam's moments 8; 8 if all is kept in bfloat16."""
    has_reference: bool = True
    """Whether a second copy of the weights is held for the KL term (§5: 0.001). Adapters need none."""
    rows_per_device: int = 1
    """`per_device_train_batch_size`."""
    sequences_at_once: int = 16
    """That a GPU has room for while it generates; vLLM lets the others wait."""
    generation_tokens_s: float | None = None
    """Tokens per second that all GPUs together generate; None: no hours are told."""
    training_tokens_s: float | None = None
    """Tokens per second that they train on."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0:
                raise UsageError(f"{name} is {value}", next_step="give a positive number")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run takes. Tokens and rows are sums over a step, memory is per GPU but for the instances'."""

    numbers: RunNumbers
    dataset: DatasetFacts
    model: ModelSize
    epochs: float
    """How often each task comes."""
    rollouts: int
    """Of a step."""
    rows_per_rollout: int
    """With `mean_turns`."""
    max_rows_per_rollout: int
    rows: int
    generated_tokens: int
    prompt_tokens: int
    """Read for generation, without a cache of prefixes."""
    trained_tokens: int
    """That rows hold, context included."""
    longest_context: int
    """Prompt and response of a turn, at most."""
    longest_row: int
    memory: Mapping[str, int]
    """Bytes by purpose."""
    hours: Mapping[str, float] | None
    """`generation`, `training` and `total` of all steps; None where no speed is given."""
    notes: tuple[str, ...]
    """What will go wrong, or is worth knowing."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    def table(self) -> str:
        """A text for people, a line a figure, with the formula."""
        n, d, m = self.numbers, self.dataset, self.model
        rows = [
            ("model", f"{m.name}, {m.parameters / _GB:.2f} B parameters", ""),
            ("dataset", f"{d.environments:,} environments, {d.tasks:,} tasks", ""),
            ("epochs", f"{self.epochs:.2f}", f"{n.steps} steps × {n.prompts} prompts / tasks"),
            ("rollouts a step", f"{self.rollouts:,}", f"{n.prompts} prompts × {n.rollouts}"),
            ("rows a rollout", f"{self.rows_per_rollout}, at most {self.max_rows_per_rollout}", _rows_formula(n)),
            ("rows a step", f"{self.rows:,}", "before padding to a multiple that the trainer divides"),
            ("longest context", f"{self.longest_context:,} tokens", f"of {n.context_tokens:,}"),
            ("longest row", f"{self.longest_row:,} tokens", ""),
            ("generated a step", f"{self.generated_tokens:,} tokens", "rollouts × turns × response"),
            ("read a step", f"{self.prompt_tokens:,} tokens", "before prefix caching"),
            ("trained a step", f"{self.trained_tokens:,} tokens", "rows with their context"),
        ]
        rows += [(name, f"{size / _GB:.1f} GB", _FORMULAE[name]) for name, size in self.memory.items()]
        if self.hours is not None:
            rows += [(f"{name} hours", f"{hours:.1f}", "") for name, hours in self.hours.items()]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def plan(numbers: RunNumbers, dataset: DatasetFacts, model: ModelSize) -> Plan:
    """Work out what a run takes.

    Args:
        numbers: The run's.
        dataset: What it trains on; see `facts_of`.
        model: What it trains, for example `QWEN3["Qwen3-4B"]`.
    """
    n = numbers
    response = n.max_response_tokens if n.mean_response_tokens is None else ceil(n.mean_response_tokens)
    turns = n.max_turns if n.mean_turns is None else min(n.max_turns, ceil(n.mean_turns))
    usual = _played(turns, response, dataset, n.window)
    longest = _played(n.max_turns, n.max_response_tokens, dataset, n.window)
    rollouts = n.prompts * n.rollouts
    generated = rollouts * len(usual.prompts) * response
    trained = rollouts * sum(usual.rows)
    context = max(max(longest.prompts, default=0), max(usual.prompts, default=0)) + n.max_response_tokens
    longest_row = max(longest.rows, default=0)
    return Plan(
        numbers=n,
        dataset=dataset,
        model=model,
        epochs=n.steps * n.prompts / dataset.tasks,
        rollouts=rollouts,
        rows_per_rollout=len(usual.rows),
        max_rows_per_rollout=len(longest.rows),
        rows=rollouts * len(usual.rows),
        generated_tokens=generated,
        prompt_tokens=rollouts * sum(usual.prompts),
        trained_tokens=trained,
        longest_context=context,
        longest_row=longest_row,
        memory=_memory(n, dataset, model, min(context, n.context_tokens), longest_row),
        hours=_hours(n, generated, trained),
        notes=tuple(_notes(n, dataset, context, longest)),
    )


def facts_of(
    environments: Environment | Mapping[str, Environment] | Iterable[Environment],
    *,
    result_tokens: int = 300,
    count: Callable[[Sequence[Message]], int] = estimated_tokens,
) -> DatasetFacts:
    """The facts of a dataset; every environment is read. Sizes are means over environments.

    Args:
        environments: One, several, or what `awm_hub.load` returns; filter it to what is trained on.
        result_tokens: Of a tool's result, which only a run can tell.
        count: Tokens of messages; by default an estimate, three bytes each.

    Raises:
        DataError: there is no task.
    """
    found = as_mapping(environments)
    heads, listings, tasks, interfaces = [], [], 0, set()
    for name in found:
        environment = found[name]
        interfaces.add(environment.interface)
        tasks += len(environment.tasks)
        told = f"<tool_response>\n{listing(Naming(tools=environment.tools))}\n</tool_response>"
        listings.append(count([{"role": "user", "content": told}]))
        heads += [count(opening("text", environment.briefing, task.prompt)) for task in environment.tasks]
    if not tasks:
        raise DataError("there is no task to plan with", next_step="`awm-hub list` shows which environments have tasks")
    return DatasetFacts(
        environments=len(listings),
        tasks=tasks,
        head_tokens=ceil(fmean(heads)),
        listing_tokens=ceil(fmean(listings)),
        result_tokens=result_tokens,
        interface="fastapi" if "fastapi" in interfaces else "functions",
    )


@dataclass(frozen=True, kw_only=True)
class _Played:
    """A rollout with turns of given sizes."""

    prompts: list[int]
    """Tokens that each turn is shown."""
    rows: list[int]
    """Tokens of each row."""
    is_full: bool
    """Whether the window ended it."""


def _played(turns: int, response: int, dataset: DatasetFacts, window: Window) -> _Played:
    """Play a rollout. A turn whose history was not cut further joins the row before, as `rows_of` has it."""
    sizes = [response + (dataset.result_tokens if turn else dataset.listing_tokens) for turn in range(turns)]
    prompts: list[int] = []
    rows: list[int] = []
    before: tuple[int, ...] | None = None
    for turn in range(turns):
        try:
            shown = visible(sizes[:turn], window, head_size=dataset.head_tokens)
        except ContextFullError:
            return _Played(prompts=prompts, rows=rows, is_full=True)
        prompts.append(dataset.head_tokens + sum(sizes[position] for position in shown))
        if before is not None and shown == (*before, turn - 1):
            rows[-1] = prompts[-1] + response
        else:
            rows.append(prompts[-1] + response)
        before = shown
    return _Played(prompts=prompts, rows=rows, is_full=False)


_FORMULAE = {
    "generation weights": "2 bytes a parameter",
    "KV cache": "2 × layers × KV heads × head size × 2 bytes a token; longest context × sequences at once",
    "trained state": "weights, gradients, Adam's moments; with adapters, the frozen weights at 2 bytes besides",
    "reference weights": "2 bytes a parameter, for the KL term",
    "activations": "longest row × (2 × layers + 34) × hidden, checkpointed (arXiv 2205.05198)",
    "logits": "longest row × vocabulary × 8 bytes: float32 and its gradient",
    "instances": "on the host: a worker an environment, and each live instance, measured",
}


def _memory(n: RunNumbers, dataset: DatasetFacts, model: ModelSize, context: int, longest_row: int) -> dict[str, int]:
    spread = n.processes if n.is_sharded else 1
    parameters = model.parameters
    is_whole = n.trainable_share >= 1
    state = n.parameter_bytes * parameters * min(1.0, n.trainable_share) + (0 if is_whole else 2 * parameters)
    at_once = min(n.sequences_at_once, ceil(n.prompts * n.rollouts / n.processes))
    row = n.rows_per_device * longest_row
    workers = min(n.prompts, dataset.environments)
    return {
        "generation weights": 2 * parameters,
        "KV cache": model.kv_bytes * context * at_once,
        "trained state": ceil(state / spread),
        "reference weights": ceil(2 * parameters / spread) if n.has_reference and is_whole else 0,
        "activations": row * (2 * model.layers + 34) * model.hidden,
        "logits": row * model.vocabulary * 8,
        "instances": workers * WORKER_BYTES[dataset.interface]
        + n.prompts * n.rollouts * INSTANCE_BYTES[dataset.interface],
    }


def _hours(n: RunNumbers, generated: int, trained: int) -> dict[str, float] | None:
    if n.generation_tokens_s is None or n.training_tokens_s is None:
        return None
    generation = n.steps * generated / n.generation_tokens_s / 3600
    training = n.steps * trained / n.training_tokens_s / 3600
    return {"generation": generation, "training": training, "total": generation + training}


def _rows_formula(n: RunNumbers) -> str:
    w = n.window
    if w.turns is None and w.tokens is None:
        return "the history is never cut"
    if w.tokens is not None:
        return "a row for each cut of the history"
    return f"1 + turns beyond the first {w.head_turns + (w.turns or 0) + 1}, {w.head_turns} + {w.turns} + 1"


def _notes(n: RunNumbers, dataset: DatasetFacts, context: int, longest: _Played) -> Iterable[str]:
    if longest.is_full:
        yield f"the window of {n.window.tokens} tokens ends rollouts at turn {len(longest.prompts)}: give it more"
    if context > n.context_tokens:
        yield f"contexts of up to {context:,} tokens do not fit into {n.context_tokens:,}: give the window tokens"
    if n.steps * n.prompts > 10 * dataset.tasks:
        yield "each task comes more than ten times: train for fewer steps, or on more tasks"
    yield "instances of the next batch are prepared meanwhile: allow for twice as many"
