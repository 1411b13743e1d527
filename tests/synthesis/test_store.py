import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from awm_hub.canonical import sha256_of
from awm_hub.errors import DataError, UsageError
from awm_hub.synthesis.store import Records, Store, read_store

SETTINGS = {"names": 2, "sizes": {"tables": 12, "tasks": 10}}
BODY = {"model": "m", "messages": [{"role": "user", "content": "Write a clinic."}]}


def add_answer(store: Store, key: str, content: str = "a clinic") -> bool:
    return store.add_answer(
        key,
        message={"role": "assistant", "content": content},
        finish_reason="stop",
        model="m",
        usage={"prompt_tokens": 7, "completion_tokens": 3},
        source="live",
        sha256=sha256_of({"messages": BODY["messages"]}),
    )


def filled(folder: Path) -> None:
    with Store.open(folder, SETTINGS) as store:
        store.add_request("clinic/scenario/1", BODY, environment="clinic", stage="scenario")
        add_answer(store, "clinic/scenario/1")
        store.add_verdict("ab12", gate="scenario", environment="clinic", problems=[], result={"tables": 3})


def lines(folder: Path) -> list[bytes]:
    return (folder / "store.jsonl").read_bytes().splitlines(keepends=True)


def test_what_was_added_is_there_when_the_store_is_opened_again(tmp_path):
    filled(tmp_path)
    with Store.open(tmp_path, SETTINGS) as store:
        request = {"type": "request", "key": "clinic/scenario/1", "environment": "clinic", "stage": "scenario"}
        assert store.request("clinic/scenario/1") == {**request, "sha256": sha256_of({"messages": BODY["messages"]})}
        assert store.body("clinic/scenario/1") == BODY
        answer = store.answer("clinic/scenario/1")
        assert answer is not None
        assert answer["message"] == {"role": "assistant", "content": "a clinic"}
        assert (answer["usage"], answer["source"]) == ({"prompt_tokens": 7, "completion_tokens": 3}, "live")
        verdict = {"type": "verdict", "key": "ab12", "gate": "scenario", "environment": "clinic", "problems": []}
        assert store.verdict("ab12") == {**verdict, "result": {"tables": 3}}
        assert store.settings == SETTINGS


def test_what_is_not_there_is_none(tmp_path):
    with Store.open(tmp_path, SETTINGS) as store:
        assert (store.request("x"), store.answer("x"), store.verdict("x")) == (None, None, None)


def test_adding_the_same_again_writes_nothing(tmp_path):
    filled(tmp_path)
    before = lines(tmp_path)
    filled(tmp_path)
    assert lines(tmp_path) == before


def test_the_first_answer_stays(tmp_path):
    filled(tmp_path)
    with Store.open(tmp_path, SETTINGS) as store:
        assert add_answer(store, "clinic/scenario/1", "another") is False
    with read_store(tmp_path) as found:
        assert [a["message"]["content"] for a in found.records("answer")] == ["a clinic"]


def test_of_requests_attempts_and_outcomes_the_last_counts(tmp_path):
    with Store.open(tmp_path, SETTINGS) as store:
        for text in ("old", "new"):
            store.add_request("b/code/1", {"model": text, "messages": []}, environment="b", stage="code")
            store.add_attempt("b/code/1", environment="b", stage="code", number=1, because=[{"message": text}])
            store.add_outcome("b", accepted=text == "new", problems=[{"message": text}], content_hash=text)
        store.add_outcome("a", accepted=True)
        for found in (store, read_store(tmp_path)):
            assert found.body("b/code/1")["model"] == "new"
            assert [a["because"] for a in found.records("attempt")] == [[{"message": "new"}]]
            outcomes = [(o["environment"], o["accepted"], o["content_hash"]) for o in found.records("outcome")]
            assert outcomes == [("b", True, "new"), ("a", True, None)]


def test_records_come_in_the_order_of_the_file(tmp_path):
    with Store.open(tmp_path, SETTINGS) as store:
        for key in ("c", "a", "b"):
            add_answer(store, key)
        assert [a["key"] for a in store.records("answer")] == ["c", "a", "b"]
        assert store.keys("answer") == ("c", "a", "b")


def test_records_of_one_environment_are_found(tmp_path):
    with Store.open(tmp_path, SETTINGS) as store:
        for key in ("a/code/1", "b/code/1", "a/code/2"):
            store.add_request(key, BODY, environment=key[0], stage="code")
            store.add_verdict(key, gate="code", environment=key[0], problems=[])
        for found in (store, read_store(tmp_path)):
            assert [r["key"] for r in found.records("request", "a")] == ["a/code/1", "a/code/2"]
            assert [r["key"] for r in found.records("verdict", "b")] == ["b/code/1"]
            assert list(found.records("request", "c")) == []


def test_a_store_of_other_settings_names_the_one_that_differs(tmp_path):
    filled(tmp_path)
    with pytest.raises(UsageError, match=r"sizes\.tasks is 5, and the run in .* has 10") as caught:
        Store.open(tmp_path, {**SETTINGS, "sizes": {"tables": 12, "tasks": 5}})
    assert "another output folder" in caught.value.next_step
    with pytest.raises(UsageError, match=r"seed is 1, and the run in .* has none"):
        Store.open(tmp_path, {**SETTINGS, "seed": 1})
    Store.open(tmp_path, SETTINGS).close()


def test_a_folder_that_another_run_holds_is_refused(tmp_path):
    with Store.open(tmp_path, SETTINGS), pytest.raises(UsageError, match="another run is working"):
        Store.open(tmp_path, SETTINGS)
    Store.open(tmp_path, SETTINGS).close()


def test_a_store_in_use_can_be_read(tmp_path):
    with Store.open(tmp_path, SETTINGS) as store:
        add_answer(store, "a")
        with read_store(tmp_path) as found:
            assert found.is_answered("a")
            assert not isinstance(found, Store)


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_last_line_that_was_cut_off_is_removed_and_can_be_written_again(tmp_path, cut):
    filled(tmp_path)
    with Store.open(tmp_path, SETTINGS) as store:
        add_answer(store, "b", "x" * 300)
    whole = lines(tmp_path)
    path = tmp_path / "store.jsonl"
    path.write_bytes(b"".join(whole[:-1]) + whole[-1][: -cut - 1])
    with read_store(tmp_path) as found:
        assert not found.is_answered("b")
    with Store.open(tmp_path, SETTINGS) as store:
        assert not store.is_answered("b")
        assert lines(tmp_path) == whole[:-1]
        assert add_answer(store, "b", "again")
    with read_store(tmp_path) as found:
        assert [a["message"]["content"] for a in found.records("answer")] == ["a clinic", "again"]


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path):
    filled(tmp_path)
    whole = (tmp_path / "store.jsonl").read_bytes()
    (tmp_path / "store.jsonl").write_bytes(whole[:-1])
    with Store.open(tmp_path, SETTINGS) as store:
        assert store.verdict("ab12") is not None
        add_answer(store, "b")
    assert (tmp_path / "store.jsonl").read_bytes().startswith(whole)
    with read_store(tmp_path) as found:
        assert found.keys("answer") == ("clinic/scenario/1", "b")


def test_a_run_that_was_killed_before_its_first_line_was_whole_begins_anew(tmp_path):
    (tmp_path / "store.jsonl").write_bytes(b'{"format_ver')
    with Store.open(tmp_path, SETTINGS) as store:
        assert store.settings == SETTINGS
    assert len(lines(tmp_path)) == 1


@pytest.mark.parametrize("damage", [b"{\n", b"[]\n", b"\n", b'{"type":"letter","key":"a"}\n', b'{"type":"answer"}\n'])
def test_a_damaged_line_in_the_middle_is_an_error_with_its_number(tmp_path, damage):
    filled(tmp_path)
    whole = lines(tmp_path)
    (tmp_path / "store.jsonl").write_bytes(whole[0] + whole[1] + damage + whole[3])
    with pytest.raises(DataError, match=r"line 3 of .*store\.jsonl is damaged"):
        Store.open(tmp_path, SETTINGS)
    with pytest.raises(DataError, match="line 3"):
        read_store(tmp_path)


def test_files_that_are_no_store_of_this_version_are_refused(tmp_path):
    path = tmp_path / "store.jsonl"
    path.write_text('{"id": 1}\n')
    with pytest.raises(DataError, match="does not begin with the settings"):
        Store.open(tmp_path, SETTINGS)
    assert path.read_text() == '{"id": 1}\n'
    path.write_text('{"type": "settings", "format_version": 2, "settings": {}}\n')
    with pytest.raises(DataError, match="another version"):
        Store.open(tmp_path, SETTINGS)


def test_a_folder_without_a_store_holds_no_run(tmp_path):
    with pytest.raises(DataError, match="holds no run"):
        read_store(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        Store.open(tmp_path / "file", SETTINGS)


def test_line_ends_within_texts_and_halves_of_surrogate_pairs_are_kept_on_one_line(tmp_path):
    text = "a\u2028b\u2029c\u0085d\ne"
    with Store.open(tmp_path, SETTINGS) as store:
        add_answer(store, "a", text)
        store.add_verdict("v", gate="code", environment="e", problems=[{"message": "\ud800"}])
    written = (tmp_path / "store.jsonl").read_text(encoding="utf-8")
    assert len(written.splitlines()) == 3
    with read_store(tmp_path) as found:
        assert [a["message"]["content"] for a in found.records("answer")] == [text]
        assert [v["problems"] for v in found.records("verdict")] == [[{"message": "\\ud800"}]]


def test_a_killed_run_loses_nothing_that_it_had_added(tmp_path):
    code = f"""
from awm_hub.synthesis.store import Store
store = Store.open({str(tmp_path)!r}, {SETTINGS!r})
for i in range(20):
    store.add_outcome(f"e{{i}}", accepted=True)
print("done", flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        with pytest.raises(UsageError, match="another run"):
            Store.open(tmp_path, SETTINGS)
        os.kill(process.pid, signal.SIGKILL)
    with Store.open(tmp_path, SETTINGS) as store:
        assert len(store.keys("outcome")) == 20


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path, monkeypatch):
    with Store.open(tmp_path, SETTINGS) as store:
        write, before = os.write, lines(tmp_path)

        def writing_little(descriptor: int, data: bytes) -> int:
            if len(data) < 100:
                raise OSError(28, "No space left on device")
            return write(descriptor, bytes(data[:50]))

        monkeypatch.setattr(os, "write", writing_little)
        with pytest.raises(OSError, match="No space"):
            add_answer(store, "a")
        monkeypatch.undo()
        assert lines(tmp_path) == before
        assert not store.is_answered("a")
        assert add_answer(store, "a")
    with read_store(tmp_path) as found:
        assert found.keys("answer") == ("a",)


def test_every_line_is_canonical_json(tmp_path):
    filled(tmp_path)
    for line in lines(tmp_path):
        found = json.loads(line)
        assert line.decode() == json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def test_a_closed_store_can_be_closed_again(tmp_path):
    store = Store.open(tmp_path, SETTINGS)
    store.close()
    store.close()
    assert isinstance(store, Records)
