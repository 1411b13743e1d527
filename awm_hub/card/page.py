"""The page: front matter through a dumper, the template's prose, and sections counted from the data."""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub import schema
from awm_hub.card.audits import audit_bars, audit_summary
from awm_hub.card.charts import Bar, chart, counts
from awm_hub.card.examples import plain_program, program
from awm_hub.card.facts import EnvironmentFacts
from awm_hub.card.figures import categories, difficulties, statistics_table, toolset_sizes
from awm_hub.card.limits import citation, limitations
from awm_hub.card.markdown import column_table, counted, table, text
from awm_hub.card.origins import hub_licenses, origin_section
from awm_hub.card.places import carried
from awm_hub.errors import DataError

TAGS = ("rl-environment", "reinforcement-learning", "tool-use", "mcp", "agent", "awm-hub")
"""The first five put a dataset among the Hub's RL environments."""
_PLACE = re.compile(r"\[\[(\w+)\]\]")
_LISTED = 30
_CANARIES = uuid.UUID("5f6a1c9e-2c0d-4b7e-9d0a-7a6f3f1f0c55")


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a push uploads beside the data: texts by their path in the repo."""

    readme: str
    plots: Mapping[str, str]
    """Path → SVG."""

    @property
    def files(self) -> dict[str, str]:
        """All of them."""
        return {"README.md": self.readme, **self.plots}


def build_card(facts: Sequence[EnvironmentFacts], repo_id: str) -> Card:
    """The card of a dataset that is to be called `repo_id`.

    Raises:
        DataError: there is no environment.
    """
    if not facts:
        raise DataError("a dataset without environments has no card", next_step="pack or import some first")
    plots = _plots(facts)
    values: dict[str, str] = {
        "name": text(repo_id),
        "summary": _summary(facts),
        "program": program(facts, repo_id),
        "plain": plain_program(facts, repo_id),
        "examples": _examples(facts),
        "statistics": statistics_table(facts),
        "plots": "\n\n".join(f"![{title}]({path})" for path, (title, _) in plots.items()),
        "audit": audit_summary(facts),
        "splits": _splits(facts),
        "provenance": origin_section(facts),
        "canary": _canary(facts, repo_id),
        "limitations": limitations(facts),
        "citation": citation(facts),
        **{f"columns_{config}": column_table(config) for config in ("environments", "tasks", "index")},
    }
    template = (carried("dataset_card") / "README.md").read_text(encoding="utf-8")
    readme = f"---\n{front_matter(facts, repo_id)}---\n\n{fill(template, values)}"
    return Card(readme=readme, plots={path: chart(title, bars) for path, (title, bars) in plots.items()})


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values into the marked places, in one pass: what stands in a value is never a place."""
    filled = _PLACE.sub(lambda place: values[place[1]], template)
    return re.sub(r"\n{3,}", "\n\n", filled)


def front_matter(facts: Sequence[EnvironmentFacts], repo_id: str) -> str:
    """The YAML by which the Hub lists, filters and loads the dataset."""
    from huggingface_hub import DatasetCardData

    splits, with_tasks = _split_names(facts), _split_names([e for e in facts if e.tasks])
    configs = [_config("environments", splits, is_default=True)]
    if with_tasks:
        configs.append(_config("tasks", with_tasks, is_default=False))
    data = DatasetCardData(
        pretty_name=repo_id.partition("/")[2],
        language=["en"],
        license=hub_licenses(facts),
        size_categories=[_size(max(len(facts), sum(len(e.tasks) for e in facts)))],
        task_categories=["reinforcement-learning"],
        tags=list(TAGS),
        configs=configs,
    )
    return f"{data.to_yaml()}\n"


def _config(name: str, splits: Sequence[str], *, is_default: bool) -> dict[str, Any]:
    files = [{"split": split, "path": f"{name}/{split}-*.parquet"} for split in splits]
    return {"config_name": name, **({"default": True} if is_default else {}), "data_files": files}


def _split_names(facts: Sequence[EnvironmentFacts]) -> list[str]:
    return [s for s in schema.SPLITS if any(e.split == s for e in facts)]


def _size(rows: int) -> str:
    steps = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
    return next((name for limit, name in steps if rows < limit), "100K<n<1M")


def _summary(facts: Sequence[EnvironmentFacts]) -> str:
    tasks, tools = sum(len(e.tasks) for e in facts), sum(e.tools for e in facts)
    parts = (counted(len(facts), "executable tool-use environment"), counted(tasks, "task"), counted(tools, "tool"))
    return f"**{parts[0]} with {parts[1]} and {parts[2]}**, for training and evaluating agents."


def _plots(facts: Sequence[EnvironmentFacts]) -> dict[str, tuple[str, list[Bar]]]:
    """Path → title and bars; what there is nothing to show of is left out."""
    makers: dict[str, tuple[str, Callable[[Sequence[EnvironmentFacts]], list[Bar]]]] = {
        "plots/categories.svg": ("Environments by category", lambda f: counts(categories(f))),
        "plots/toolsets.svg": ("Environments by number of tools", lambda f: counts(toolset_sizes(f))),
        "plots/difficulty.svg": (
            "Tasks by calls of their reference solution",
            lambda f: counts(difficulties(f)),
        ),
        "plots/audit.svg": ("What passes the audit", audit_bars),
    }
    return {path: (title, bars) for path, (title, make) in makers.items() if (bars := make(facts))}


def _examples(facts: Sequence[EnvironmentFacts]) -> str:
    """The environments by name, where they are few."""
    if len(facts) > _LISTED:
        return f"All {len(facts):,} by name: `awm-hub list --dataset REPO`, or `index.parquet`."
    head = ("environment", "title", "split", "tools", "tasks")
    rows = ((f"`{e.id}`", text(e.title), e.split, str(e.tools), str(len(e.tasks))) for e in facts)
    return table(head, rows, texts=3)


def _splits(facts: Sequence[EnvironmentFacts]) -> str:
    rows = []
    for split in _split_names(facts):
        of_split = [e for e in facts if e.split == split]
        rows.append((f"`{split}`", f"{len(of_split):,}", f"{sum(len(e.tasks) for e in of_split):,}"))
    apart = sum(e.usage == "eval_only" for e in facts)
    told = (
        "By environment, never by task: an environment is in `test` where the SHA-256 of its id says so, one in five, "
        "so that it stays there in every dataset and version. A split that holds nothing is not declared."
    )
    only = f"\n\n{counted(apart, 'environment')} may be used for evaluation only (`usage`)." if apart else ""
    return f"{table(('split', 'environments', 'tasks'), rows)}\n\n{told}{only}"


def _canary(facts: Sequence[EnvironmentFacts], repo_id: str) -> str:
    """A string that finds the test split in a corpus: the same for every version of a repo."""
    if not any(e.split == "test" for e in facts):
        return ""
    return (
        "## Canary\n\nThe `test` split should never be in a training corpus. Whoever publishes parts of it is asked to "
        "keep this string with them, and whoever gathers corpora to leave out what carries it:\n\n"
        f"```text\nawm-hub test split canary {uuid.uuid5(_CANARIES, repo_id)}\n```"
    )
