"""Seed files: what they may hold, and what is said of those that hold something else."""

from pathlib import Path

import pytest

from awm_hub.errors import DataError
from awm_hub.synthesis.seeds import Seed, default_seeds, read_seeds


def test_a_seed_file_holds_names_and_what_is_known_of_them(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_bytes(
        "\ufeff# Ours\n\nMarina  berth management\r\nÉcole 24:7: lessons, and: more\n  Library:\n".encode()
    )
    assert read_seeds(file) == [
        Seed(name="Marina berth management"),
        Seed(name="École 24:7", outline="lessons, and: more"),
        Seed(name="Library"),
    ]


def test_a_repeated_name_is_refused_with_both_lines(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("Tool library\n\n# again\ntool  LIBRARY: loans\n")
    with pytest.raises(DataError, match=r"line 4: 'tool LIBRARY' stands on line 1 already"):
        read_seeds(file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"", "holds no name"),
        (b"# nothing\n\n", "holds no name"),
        (b"\x89PNG\r\n\x1a\n\x00", "is no UTF-8 text"),
        (b"SQLite format 3\x00\x10", "line 1: it has characters that cannot be printed"),
        (b"Fine\n" + b"n" * 201, "line 2: the name has 201 characters, at most 200"),
        (b"12345\n", "line 1: the name has no letter"),
        (b"\x1b[31mRed desk\n", "cannot be printed"),
    ],
)
def test_a_file_that_holds_no_seeds_is_a_data_error(content: bytes | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DataError, match=said) as caught:
        read_seeds(file)
    assert caught.value.next_step


def test_the_package_carries_a_hundred_default_seeds() -> None:
    found = default_seeds()
    assert (len(found), len({seed.name for seed in found})) == (100, 100)
