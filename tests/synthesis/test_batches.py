import json
from pathlib import Path
from typing import Any

import pytest

from awm_hub.errors import DataError
from awm_hub.inference import Sampling
from awm_hub.synthesis import batches
from awm_hub.synthesis.asking import Desk, Waiting, reply_from
from awm_hub.synthesis.batches import AnswersReport, read_answers, write_round
from awm_hub.synthesis.store import Store, wording_of

FOR = {"environment": "clinic", "stage": "code"}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path, {}) as found:
        yield found


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "batch").mkdir()
    return tmp_path / "batch"


async def asking(store: Store, *keys: str, text: str = "Write.", **more: Any) -> Desk:
    """A desk at which these positions wait."""
    desk = Desk(store, None, model="big", sampling=Sampling(max_tokens=99))
    for key in keys:
        with pytest.raises(Waiting):
            await desk.ask(key, [{"role": "user", "content": text}], **FOR, **more)
    return desk


def answered(key: str, message: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    """A line of a batch's output."""
    said = {"role": "assistant", "content": message} if isinstance(message, str) else message
    choices = [{"index": 0, "message": said, "finish_reason": "stop"}]
    body = {"id": "c", "object": "chat.completion", "model": "big-0815", "choices": choices, **more}
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": "b", "custom_id": key, "response": response, "error": None}


def refused(key: str, status: int = 500) -> dict[str, Any]:
    body = {"error": {"message": "out of\nmemory"}}
    return {"id": "b", "custom_id": key, "response": {"status_code": status, "body": body}, "error": None}


def put(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def ids(*paths: Path) -> list[list[str]]:
    return [[json.loads(line)["custom_id"] for line in path.read_text().splitlines()] for path in paths]


async def test_a_round_holds_requests_in_the_form_of_batch_services(store, folder):
    desk = await asking(store, "clinic/code/1", tools=TOOLS)
    found = write_round(desk, folder)
    assert (found.written, found.requests) == ((folder / "round-001.requests.jsonl",), 1)
    (line,) = found.written[0].read_text().splitlines()
    body = {"model": "big", "messages": [{"role": "user", "content": "Write."}], "tools": TOOLS, "max_tokens": 99}
    assert json.loads(line) == {
        "custom_id": "clinic/code/1",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": body,
    }


async def test_requests_that_are_in_a_file_wait_and_are_not_written_again(store, folder):
    desk = await asking(store, "a", "b")
    first = write_round(desk, folder)
    again = write_round(desk, folder)
    assert (again.written, again.requests) == ((), 0)
    assert (again.waiting, again.waiting_requests) == (first.written, 2)
    desk = await asking(store, "b", "c")
    third = write_round(desk, folder)
    assert third.written == (folder / "round-002.requests.jsonl",)
    assert ids(*third.written) == [["c"]]
    assert (third.waiting, third.waiting_requests) == (first.written, 1)
    assert not list(folder.glob(".*"))
    assert third.to_dict() == {
        "written": [str(folder / "round-002.requests.jsonl")],
        "requests": 1,
        "waiting": [str(folder / "round-001.requests.jsonl")],
        "waiting_requests": 1,
    }


async def test_a_request_with_another_wording_is_written_again(store, folder):
    write_round(await asking(store, "a", "b"), folder)
    desk = await asking(store, "a", text="Please write.")
    found = write_round(desk, folder)
    assert ids(*found.written) == [["a"]]
    put(folder / "out.jsonl", refused("a"))
    assert write_round(desk, folder).written == ()
    put(folder / "out2.jsonl", refused("a"))
    assert ids(*write_round(desk, folder).written) == [["a"]]


async def test_a_round_whose_file_was_removed_is_written_again(store, folder):
    desk = await asking(store, "a")
    first = write_round(desk, folder).written[0]
    first.unlink()
    assert write_round(desk, folder).written == (first,)


async def test_a_round_that_is_too_large_for_one_file_is_several(store, folder, monkeypatch):
    desk = await asking(store, "a", "b", "c", "d", "e")
    monkeypatch.setattr(batches, "MAX_REQUESTS", 2)
    found = write_round(desk, folder)
    assert [p.name for p in found.written] == [f"round-00{n}.requests.jsonl" for n in (1, 2, 3)]
    assert ids(*found.written) == [["a", "b"], ["c", "d"], ["e"]]
    monkeypatch.setattr(batches, "MAX_BYTES", 10)
    assert ids(*write_round(await asking(store, "f", "g"), folder).written) == [["f"], ["g"]]


async def test_answers_are_taken_once(store, folder):
    desk = await asking(store, "a", "b")
    write_round(desk, folder)
    put(folder / "out.jsonl", answered("a", "code", usage={"prompt_tokens": 7, "completion_tokens": 3}))
    assert read_answers(folder, store) == AnswersReport(files=1, taken=1)
    assert read_answers(folder, store) == AnswersReport(files=1, known=1)
    found = store.answer("a")
    assert found is not None
    assert (found["model"], found["source"], found["finish_reason"]) == ("big-0815", "batch", "stop")
    assert found["sha256"] == wording_of(store.body("a"))
    assert (found["usage"]["prompt_tokens"], found["usage"]["completion_tokens"]) == (7, 3)
    reply = await desk.ask("a", [{"role": "user", "content": "Write."}], **FOR)
    assert (reply.content, reply.usage.prompt_tokens, desk.waiting, desk.reworded) == ("code", 7, ("b",), ())


async def test_an_answer_without_usage_has_none(store, folder):
    await asking(store, "a")
    put(folder / "out.jsonl", answered("a", "code"))
    assert read_answers(folder, store).taken == 1
    assert (store.answer("a") or {})["usage"] is None
    assert (store.answer("a") or {})["sha256"] is None


async def test_tool_calls_are_read_with_arguments_as_text_and_as_object(store, folder):
    await asking(store, "a", "b")
    for key, arguments in (("a", '{"x": 1}'), ("b", {"x": 1})):
        call = {"id": "call_7", "type": "function", "function": {"name": "add", "arguments": arguments}}
        put(folder / f"{key}.jsonl", answered(key, {"role": "assistant", "content": None, "tool_calls": [call]}))
    assert read_answers(folder, store).taken == 2
    for key in ("a", "b"):
        (call,) = reply_from(store.answer(key) or {}).tool_calls
        assert (call.id, call.name, call.arguments) == ("call_7", "add", '{"x": 1}')


async def test_failed_requests_stay_open_and_are_in_the_next_round_once(store, folder):
    desk = await asking(store, "a", "b", "c", "d")
    write_round(desk, folder)
    expired = {"custom_id": "b", "response": None, "error": {"code": "batch_expired", "message": "too late"}}
    put(folder / "out.jsonl", refused("a"), expired, answered("c", ""), {**answered("d", "x"), "response": None})
    empty = json.loads((folder / "out.jsonl").read_text().splitlines()[2])
    empty["response"]["body"] = {"choices": []}
    put(folder / "out.jsonl", refused("a"), expired, empty, {**answered("d", "x"), "response": None})
    report = read_answers(folder, store)
    assert report.failed == {
        "a": ("500: out of memory",),
        "b": ("too late",),
        "c": ("it is no chat completion: there are no choices in it",),
        "d": ("there is no response",),
    }
    assert ids(*write_round(desk, folder).written) == [["a", "b", "c", "d"]]
    again = write_round(desk, folder)
    assert (again.written, again.waiting_requests) == ((), 4)
    put(folder / "out2.jsonl", answered("a", "code"), refused("b"))
    report = read_answers(folder, store)
    assert (report.taken, report.failed["b"]) == (1, ("too late", "500: out of memory"))
    assert "a" not in report.failed
    assert ids(*write_round(await asking(store, "b", "c"), folder).written) == [["b"]]


async def test_ids_that_nobody_asked_for_are_told(store, folder):
    await asking(store, "a")
    put(folder / "out.jsonl", answered("x", "code"), refused("y"), answered("x", "code"), answered("a", "code"))
    assert read_answers(folder, store) == AnswersReport(files=1, taken=1, unknown=("x", "y"))


async def test_texts_with_line_ends_of_all_kinds_stay_whole(store, folder):
    await asking(store, "a")
    text = "a\u2028b\u2029c\u0085d\x0be\r\nf äöü 🙂"
    put(folder / "out.jsonl", answered("a", text))
    with open(folder / "out.jsonl", "a") as file:
        file.write("\n\r\n")
    assert read_answers(folder, store).taken == 1
    assert (store.answer("a") or {})["message"]["content"] == text


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (b'{"custom_id": "a", "respo', "not valid JSON"),
        (b"[]", "no JSON object"),
        (b'{"custom_id": "a\xff"}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"custom_id": "a", "method": "POST", "body": {}}', "no answer of a batch"),
        (b'{"response": {}}', "no answer of a batch"),
    ],
)
async def test_a_line_that_is_no_answer_is_an_error_with_file_and_line(store, folder, damage, why):
    await asking(store, "a")
    put(folder / "out.jsonl", answered("a", "code"))
    with open(folder / "out.jsonl", "ab") as file:
        file.write(damage)
    with pytest.raises(DataError, match=rf"line 2 of .*out\.jsonl cannot be read: .*{why}"):
        read_answers(folder, store)
    assert store.is_answered("a")


async def test_a_damaged_file_of_requests_is_an_error(store, folder):
    desk = await asking(store, "a")
    (folder / "round-001.requests.jsonl").write_text('{"custom_id": "a"}\n')
    with pytest.raises(DataError, match="it is no request"):
        write_round(desk, folder)


async def test_the_wording_of_an_answer_is_not_known_where_rounds_differ(store, folder):
    write_round(await asking(store, "a"), folder)
    write_round(await asking(store, "a", text="Please write."), folder)
    put(folder / "out.jsonl", answered("a", "code"))
    read_answers(folder, store)
    assert (store.answer("a") or {})["sha256"] is None


async def test_the_store_may_lie_beside_the_answers(store, tmp_path):
    desk = await asking(store, "a")
    write_round(desk, tmp_path)
    put(tmp_path / "out.jsonl", answered("a", "code"))
    assert read_answers(tmp_path, store).taken == 1


def test_a_folder_that_does_not_exist_has_no_answers(store, tmp_path):
    assert read_answers(tmp_path / "nowhere", store) == AnswersReport()
