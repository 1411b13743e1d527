import datetime as dt
import json

import pytest

from awm_hub.inference import Price
from awm_hub.synthesis.ledger import Cost, Ledger
from awm_hub.synthesis.store import Store, read_store, wording_of

PRICE = Price(prompt_per_million_usd=1_000_000, completion_per_million_usd=2_000_000)


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path, {}) as found:
        yield found


def asked(store: Store, key: str, stage: str, text: str = "Write.", **more: object) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
    store.add_request(key, body, environment=key.split("/")[0], stage=stage)
    return wording_of(body)


def answered(store: Store, key: str, *, usage=(7, 3), usd=None, model="m", message=None, sha256=None) -> None:
    counted = None if usage is None else {"prompt_tokens": usage[0], "completion_tokens": usage[1], "cost_usd": usd}
    message = message or {"role": "assistant", "content": "x"}
    told = {"finish_reason": "stop", "source": "live", "sha256": sha256}
    store.add_answer(key, message=message, model=model, usage=counted, **told)


def test_costs_are_summed_by_stage_environment_and_attempt(store, tmp_path):
    for key, stage in (
        ("clinic/code/1", "code"),
        ("clinic/code/2", "code"),
        ("clinic/solution/book/2/1", "solution"),
        ("clinic/solution/book/2/2", "solution"),
        ("clinic/solution/move/2/1", "solution"),
        ("shop/code/1", "code"),
    ):
        asked(store, key, stage)
        if key != "shop/code/1":
            answered(store, key, usd=0.5)
    with read_store(tmp_path) as found:
        ledger = Ledger.of(found)
    one = {"prompt_tokens": 7, "completion_tokens": 3, "cost_usd": 0.5, "requests": 1, "answers": 1}
    assert ledger.total == Cost(requests=6, answers=5, prompt_tokens=35, completion_tokens=15, cost_usd=2.5)
    assert ledger.total.tokens == 50
    assert ledger.by_stage == {
        "code": Cost(requests=3, answers=2, prompt_tokens=14, completion_tokens=6, cost_usd=1.0),
        "solution": Cost(requests=3, answers=3, prompt_tokens=21, completion_tokens=9, cost_usd=1.5),
    }
    assert ledger.by_environment == {
        "clinic": Cost(requests=5, answers=5, prompt_tokens=35, completion_tokens=15, cost_usd=2.5),
        "shop": Cost(requests=1),
    }
    assert ledger.by_attempt == {
        ("clinic", "code", 1): Cost(**one),
        ("clinic", "code", 2): Cost(**one),
        ("clinic", "solution", 2): ledger.by_stage["solution"],
        ("shop", "code", 1): Cost(requests=1),
    }


def test_tokens_that_nobody_counted_are_estimated_and_counted_apart(store):
    tools = [{"function": {"name": "add"}}]
    asked(store, "a/code/1", "code", "x" * 9, tools=tools)
    call = {"id": "c", "function": {"name": "add", "arguments": '{"a":1}'}}
    said = {"role": "assistant", "content": "äö", "reasoning_content": "hm", "tool_calls": [call]}
    answered(store, "a/code/1", usage=None, message=said)
    asked(store, "a/code/2", "code", "x" * 8)
    answered(store, "a/code/2", usage=(5, None))
    asked(store, "a/code/3", "code")
    answered(store, "a/code/3")
    ledger = Ledger.of(store)
    prompt = -(-(9 + len(json.dumps(tools, separators=(",", ":")))) // 4)
    first = ledger.by_attempt["a", "code", 1]
    assert (first.prompt_tokens, first.completion_tokens, first.estimated_answers) == (prompt, 4, 1)
    second = ledger.by_attempt["a", "code", 2]
    assert (second.prompt_tokens, second.completion_tokens, second.is_estimated) == (5, 1, True)
    assert ledger.by_attempt["a", "code", 3].is_estimated is False
    assert (ledger.total.answers, ledger.total.estimated_answers) == (3, 2)


def test_a_price_is_for_answers_that_brought_no_cost(store):
    asked(store, "a/code/1", "code")
    answered(store, "a/code/1", usd=0.25)
    asked(store, "a/code/2", "code")
    answered(store, "a/code/2")
    assert (Ledger.of(store, PRICE).total.cost_usd, Ledger.of(store, PRICE).total.unpriced_answers) == (13.25, 0)
    assert (Ledger.of(store).total.cost_usd, Ledger.of(store).total.unpriced_answers) == (0.25, 1)
    assert Ledger.of(store).by_attempt["a", "code", 2].to_dict()["cost_usd"] is None


def test_it_says_which_model_answered_and_how_often_to_another_wording(store):
    for number, model in enumerate(("m", "big", "m"), 1):
        wording = asked(store, f"a/code/{number}", "code")
        answered(store, f"a/code/{number}", model=model, sha256=None if number == 1 else wording)
    asked(store, "a/code/3", "code", "Please write.")
    ledger = Ledger.of(store)
    assert (ledger.models, ledger.other_wordings) == ({"big": 1, "m": 2}, 1)


def test_one_environment_has_a_ledger_of_its_own(store):
    for key in ("a/code/1", "b/code/1", "b/task/1"):
        asked(store, key, key.split("/")[1])
        answered(store, key, usd=0.5)
    ledger = Ledger.of(store, environment="b")
    assert (ledger.total.answers, ledger.cost_usd) == (2, 1.0)
    one = {"prompt": 7, "completion": 3}
    assert ledger.tokens_by_stage() == {"code": one, "task": one}
    assert ledger.last_at == dt.datetime.fromisoformat((store.answer("b/task/1") or {})["at"])
    assert Ledger.of(store, environment="c") == Ledger()


def test_its_json_form_has_everything(store):
    asked(store, "a/code/1", "code")
    answered(store, "a/code/1", usage=None)
    asked(store, "a/report/last", "report")
    cost = {
        "requests": 1,
        "answers": 1,
        "estimated_answers": 1,
        "unpriced_answers": 1,
        "prompt_tokens": 2,
        "completion_tokens": 1,
        "cost_usd": None,
        "estimated": True,
    }
    found = json.loads(json.dumps(Ledger.of(store).to_dict()))
    assert found["total"] == {**cost, "requests": 2}
    assert found["by_stage"]["code"] == cost
    assert found["by_environment"] == {"a": {**cost, "requests": 2}}
    assert found["by_attempt"] == [{"environment": "a", "stage": "code", "attempt": 1, **cost}]
    assert (found["models"], found["other_wordings"]) == ({"m": 1}, 0)
    assert found["last_at"] == (store.answer("a/code/1") or {})["at"]


def test_an_empty_store_has_an_empty_ledger(store):
    assert Ledger.of(store) == Ledger()
    assert (Ledger().cost_usd, Ledger().to_dict()["last_at"]) == (None, None)
