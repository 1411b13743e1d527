"""Tokens that tools cost to write: those of a recorded run, beside the same tools in the `fastapi` form.

    python -m awm_hub.bench.synthesis OUT --upstream FOLDER [-o FILE.md|FILE.json]

Ours: every answer of the stages `toolset` and `code` for the accepted environments of the run in OUT, corrections and
answers that could not be read included. The other form is upstream's, the paper's "toolset schema" and "environment
code" (§1): in the rows of `gen_spec` and `gen_envs` in FOLDER and its folders, the tokens of `api_spec`, as JSON as it
stands there, and of `full_code`, each divided by the tools that it describes (endpoints, and routes). That many tokens
for each tool, times the tools of each recorded environment, are what it would have cost in that form. Only the final
texts of upstream are known, so its corrections (1.13 attempts in the mean) are left out, which favours it.

One tokenizer counts both, that of Llama 2, which comes with the package `wordllama`. Thoughts that an endpoint gives
apart from its answer are counted on neither side. The target is a ratio of at most 0.4.
"""

import argparse
import ast
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from awm_hub.errors import AwmHubError, DataError, UsageError
from awm_hub.safetext import clean_line
from awm_hub.synthesis import products
from awm_hub.synthesis.problems import AnswerError
from awm_hub.synthesis.stages import STAGES_BY_NAME
from awm_hub.synthesis.store import Records, read_store

TARGET = 0.4
COUNTED = ("toolset", "code")
Count = Callable[[str], int]
"""Gives the tokens of a text."""
_METHODS = frozenset({"get", "post", "put", "patch", "delete"})
_TOKENIZER = "l2_supercat_tokenizer_config.json"
_INSTALL = "pip install 'awm-hub[synthesis]'"


@dataclass(frozen=True, kw_only=True)
class PerTool:
    """Tokens for one tool in the `fastapi` form."""

    specification: float
    code: float
    specified_tools: int
    """Of the rows that it is the mean of."""
    coded_tools: int

    @property
    def total(self) -> float:
        """Of both."""
        return self.specification + self.code


@dataclass(frozen=True, kw_only=True)
class EnvironmentTokens:
    """What the tools of one environment cost."""

    environment: str
    tools: int
    answers: int
    toolset: int
    """Tokens of the stage's answers."""
    code: int

    @property
    def total(self) -> int:
        """Of both stages."""
        return self.toolset + self.code


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The measure of a run."""

    environments: tuple[EnvironmentTokens, ...]
    fastapi: PerTool
    target: float = TARGET

    @property
    def tokens(self) -> int:
        """Of all environments."""
        return sum(e.total for e in self.environments)

    @property
    def fastapi_tokens(self) -> float:
        """What the same tools would cost in the other form."""
        return self.fastapi.total * sum(e.tools for e in self.environments)

    @property
    def ratio(self) -> float:
        """Ours by theirs."""
        return self.tokens / self.fastapi_tokens

    def to_dict(self) -> dict[str, Any]:
        """JSON form, with the method."""
        return {
            "method": _method(),
            "environments": [{**asdict(e), "total": e.total, "ratio": self._ratio(e)} for e in self.environments],
            "fastapi_per_tool": {**asdict(self.fastapi), "total": self.fastapi.total},
            "tokens": self.tokens,
            "fastapi_tokens": self.fastapi_tokens,
            "ratio": self.ratio,
            "target": self.target,
        }

    def markdown(self) -> str:
        """For the documentation: the method, the figures, the ratio."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        fastapi = self.fastapi
        ours, theirs = (tokens / len(self.environments) for tokens in (self.tokens, self.fastapi_tokens))
        yield "# Tokens for writing tools"
        yield ""
        yield _method()
        yield ""
        yield "| environment | tools | answers | toolset | code | together | per tool | in the `fastapi` form | ratio |"
        yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        yield from map(self._row, self.environments)
        yield ""
        yield (
            f"In the `fastapi` form, for each tool: {fastapi.specification:,.0f} tokens of specification "
            f"(of {fastapi.specified_tools} endpoints) and {fastapi.code:,.0f} of code "
            f"(of {fastapi.coded_tools} routes)."
        )
        yield ""
        yield (
            f"**{ours:,.0f} tokens for an accepted environment, beside {theirs:,.0f}: "
            f"a ratio of {self.ratio:.3f}** (target: at most {self.target})."
        )

    def _row(self, told: EnvironmentTokens) -> str:
        theirs = f"{self.fastapi.total * told.tools:,.0f}"
        figures = (told.tools, told.answers, told.toolset, told.code, told.total)
        each = f"{told.total / told.tools:,.0f}"
        cells = [f"`{told.environment}`", *(f"{n:,}" for n in figures), each, theirs, f"{self._ratio(told):.3f}"]
        return f"| {' | '.join(cells)} |"

    def _ratio(self, told: EnvironmentTokens) -> float:
        return told.total / (self.fastapi.total * told.tools)


def llama2_counter() -> Count:
    """Counts tokens with the tokenizer of Llama 2.

    Raises:
        UsageError: the package that it comes with is not installed, or lacks the file.
    """
    found = importlib.util.find_spec("wordllama")  # not imported: that would configure logging
    if found is None or found.origin is None:
        raise UsageError("tokens are counted by a tokenizer of the package wordllama", next_step=_INSTALL)
    path = Path(found.origin).parent / "tokenizers" / _TOKENIZER
    if not path.is_file():
        step = "pip install --force-reinstall wordllama"
        raise UsageError(f"wordllama lacks a file that its wheel carries: {path}", next_step=step)
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UsageError(f"tokens cannot be counted: {error}", next_step=_INSTALL) from error
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def fastapi_cost_per_tool(sample_folder: str | os.PathLike[str], count: Count | None = None) -> PerTool:
    """Tokens of specification and code for a tool, over all rows of upstream's files in a folder and its folders.

    Args:
        sample_folder: Holds `gen_spec.jsonl` and `gen_envs.jsonl`.
        count: By default the tokenizer of Llama 2.

    Raises:
        DataError: there are no rows, or one is broken.
        UsageError: the tokenizer is missing.
    """
    count, folder = count or llama2_counter(), Path(sample_folder)
    specified = _described(folder, "gen_spec.jsonl", _specification)
    coded = _described(folder, "gen_envs.jsonl", _code)
    specified_tools, coded_tools = (sum(tools for _, tools in found) for found in (specified, coded))
    if not specified_tools or not coded_tools:
        step = "name a folder with gen_spec.jsonl and gen_envs.jsonl in it"
        raise DataError(f"{folder} holds no tools in the form of upstream's files", next_step=step)
    return PerTool(
        specification=sum(count(text) for text, _ in specified) / specified_tools,
        code=sum(count(text) for text, _ in coded) / coded_tools,
        specified_tools=specified_tools,
        coded_tools=coded_tools,
    )


def tokens_of_run(
    store_folder: str | os.PathLike[str], accepted: Iterable[str] | None = None, count: Count | None = None
) -> tuple[EnvironmentTokens, ...]:
    """What the tools of accepted environments cost, by environment.

    Args:
        store_folder: The output folder of the run.
        accepted: Environments that count; by default all that the run has accepted.
        count: By default the tokenizer of Llama 2.

    Raises:
        DataError: the folder holds no run, none is accepted, or nothing is recorded of one.
        UsageError: the tokenizer is missing.
    """
    count = count or llama2_counter()
    with read_store(store_folder) as records:
        if accepted is None:
            accepted = [outcome["environment"] for outcome in records.records("outcome") if outcome["accepted"]]
        found = tuple(_tokens(records, environment, count) for environment in sorted(set(accepted)))
    if not found:
        raise DataError(f"the run in {store_folder} has accepted no environment", next_step="go on with the run")
    return found


def compare(out: str | os.PathLike[str], upstream: str | os.PathLike[str]) -> Comparison:
    """The measure of a run, beside upstream's rows.

    Raises:
        DataError: the run or the rows are missing or broken.
        UsageError: the tokenizer is missing.
    """
    count = llama2_counter()
    return Comparison(environments=tokens_of_run(out, count=count), fastapi=fastapi_cost_per_tool(upstream, count))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure a run and write the figures; the exit code is 1 where the target is missed."""
    told = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m awm_hub.bench.synthesis", description=told)
    parser.add_argument("out", metavar="OUT", help="output folder of `awm-hub synthesize`")
    parser.add_argument("--upstream", metavar="FOLDER", required=True, help="upstream's gen_spec and gen_envs files")
    parser.add_argument("-o", metavar="FILE", type=Path, dest="file", help="written to it, as .md or .json")
    given = parser.parse_args(arguments)
    try:
        if given.file is not None and given.file.suffix not in (".md", ".json"):
            raise UsageError(f"{given.file} is neither .md nor .json", next_step="give it one of these endings")
        found = compare(given.out, given.upstream)
    except AwmHubError as error:
        print(clean_line(str(error)), file=sys.stderr)
        return error.exit_code
    text = found.markdown()
    if given.file is None:
        print(text, end="")
    else:
        is_json = given.file.suffix == ".json"
        given.file.parent.mkdir(parents=True, exist_ok=True)
        given.file.write_text(json.dumps(found.to_dict(), indent=1) + "\n" if is_json else text, encoding="utf-8")
        print(f"ratio {found.ratio:.3f}, target at most {found.target}: {clean_line(str(given.file))}")
    return 0 if found.ratio <= found.target else 1


def _method() -> str:
    """The paragraphs of this module's docstring that say how it is measured."""
    return "\n\n".join((__doc__ or "").strip().split("\n\n")[2:])


def _tokens(records: Records, environment: str, count: Count) -> EnvironmentTokens:
    sums, answers = dict.fromkeys(COUNTED, 0), 0
    for stage in COUNTED:
        for text, _ in _answers(records, environment, stage):
            sums[stage] += count(text)
            answers += 1
    tools = _tool_count(records, environment)
    if not tools:
        step = "name environments that the run has accepted"
        raise DataError(f"no tools of {environment} are recorded", next_step=step)
    return EnvironmentTokens(environment=environment, tools=tools, answers=answers, **sums)


def _answers(records: Records, environment: str, stage: str) -> Iterator[tuple[str, bool]]:
    """The texts that were answered for a stage, in order, and whether each could be read."""
    attempts = {record["key"]: record for record in records.records("attempt", environment)}
    keys = [key for key in records.keys("request") if key.startswith(f"{environment}/{stage}/")]
    for key in sorted(keys, key=lambda key: int(key.rpartition("/")[2])):
        answer = records.answer(key)
        if answer is not None:
            is_read = key in attempts and attempts[key].get("unreadable") is None
            yield answer["message"].get("content") or "", is_read


def _tool_count(records: Records, environment: str) -> int:
    """Tools of the last toolset: the answers merged as the run merged them."""
    parts: dict[str, str] = {}
    for text, is_read in _answers(records, environment, "toolset"):
        if is_read:
            try:
                parts = products.merged(parts, STAGES_BY_NAME["toolset"].read(text))
            except AnswerError as error:
                message = f"a toolset of {environment} cannot be read any more: {error}"
                raise DataError(message, next_step="measure it with the version that made the run") from error
    return len(parts)


def _described(folder: Path, name: str, of: Callable[[Any], tuple[str, int]]) -> list[tuple[str, int]]:
    """Text and tools of each row of the files with this name."""
    found = []
    for path in sorted(folder.rglob(name)):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):  # bytes: not at U+2028
            try:
                found += [of(json.loads(line))] if line.strip() else []
            except (ValueError, SyntaxError, AttributeError, KeyError, TypeError) as error:
                message = f"{path}:{number} is no row of {name}: {error!r}"
                raise DataError(message, next_step="give upstream's files as they are") from error
    return found


def _specification(row: dict[str, Any]) -> tuple[str, int]:
    """A specification as JSON, and its endpoints."""
    told = row.get("api_spec") or {}
    return json.dumps(told, ensure_ascii=False), sum(len(group["endpoints"]) for group in told.get("api_groups", ()))


def _code(row: dict[str, Any]) -> tuple[str, int]:
    """A module, and its routes."""
    text = str(row.get("full_code") or "")
    functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return text, sum(_is_route(decorator) for function in functions for decorator in function.decorator_list)


def _is_route(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in _METHODS
    )


if __name__ == "__main__":
    sys.exit(main())
