"""What a visitor brings is shown whatever is in it, within limits, and nothing of it stays."""

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback_hub import TOKEN, LoopbackHub, loopback_hub
from planting import ACTING, ATTRIBUTES, HOSTILE, TAGS, Page, planted

import awm_hub
from awm_hub.environment import Environment, Task
from awm_hub.errors import DataError, LimitError, RecordError, RemoteError, UnknownNameError, UsageError
from awm_hub.playground import records
from awm_hub.playground.records import document_of, from_repo, from_upload
from awm_hub.playground.transcript import Transcript
from awm_hub.playground.visits import Move
from awm_hub.playground.watching import Asked, Ended, Judging, Moved, Said
from awm_hub.policy.acting import Action, Call, Violation
from awm_hub.rollouts import Rollout, write_trajectories
from awm_hub.trajectory import StateDiff, TableDiff, Trajectory
from awm_hub.viewing import Document, rollout_document
from awm_hub.viewing.document import Label, Prose, Rows, Section
from awm_hub.viewing.page import html_fragment

__all__ = ["loopback_hub"]
KEPT = ("outcome", "environment_hash", "database_delta", "type")


@pytest.fixture(scope="module")
def library() -> Environment:
    return awm_hub.load()["public_library_1"]


@pytest.fixture(scope="module")
def task(library: Environment) -> Task:
    return next(t for t in library.tasks if t.kind == "change" and len(t.solution or ()) >= 3)


@pytest.fixture(scope="module")
def trajectory(library: Environment, task: Task) -> Trajectory:
    """The reference solution, judged."""
    with awm_hub.launch(library, task=task.slug) as instance:
        for call in task.solution or ():
            instance.call_tool(call.tool, call.arguments)
        instance.submit("Done.")
        made = instance.trajectory()
    return dataclasses.replace(made, verdicts=(awm_hub.judge(made),), policy={"kind": "solution"})


@pytest.fixture
def uploaded(tmp_path: Path) -> Callable[[str, bytes | str], Path]:
    """A file where the server puts uploads: in a folder of its own."""

    def write(name: str, data: bytes | str) -> Path:
        path = tmp_path / "upload" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def stored(trajectory: Trajectory, number: int = 0) -> Rollout:
    return Rollout(id=f"{trajectory.task_id}__{number}".replace("/", "__"), number=number, trajectory=trajectory)


def check_fragment(html: str) -> Page:
    """See that a fragment holds nothing but elements of ours, with classes of the playground's."""
    page = Page(html)
    assert set(page.tags) <= TAGS | {"article", "h3"}
    assert {name for name, _ in page.attributes} <= ATTRIBUTES
    assert all(word.startswith("awm-") for value in page.values("class") for word in value.split())
    assert ACTING.findall(html) == []
    return page


async def test_a_json_file_is_shown_and_gone(trajectory: Trajectory, uploaded: Callable[..., Path]) -> None:
    path = uploaded("mine.json", json.dumps(stored(trajectory).to_dict(), indent=1))
    found = await from_upload(path, "mine.json")
    assert [(line.id, line.outcomes) for line in found.lines] == [("mine", ("COMPLETED",))]
    assert found.rollout("mine").trajectory == trajectory
    assert not path.parent.exists()
    with pytest.raises(UnknownNameError):
        found.rollout("other")


async def test_a_jsonl_file_has_a_trajectory_in_each_line(
    trajectory: Trajectory, uploaded: Callable[..., Path]
) -> None:
    line = json.dumps(trajectory.to_dict())
    found = await from_upload(uploaded("run.jsonl", f"{line}\n\n{{}}\nno json\n{line}\n"), "run.jsonl")
    assert [line.id for line in found.lines] == ["run-1", "run-4"]
    assert len(found.unreadable) == 2


async def test_a_parquet_file_is_read_row_by_row(
    trajectory: Trajectory, uploaded: Callable[..., Path], tmp_path: Path
) -> None:
    folder = write_trajectories([stored(trajectory, 0), stored(trajectory, 1)], tmp_path / "data")
    (file,) = (folder / "trajectories").glob("*.parquet")
    path = uploaded("run.parquet", file.read_bytes())
    found = await from_upload(path, "run.parquet")
    assert [line.id for line in found.lines] == [stored(trajectory, n).id for n in (0, 1)]
    assert found.rollout(stored(trajectory, 1).id).trajectory == trajectory
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("empty.json", b""),
        ("list.json", b"[1, 2]"),
        ("other.json", b'{"a": 1}'),
        ("deep.json", b"[" * 100_000),
        ("binary.json", b"\xff\xfe\x00"),
        ("image.parquet", b"\x89PNG"),
        ("cut.parquet", b"PAR1" + b"\0" * 100 + b"PAR1"),
        ("lines.jsonl", b"x\ny\n"),
    ],
)
async def test_a_file_that_is_something_else_is_told_in_words_and_gone(
    uploaded: Callable[..., Path], name: str, data: bytes
) -> None:
    path = uploaded(name, data)
    with pytest.raises(DataError) as caught:
        await from_upload(path, name)
    assert name in caught.value.message
    assert caught.value.next_step
    assert not path.exists()


async def test_a_table_of_something_else_is_told_in_words(uploaded: Callable[..., Path], tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"], "text": ["b"]}), tmp_path / "x.parquet")
    with pytest.raises(RecordError, match="no column 'trajectory'"):
        await from_upload(uploaded("x.parquet", (tmp_path / "x.parquet").read_bytes()), "x.parquet")


async def test_what_is_too_large_or_too_much_is_refused(
    trajectory: Trajectory, uploaded: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = json.dumps(trajectory.to_dict())
    monkeypatch.setattr(records, "MAX_ROLLOUTS", 2)
    with pytest.raises(LimitError, match="more than 2 trajectories"):
        await from_upload(uploaded("run.jsonl", f"{line}\n" * 3), "run.jsonl")
    monkeypatch.setattr(records, "MAX_FILE_BYTES", 100)
    path = uploaded("mine.json", line)
    with pytest.raises(LimitError, match="larger than"):
        await from_upload(path, "mine.json")
    assert not path.exists()


async def test_a_file_that_is_gone_is_asked_for_again(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no longer there"):
        await from_upload(tmp_path / "no" / "x.json", "x.json")


async def test_the_rows_of_each_call_are_told_where_the_environment_is_known(
    trajectory: Trajectory, library: Environment
) -> None:
    known = {library.id: library}
    html = html_fragment(await document_of(stored(trajectory), [{}, known]))
    assert "rows changed" in html
    assert library.task(trajectory.task_id).instruction[:20] in Page(html).text
    alone = html_fragment(await document_of(stored(trajectory), []))
    assert "What changed in the database" in alone
    other = dataclasses.replace(trajectory, environment_hash="0" * 64)
    assert "rows changed" not in html_fragment(await document_of(stored(other), [known])).replace("<dt>rows", "")


async def test_a_record_with_hostile_text_and_odd_values_everywhere_is_shown_or_refused(
    trajectory: Trajectory, library: Environment, uploaded: Callable[..., Path]
) -> None:
    hostile = json.dumps(planted({**trajectory.to_dict(), "messages": [{"role": "x", "content": "y"}]}, KEPT))
    found = await from_upload(uploaded("x.json", hostile), "x.json")
    page = check_fragment(html_fragment(await document_of(found.rollout("x"), [{library.id: library}])))
    assert page.text.count("<script>document.title='owned'</script>") > 10
    for field in trajectory.to_dict():
        for odd in (None, 7, [], {}, [[1]], "x"):
            text = json.dumps({**trajectory.to_dict(), field: odd})
            with contextlib.suppress(DataError):
                found = await from_upload(uploaded("x.json", text), "x.json")
                check_fragment(html_fragment(await document_of(found.rollout("x"), [])))


def test_a_fragment_is_one_of_a_document_or_a_part_of_it(trajectory: Trajectory) -> None:
    document = rollout_document(trajectory, name=HOSTILE)
    page = check_fragment(html_fragment(document, level=3))
    assert {"h3", "h4"} <= set(page.tags)
    assert "h2" not in page.tags
    part = Section(title=HOSTILE, labels=(Label(text='" class="x', tone="good"),), blocks=(Prose(text=' class="x"'),))
    page = check_fragment(html_fragment(part))
    assert page.values("class").count("awm-label awm-good") == 1
    assert ' class="x"' in page.text or 'class="x"' in page.text
    row = {HOSTILE: HOSTILE}
    check_fragment(html_fragment(Rows(diff=StateDiff({HOSTILE: TableDiff(added=(row,), removed=(row,))}))))
    check_fragment(html_fragment(Document(title=HOSTILE)))


def test_a_transcript_of_hostile_events_holds_nothing_but_elements_of_ours(trajectory: Trajectory, task: Task) -> None:
    hostile = Trajectory.from_dict(planted(trajectory.to_dict(), KEPT))
    transcript = Transcript(dataclasses.replace(task, instruction=HOSTILE), HOSTILE)
    diff = StateDiff({HOSTILE: TableDiff(added=({HOSTILE: HOSTILE},))})
    broken = Violation(rule=1, name=HOSTILE, turn=0, message=HOSTILE)
    said = Action(
        calls=(Call(tool=HOSTILE, arguments={HOSTILE: HOSTILE}),),
        thought=HOSTILE,
        violations=(broken,),
        message={"content": HOSTILE},
    )
    for event in (Asked(turn=1), Said(turn=1, action=said)):
        transcript.add(event)
    for number, step in enumerate(hostile.steps, 1):
        transcript.add(Moved(move=Move(number=number, step=step), diff=None if number == 1 else diff))
    transcript.add(Said(turn=2, action=Action(answer=HOSTILE)))
    transcript.add(Judging())
    check_fragment(transcript.html)
    verdict = hostile.verdicts[0]
    transcript.add(
        Ended(termination="answered", cause=HOSTILE, next_step=HOSTILE, verdict=verdict, judge_error=HOSTILE)
    )
    page = check_fragment(transcript.html)
    assert page.text.count("<script>document.title='owned'</script>") > 10
    assert "Completed" in page.text


async def hub_with(hub: LoopbackHub, trajectory: Trajectory, folder: Path) -> None:
    data = write_trajectories([stored(trajectory, n) for n in range(2)], folder / "data")
    hub.commit_folder(data, "ann/runs")
    empty = folder / "empty"
    empty.mkdir()
    (empty / "README.md").write_text("nothing")
    hub.commit_folder(empty, "ann/empty")


async def test_a_dataset_on_the_hub_is_read_as_the_visitor_and_as_nobody_else(
    loopback_hub: LoopbackHub, trajectory: Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hub_with(loopback_hub, trajectory, tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for name in ("ann/runs", f" {'hf://datasets/ann/runs'} ", "https://huggingface.co/datasets/ann/runs/"):
        found = await from_repo(name, None, endpoint=loopback_hub.url)
        assert [line.outcomes for line in found.lines] == [("COMPLETED",)] * 2
    loopback_hub.repo("ann/runs").private = True
    with pytest.raises(RemoteError, match="did not give ann/runs") as caught:
        await from_repo("ann/runs", None, endpoint=loopback_hub.url)
    assert "sign in" in caught.value.next_step
    assert len((await from_repo("ann/runs", TOKEN, endpoint=loopback_hub.url)).lines) == 2


async def test_a_dataset_that_is_none_or_holds_no_trajectories_is_told(
    loopback_hub: LoopbackHub, trajectory: Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hub_with(loopback_hub, trajectory, tmp_path)
    url = loopback_hub.url
    for name in ("", "runs", "../../etc/passwd", "ann/runs/more", "http://127.0.0.1/x", "ann/run s"):
        with pytest.raises(UsageError, match="no id of a dataset"):
            await from_repo(name, None, endpoint=url)
    with pytest.raises(RemoteError, match="did not give ann/nothing"):
        await from_repo("ann/nothing", None, endpoint=url)
    with pytest.raises(DataError, match="no config of trajectories"):
        await from_repo("ann/empty", None, endpoint=url)
    monkeypatch.setattr(records, "MAX_FILE_BYTES", 100)
    with pytest.raises(LimitError, match="larger than"):
        await from_repo("ann/runs", None, endpoint=url)
    loopback_hub.interrupt = lambda method, path: True
    with pytest.raises(RemoteError):
        await from_repo("ann/runs", None, endpoint=url)
