import io
import json
import random

import pytest

from awm_hub import packing
from awm_hub.hub.ranges import FileFacts, RangeFile, keep_facts, kept_facts

REPO = "awm/envs-1k"
DATA = bytes(range(256)) * 4
FIRST, LAST = "n_000", "n_149"
PROGRAM = """
import json, sys
import awm_hub, awm_hub.hub.locations
from awm_hub.errors import AwmHubError
awm_hub.hub.locations._WHOLE_BYTES = 0
revision, names = json.loads(sys.argv[1])
try:
    environments = awm_hub.load("awm/envs-1k", revision=revision)
    print(json.dumps([[environments[name].id, awm_hub.hub.revision_of(environments[name])] for name in names]))
except AwmHubError as error:
    print(json.dumps({"message": str(error), "exit_code": error.exit_code}))
"""


class Fetching:
    """Gives ranges of `DATA`, and remembers which."""

    def __init__(self):
        self.asked = []

    def __call__(self, start, end):
        self.asked.append((start, end))
        return DATA[start:end]


@pytest.fixture
def fetching():
    return Fetching()


@pytest.fixture
def file(fetching, tmp_path):
    """Opens the file; every time as a new process would."""
    return lambda: RangeFile(len(DATA), tmp_path / "kept", fetching)


def read(file, start, end):
    file.seek(start)
    return file.read(end - start)


def test_it_reads_like_a_file(file):
    opened, plain = file(), io.BytesIO(DATA)
    for found in (opened, plain):
        found.seek(-10, io.SEEK_END)
    assert opened.tell() == plain.tell()
    assert opened.read() == plain.read() == DATA[-10:]
    assert opened.read(5) == b""
    opened.seek(4)
    opened.seek(4, io.SEEK_CUR)
    buffer = bytearray(3)
    assert opened.readinto(buffer) == 3
    assert buffer == DATA[8:11]
    assert opened.readable()
    assert opened.seekable()
    assert opened.size == 1024


def test_a_range_is_fetched_once_and_then_kept(file, fetching):
    assert read(file(), 10, 20) == DATA[10:20]
    assert read(file(), 10, 20) == DATA[10:20]
    assert fetching.asked == [(10, 20)]


@pytest.mark.parametrize("damage", [lambda d: d[:-1] + b"?", lambda d: d[:-1], lambda d: b"", lambda d: b"x" * len(d)])
def test_a_kept_range_that_was_damaged_is_fetched_again(file, fetching, tmp_path, damage):
    read(file(), 10, 20)
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(damage(kept.read_bytes()))
    assert read(file(), 10, 20) == DATA[10:20]
    assert read(file(), 10, 20) == DATA[10:20]
    assert fetching.asked == [(10, 20)] * 2


def test_what_is_held_is_read_from_memory(file, fetching):
    opened = file()
    opened.hold(100, 5_000)
    assert read(opened, 200, 300) == DATA[200:300]
    assert read(opened, 1_000, 1_024) == DATA[1_000:]
    assert read(opened, 50, 150) == DATA[50:150]
    assert fetching.asked == [(100, 1_024), (50, 150)]


def test_a_cache_that_cannot_be_written_to_is_no_cache(fetching, tmp_path):
    (tmp_path / "taken").write_text("a file")
    opened = RangeFile(len(DATA), tmp_path / "taken" / "kept", fetching)
    assert read(opened, 0, 4) == read(opened, 0, 4) == DATA[:4]
    assert fetching.asked == [(0, 4)] * 2


def test_facts_are_kept_and_broken_ones_are_none(tmp_path):
    place = tmp_path / "a" / "facts.json"
    assert kept_facts(place) is None
    keep_facts(place, FileFacts(etag="ab", size=7))
    assert kept_facts(place) == FileFacts(etag="ab", size=7)
    for broken in ("", "[]", "{}", json.dumps({"etag": "ab", "size": None})):
        place.write_text(broken)
        assert kept_facts(place) is None


@pytest.fixture
def many(loopback_hub, renamed, tmp_path):
    """A Hub with a dataset of several row groups; gives the commit."""
    noise = random.Random(0)
    rows = (renamed(f"n_{i:03}", description=noise.randbytes(5_000).hex()) for i in range(150))
    packing.write_dataset(rows, tmp_path / "many")
    return loopback_hub.commit_folder(tmp_path / "many", REPO)


@pytest.fixture
def load(loopback_hub, run_program):
    """Reads environments in a process of its own that downloads no shard whole; gives what it read, or its error."""

    def run(*names, revision=None, is_offline=False):
        loopback_hub.traffic.clear()
        return run_program(PROGRAM, [revision, names], url=loopback_hub.url, is_offline=is_offline)[0]

    return run


def test_one_environment_of_the_hub_takes_one_row_group_and_the_next_process_nothing(many, load, loopback_hub):
    files = loopback_hub.repo(REPO).head.files
    whole = len(files["environments/train-00000-of-00001.parquet"].data)
    assert whole > 600_000
    assert load(FIRST) == [[FIRST, many]]
    ranges = [t for t in loopback_hub.traffic if t.status == 206]
    assert len(ranges) == 2  # the end of the file, and the row group
    assert ranges[1].sent < whole / 2 + 10_000
    assert load(FIRST, "n_001") == [[FIRST, many], ["n_001", many]]
    assert loopback_hub.sent("") == 0


def test_what_was_read_once_works_offline_and_the_rest_names_its_file(many, load):
    load(FIRST)
    assert load(FIRST, is_offline=True) == [[FIRST, many]]
    found = load(LAST, is_offline=True)
    assert found["exit_code"] == 5
    assert found["message"].startswith(f"offline, and {REPO}: this part of environments/train-00000-of-00001.parquet")


def test_a_damaged_cache_is_fetched_again(many, load, loopback_hub, tmp_path):
    load(FIRST)
    kept = sorted((tmp_path / "hf" / "assets" / "awm-hub").rglob("*-*"), key=lambda p: p.stat().st_size)[-1]
    kept.write_bytes(kept.read_bytes()[:-4] + b"oops")
    assert load(FIRST) == [[FIRST, many]]
    assert loopback_hub.sent("train-") == kept.stat().st_size - 32


def test_a_shard_that_a_new_revision_leaves_as_it_was_is_not_fetched_again(many, load, loopback_hub, tmp_path):
    load(FIRST)
    (tmp_path / "many" / "README.md").write_text("another card")
    second = loopback_hub.commit_folder(tmp_path / "many", REPO)
    assert load(FIRST) == [[FIRST, second]]
    assert loopback_hub.sent("train-") == 0
    assert load(FIRST, revision=many) == [[FIRST, many]]


def test_a_shard_in_the_hubs_own_cache_is_read_from_there(many, load, loopback_hub, run_program):
    program = "import huggingface_hub as h; h.snapshot_download('awm/envs-1k', repo_type='dataset'); print(1)"
    run_program(program, url=loopback_hub.url)
    assert load(FIRST, LAST, is_offline=True) == [[FIRST, many], [LAST, many]]


def test_a_hub_that_stops_answering_is_a_remote_error_and_then_the_rest_is_fetched(many, load, loopback_hub):
    loopback_hub.interrupt = lambda method, path: method == "GET" and path.startswith("/_objects/") and "train" in path
    found = load(FIRST)
    assert found["exit_code"] == 5
    assert f"the Hub did not give {REPO}: environments/train-00000-of-00001.parquet" in found["message"]
    loopback_hub.interrupt = lambda method, path: False
    assert load(FIRST) == [[FIRST, many]]
