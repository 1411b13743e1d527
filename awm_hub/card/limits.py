"""What a dataset cannot do, and whom to cite for it."""

from collections.abc import Iterator, Sequence

from awm_hub.card.facts import EnvironmentFacts
from awm_hub.card.origins import UPSTREAM, comes_from_upstream

_PAPER = """```bibtex
@article{wang2026agentworldmodel,
  title   = {Agent World Model: Infinity Synthetic Environments for Agentic Reinforcement Learning},
  author  = {Wang and others},
  journal = {arXiv preprint arXiv:2602.10090},
  year    = {2026}
}
```"""


def limitations(facts: Sequence[EnvironmentFacts]) -> str:
    """A list; what the data does not show is not in it."""
    return "\n".join(f"- {line}" for line in _lines(facts))


def _lines(facts: Sequence[EnvironmentFacts]) -> Iterator[str]:
    tasks = [t for e in facts for t in e.tasks]
    yield "All data is synthetic: people, firms and figures are made up; what they seem to say of real ones is chance."
    yield (
        "Environments stand for a kind of service, not for anybody's product; an agent that is good at the one may be "
        "poor at the other."
    )
    unsolved = sum(t.calls is None for t in tasks)
    if unsolved:
        yield (
            f"{unsolved:,} of {len(tasks):,} tasks have no reference solution: nobody has shown that they can be "
            "solved."
        )
    undecided = sum(not t.has_decision for t in tasks)
    if undecided:
        yield (
            f"{undecided:,} of {len(tasks):,} tasks cannot be decided by code alone: a model judges them by the "
            "signals that their verifier reports, and models err."
        )
    unaudited = sum(e.quality is None for e in facts)
    if unaudited:
        yield f"{unaudited:,} of {len(facts):,} environments were not audited in their present content."
    if any(e.interface == "fastapi" for e in facts):
        yield (
            "Environments of the interface `fastapi` may answer a plain refusal (not found, a broken constraint) with "
            "a server error, as their authors wrote them; that ends a rollout as an environment error."
        )
    yield "The audit finds what its rules look for. Criteria in prose are compared with code by nobody but readers."
    yield "Instructions are in English, and the clock inside an environment stands on one day."


def citation(facts: Sequence[EnvironmentFacts]) -> str:
    """The paper whose method this follows, and the dataset where rows are from it."""
    told = "The method, and much of the vocabulary, is that of the Agent World Model paper:"
    rows = f"\n\nRows from `{UPSTREAM}` are its authors' work: cite it with them." if comes_from_upstream(facts) else ""
    return f"{told}\n\n{_PAPER}{rows}"
