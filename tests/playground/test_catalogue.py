import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playground.hostile import hostile

import awm_hub
from awm_hub import schema
from awm_hub.errors import RecordError
from awm_hub.packing.parquet import write_split
from awm_hub.playground.catalogue import (
    Catalogue,
    Catalogues,
    Entry,
    Wanted,
    calls_in,
    read_catalogue,
    statistics,
)

BUNDLED = awm_hub.load()


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return read_catalogue(BUNDLED)


class Many:
    """Rows made of the bundled ones, each made when it is written."""

    def __init__(self, count: int) -> None:
        self._count, self._sources = count, list(BUNDLED.values())

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(self._count))]
        source = self._sources[at % len(self._sources)]
        name = f"{source.id.rstrip('1')}{at:04}"
        tasks = tuple(dataclasses.replace(t, id=f"{name}/{t.slug}") for t in source.tasks)
        row = dataclasses.replace(source, id=name, tasks=tasks).to_row()
        return pa.Table.from_pylist([{**row, "split": "train"}], schema=schema.ENVIRONMENTS)


def ids(found: list[Entry]) -> list[str]:
    return [e.id for e in found]


def test_an_entry_holds_what_the_environment_holds(catalogue: Catalogue) -> None:
    environment = BUNDLED["public_library_1"]
    entry = next(e for e in catalogue.entries if e.id == environment.id)
    assert entry.title == environment.title
    assert (entry.tables_count, entry.tools_count, entry.tasks_count) == (25, 38, 10)
    assert entry.difficulties == tuple(len(t.solution) for t in environment.tasks)
    assert entry.flags >= {"audited", "sound", "deterministic", "stateless", "solved"}


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Public Library", "public_library_1"),
        ("BERTH", "marina_berth_management_1"),
        ("list_loans", "public_library_1"),
        ("waiting_list_entries", "language_school_enrolment_1"),
        ("Ingeborg Adeyemi", "public_library_1"),
        ("screenings  lanternfall", "film_festival_office_1"),
    ],
)
def test_a_search_finds_words_of_title_tool_table_and_task(catalogue: Catalogue, text: str, first: str) -> None:
    assert ids(catalogue.find(Wanted(text=text)))[0] == first


def test_a_word_that_is_nowhere_finds_nothing(catalogue: Catalogue) -> None:
    assert catalogue.find(Wanted(text="library zeppelin")) == []


def test_all_words_have_to_be_there(catalogue: Catalogue) -> None:
    assert ids(catalogue.find(Wanted(text="library mooring"))) == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(categories=("library", "education")), {"public_library_1", "language_school_enrolment_1"}),
        (Wanted(tools=(38, None)), {"field_service_1", "public_library_1"}),
        (Wanted(tables=(None, 14)), {"language_school_enrolment_1"}),
        (Wanted(difficulty=(15, None)), {"film_festival_office_1"}),
        (Wanted(tasks=(11, None)), set()),
        (Wanted(split="test"), {n for n, e in BUNDLED.entries.items() if e.split == "test"}),
        (Wanted(usage="eval_only"), set()),
        (Wanted(flags=("audited", "solved")), set(BUNDLED)),
    ],
)
def test_a_filter_keeps_what_fits(catalogue: Catalogue, wanted: Wanted, expected: set[str]) -> None:
    assert set(ids(catalogue.find(wanted))) == expected


def test_sorting_puts_the_largest_or_the_first_title_first(catalogue: Catalogue) -> None:
    assert ids(catalogue.find(Wanted(sort="hardest")))[0] == "film_festival_office_1"
    assert ids(catalogue.find(Wanted(sort="tables")))[0] == "field_service_1"
    titles = [e.title for e in catalogue.find(Wanted(sort="title"))]
    assert titles == sorted(titles, key=str.casefold)


def test_statistics_add_up(catalogue: Catalogue) -> None:
    found = statistics(catalogue.entries)
    assert (found.environments, found.tools, found.tables, found.tasks) == (6, 191, 118, 60)
    assert sum(count for _, count in found.difficulties) == 60
    assert found.categories[0] == ("scheduling", 5)


def test_an_audit_of_another_content_counts_for_nothing(notes_environment, tmp_path: Path) -> None:
    changed = hostile(notes_environment)
    old = dataclasses.replace(changed, quality=dataclasses.replace(changed.quality, audited_hash="0" * 64))
    entries = read_catalogue(awm_hub.load(written(tmp_path, [old]))).entries
    assert entries[0].flags == frozenset()


def test_hostile_texts_are_kept_as_they_are_and_found(notes_environment, tmp_path: Path) -> None:
    found = read_catalogue(awm_hub.load(written(tmp_path, [hostile(notes_environment)])))
    assert ids(found.find(Wanted(text="{{7*7}}"))) == ["notes"]
    assert found.entries[0].flags == {"audited"}


def written(folder: Path, environments: list) -> Path:
    rows = [pa.Table.from_pylist([e.to_row()], schema=schema.ENVIRONMENTS) for e in environments]
    (folder / "set").mkdir()
    write_split(folder / "set", "environments", environments[0].split, rows)
    return folder / "set"


@pytest.mark.parametrize("text", [None, "", "{", "{}", "5", "[" * 100_000])
def test_a_solution_that_cannot_be_read_has_no_length(text: str | None) -> None:
    assert calls_in(text) is None


async def test_a_dataset_is_read_once_for_all_visitors() -> None:
    catalogues = Catalogues()
    first = await catalogues.of(BUNDLED)
    assert await catalogues.of(BUNDLED) is first
    assert await catalogues.of(awm_hub.load()) is not first


def test_a_catalogue_of_a_hundred_reads_neither_code_nor_images(tmp_path: Path) -> None:
    heavy = ("code", "database", "verifier_module")
    write_split(tmp_path, "environments", "train", Many(100))
    assert {*overwritten(next(tmp_path.rglob("train-*.parquet")), heavy)} == {*heavy}
    environments = awm_hub.load(tmp_path)
    found = read_catalogue(environments)
    assert len(found) == 100
    assert len(found.find(Wanted(text="pontoons"))) == len(found.find(Wanted(text="marina berth"))) == 16
    with pytest.raises(RecordError):
        environments[found.entries[0].id]


def overwritten(path: Path, columns: tuple[str, ...]) -> Iterator[str]:
    """Make these columns of a file unreadable; gives the names of those that it has."""
    content, metadata = bytearray(path.read_bytes()), pq.read_metadata(path)
    for group in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(at)
            if chunk.path_in_schema in columns:
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
                yield chunk.path_in_schema
    path.write_bytes(content)
