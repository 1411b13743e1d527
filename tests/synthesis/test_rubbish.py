"""Whatever a model writes: nothing is raised, nothing outside is touched, and what is wrong is said by a rule.

Most cases look at one stage of an environment that is right otherwise. The stage's first answer is rubbish, its second
one right, so that each case shows too that rubbish can be recovered from.
"""

import dataclasses
import itertools
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from endpoint import Body, Reply, calls, running_endpoint, says
from synthesis.scripted_desk import ScriptedDesk, conversation
from synthesis.scripted_model import DUE, FERN, SIZES, answer_of, model, plants

from awm_hub.inference import Endpoint
from awm_hub.synthesis import Seed, SynthesisReport, loop, products, solving, synthesize
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.loop import Maker
from awm_hub.synthesis.problems import STAGES, AnswerError, Problem
from awm_hub.synthesis.solving import SolverState, solve_tasks
from awm_hub.synthesis.stages import STAGES_BY_NAME, WRITTEN
from awm_hub.synthesis.store import Store, read_store

WRITING = [stage.name for stage in WRITTEN]
DEEP = "[" * 100_000 + "]" * 100_000
LONG = "All work and no play makes a dull plant. " * 125_000
PROSE = "As a language model I cannot do that, but here is what I think about plants."
ANYWHERE = {
    "nothing": "",
    "white space": " \n\t\n",
    "prose": PROSE,
    "a fence of another language": "```brainfuck\n++++[>++<-].\n```",
    "a fence that is not closed": "```python\ndef list_plants(db",
    "a fence with nothing in it": "```json\n```\n```sql\n```\n```python\n```",
    "JSON that was cut off": '```json\n{"title": "Plants", "rules": "- Wat',
    "JSON of another form": "```json\n[1, 2, 3]\n```",
    "JSON that is a number": "1e999",
    "JSON that is nested deeply": f"```json\n{DEEP}\n```",
    "an object that is nested deeply": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "SQL that was cut off": "```sql\nCREATE TABLE plants (id INTEGER, 'na\n```",
    "SQL of another kind": "```sql\nDROP TABLE plants;\nSELECT * FROM sqlite_schema;\n```",
    "Python that does not parse": "```python\ndef list_plants(db:\n    return (\n```",
    "Python that is nested deeply": "```python\nX = " + "(" * 5_000 + ")" * 5_000 + "\n```",
    "thoughts alone": "<think>Let me see … I could write it as JSON.</think>",
    "null bytes": "\0" * 1_000,
    "half of a surrogate pair": "\ud800 is what I say",
    "five megabytes of text": LONG,
    "remove of everything": '```json\n{"remove": ["a", "b", 1, null]}\n```',
}
ODD_JSON: tuple[Any, ...] = (
    {"title": 7, "description": None, "categories": "plants", "rules": {"a": 1}},
    {"": "", "x" * 5_000: "y", "null": "\0", "half": "\ud800"},
    {DUE: 1, FERN: [], "list_plants": True, "rules": [1, 2], "title": ["a"]},
    {
        DUE: {"kind": 1, "instruction": {"a": 2}},
        "list_plants": {"effect": 1, "parameters": [], "tables": 3, "tasks": {}},
    },
    {"list_plants": {"effect": "read", "description": 1, "parameters": {"a": 1, "b": {"type": "os.system('x')"}}}},
    {DUE: {"answer": 10**400, "answer_sql": 1, "free": [1]}, FERN: {"success": 1, "answer": {"a": {"b": []}}}},
)


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A file that nobody may change, and a port that nobody may connect to."""
    path = tmp_path / "canary" / "canary.txt"
    path.parent.mkdir()
    path.write_text("alive")
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield path, server.getsockname()[1]
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert [p.name for p in path.parent.iterdir()] == ["canary.txt"]
    assert path.read_text() == "alive"
    assert not _running("sleep 98765")


def _running(command: str) -> list[str]:
    """Pids of the processes with this command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        found += [path.parent.name] if line == command else []
    return found


class Trial:
    """One stage of an environment that is right otherwise."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._patch, self._count = folder, monkeypatch, itertools.count(1)

    async def of(self, stage: str, *rubbish: str, draft: Draft | None = None) -> list[str]:
        """Give these answers and then the right one, which has to be accepted; the rules that sent each one back."""
        draft = draft or plants()
        answers = [_without(stage, text, rubbish[:n], draft) for n, text in enumerate(rubbish)]
        answers.append(_without(stage, answer_of(stage, draft), rubbish, draft))
        self._patch.setattr(loop, "WRITTEN", (STAGES_BY_NAME[stage],))
        self._patch.setattr(loop, "ATTEMPTS", len(answers))
        self._patch.setattr(loop, "solve_tasks", _solved)
        self._patch.setattr(loop, "audit_draft", _audited)
        desk = ScriptedDesk({f"{draft.id}/{stage}/{n}": text for n, text in enumerate(answers, 1)})
        kept = {s: parts for s, parts in draft.products.items() if STAGES.index(s) < STAGES.index(stage)}
        bare = dataclasses.replace(draft, products=kept)
        with Store.open(self._folder / f"run {next(self._count)}", {}) as store:
            maker = Maker(draft=bare, desk=desk.desk, store=store, progress=lambda event: None)
            made = await maker.make()
            because = [", ".join(p["rule"] for p in a["because"]) for a in store.records("attempt")][1:]
        passed = rubbish[len(because)][:200] if len(because) < len(rubbish) else ""
        assert not passed, f"accepted: {passed}"
        assert made.is_accepted, made.problems
        return because


async def _solved(draft: Draft, *more: Any) -> tuple[Draft, tuple[Problem, ...]]:
    return draft, ()


async def _audited(draft: Draft, *more: Any) -> tuple[None, Any, tuple[Problem, ...]]:
    return None, _Passed(), ()


class _Passed:
    content_hash = "0" * 64
    quality = type("", (), {"to_dict": staticmethod(dict)})


def _without(stage: str, text: str, earlier: Sequence[str], draft: Draft) -> str:
    """An answer that removes what the answers before it have added."""
    added = {name for answer in earlier for name in _parts(stage, answer)}
    gone = sorted(added - set(draft.parts(stage)) - set(_parts(stage, text)))
    if not gone:
        return text
    if stage in ("scenario", "task"):
        return json.dumps({**products.read_object(text), "remove": gone})
    return f"{text}\n\n{products.fenced('json', json.dumps({'remove': gone}))}"


def _parts(stage: str, text: str) -> products.Parts:
    try:
        return STAGES_BY_NAME[stage].read(text).parts
    except AnswerError:
        return {}


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    return Trial(tmp_path, monkeypatch)


def _unreadable(stage: str) -> list[str]:
    found = []
    for text in ANYWHERE.values():
        try:
            STAGES_BY_NAME[stage].read(text)
        except AnswerError:
            found.append(text)
    return found


@pytest.mark.parametrize("stage", WRITING)
async def test_what_is_no_answer_is_asked_for_again(trial: Trial, stage: str) -> None:
    rubbish = _unreadable(stage)
    assert len(rubbish) > 8
    assert await trial.of(stage, *rubbish) == ["unreadable_answer"] * len(rubbish)


@pytest.mark.parametrize("stage", WRITING)
async def test_an_answer_of_the_wrong_form_is_mended(trial: Trial, stage: str) -> None:
    unreadable = set(_unreadable(stage))
    texts = [text for text in ANYWHERE.values() if text not in unreadable]
    texts += [products.fenced("json", json.dumps(value)) for value in ODD_JSON]
    for text in texts:
        assert await trial.of(stage, text)


HUGE = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
DDL = {
    "ATTACH": "ATTACH 'CANARY' AS other; CREATE TABLE other.x (a)",
    "PRAGMA": "PRAGMA writable_schema = ON; PRAGMA temp_store_directory = 'CANARY'",
    "load_extension": "CREATE VIEW v AS SELECT load_extension('CANARY')",
    "a trigger that loads": "CREATE TRIGGER t AFTER INSERT ON plants BEGIN SELECT load_extension('CANARY'); END",
    "a virtual table": "CREATE VIRTUAL TABLE x USING fts5(a)",
    "VACUUM INTO": "VACUUM INTO 'CANARY'",
    "a table of a query": "CREATE TABLE x AS SELECT zeroblob(2000000000)",
    "a table that refers to itself": "CREATE VIEW a AS SELECT * FROM b; CREATE VIEW b AS SELECT * FROM a",
    "names of the database's own": "CREATE TABLE sqlite_stat1 (a)",
    "three thousand columns": "CREATE TABLE wide (" + ", ".join(f"c{n}" for n in range(3_000)) + ")",
}


async def test_a_schema_that_reaches_out_is_sent_back(trial: Trial, canary: tuple[Path, int]) -> None:
    right = answer_of("database").removesuffix("```")
    texts = [f"{right}\n{text};\n```".replace("CANARY", str(canary[0])) for text in DDL.values()]
    rules = await trial.of("database", *texts)
    assert dict(zip(DDL, rules, strict=True))["ATTACH"] == "unreadable_answer"


ROWS = {
    "ATTACH": "ATTACH 'CANARY' AS other",
    "a query": f"INSERT INTO plants (id, name, room, every_days) SELECT 9, load_extension('CANARY'), 'a', ({HUGE})",
    "a function": "INSERT INTO plants (id, name, room, every_days) VALUES (9, load_extension('CANARY'), 'a', 1)",
    "a huge blob": "INSERT INTO plants (id, name, room, every_days) VALUES (9, zeroblob(2000000000), 'a', 1)",
    "too few values": "INSERT INTO plants (id, name, room, every_days) VALUES (9)",
    "another table": "INSERT INTO sqlite_schema VALUES (1, 2, 3, 4, 5)",
    "no reference": "INSERT INTO waterings (plant_id, watered_on, created_at) VALUES (99, '2026-05-01', '2026-05-01')",
    "a null byte": "INSERT INTO plants (id, name, room, every_days) VALUES (9, 'a\0b', 'b', 1)",
}


async def test_rows_that_reach_out_are_sent_back(trial: Trial, canary: tuple[Path, int]) -> None:
    right = answer_of("sample_data").removesuffix("```")
    texts = [f"{right}\n{text};\n```".replace("CANARY", str(canary[0])) for text in ROWS.values()]
    rules = dict(zip(ROWS, await trial.of("sample_data", *texts), strict=True))
    assert (rules["ATTACH"], rules["another table"]) == ("unreadable_answer", "unknown_table")


HARM = {
    "writes": "open('CANARY', 'w').write('dead')",
    "reads": "open('/etc/passwd').read()",
    "leaves": "import os; os._exit(0)",
    "exits": "import sys; sys.exit(0)",
    "starts": "import subprocess; subprocess.Popen(['sleep', '98765'])",
    "forks": "import os; os.fork()",
    "connects": "import socket; socket.create_connection(('127.0.0.1', PORT))",
    "removes": "import shutil; shutil.rmtree('FOLDER')",
    "allocates": "x = bytearray(60_000_000_000)",
    "recurses": "(f := lambda n: f(n + 1))(0)",
    "kills": "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "is rude": "raise BaseException('\\ud800')",
    "says too much": "print('x' * 10_000_000)",
}


def _harm(name: str, canary: tuple[Path, int]) -> str:
    path, port = canary
    return HARM[name].replace("CANARY", str(path)).replace("FOLDER", str(path.parent)).replace("PORT", str(port))


def _with_harm(module: str, harm: str, function: str) -> str:
    """A module whose function does harm at first."""
    head, found, body = module.partition(f"def {function}(")
    assert found
    signature, colon, rest = body.partition(":\n")
    return f"{head}{found}{signature}{colon}    {harm}\n{rest}"


async def test_tools_that_do_harm_are_sent_back(trial: Trial, canary: tuple[Path, int]) -> None:
    """What reading does not refuse runs in the sandbox, and nowhere else."""
    codes = [_with_harm(plants().code, _harm(name, canary), "_plant") for name in HARM]
    rules = await trial.of("code", *(products.fenced("python", code) for code in codes))
    found = dict(zip(HARM, rules, strict=True))
    assert {rule for name in ("leaves", "starts", "connects", "kills") for rule in found[name].split(", ")} == {
        "import"
    }
    assert found["writes"] == found["says too much"] == "call"


API_HARM = [
    "connects",
    "kills",
    *(pytest.param(n, marks=pytest.mark.slow) for n in ("writes", "exits", "starts", "removes")),
]


@pytest.mark.parametrize("name", API_HARM)
async def test_a_fastapi_module_that_does_harm_is_sent_back(trial: Trial, canary: tuple[Path, int], name: str) -> None:
    draft = dataclasses.replace(plants(interface="fastapi"), interface="fastapi")
    app = 'app = FastAPI(title="Plant care")'
    code = draft.code.replace(app, f"{app}\n{_harm(name, canary)}")
    assert code != draft.code
    assert await trial.of("code", products.fenced("python", code), draft=draft)


async def test_verifiers_that_do_harm_are_sent_back(trial: Trial, canary: tuple[Path, int]) -> None:
    draft = plants()
    facts = products.fenced("json", json.dumps(draft.facts))
    names = [name for name in HARM if name != "says too much"]
    codes = [_with_harm(draft.verifier_module, _harm(name, canary), f"signals_{FERN}") for name in names]
    rules = await trial.of("verification", *(f"{facts}\n\n{products.fenced('python', code)}" for code in codes))
    assert set(rules) <= {"signals_fail", "source_error"}


QUESTIONS = (
    "ATTACH 'CANARY' AS x",
    "PRAGMA user_version = 7",
    "SELECT load_extension('CANARY')",
    "SELECT writefile('CANARY', 'dead')",
    "DELETE FROM plants",
    "SELECT zeroblob(2000000000)",
    "SELECT 1; SELECT 2",
    "SELECT 9e999",
    "not sql at all",
    "\0",
)


async def test_questions_that_reach_out_are_sent_back(trial: Trial, canary: tuple[Path, int]) -> None:
    draft = plants()
    code = products.fenced("python", draft.verifier_module)
    texts = []
    for sql in QUESTIONS:
        told = {**draft.facts, DUE: {**draft.facts[DUE], "answer_sql": sql.replace("CANARY", str(canary[0]))}}
        texts.append(f"{products.fenced('json', json.dumps(told))}\n\n{code}")
    assert len(await trial.of("verification", *texts)) == len(QUESTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["code", "verification", "answer_sql"])
async def test_what_never_ends_is_stopped_and_sent_back(trial: Trial, stage: str) -> None:
    draft = plants()
    if stage == "code":
        text = products.fenced("python", _with_harm(draft.code, "while True: pass", "_plant"))
    else:
        told, code = draft.facts, draft.verifier_module
        if stage == "answer_sql":
            told[DUE]["answer_sql"] = HUGE
        else:
            code = _with_harm(code, "while True: pass", f"signals_{FERN}")
        text = f"{products.fenced('json', json.dumps(told))}\n\n{products.fenced('python', code)}"
    assert await trial.of(stage if stage in WRITING else "verification", text)


async def solved(script: dict[str, Any], draft: Draft | None = None) -> tuple[Draft, list[Problem], SolverState]:
    """What the solver comes to with these answers."""
    state = SolverState()
    found, problems = await solve_tasks(draft or plants(), ScriptedDesk(script).desk, state)
    return found, list(problems), state


PLACE = f"plant_care_1/solution/{FERN}"
RIGHT = conversation(f"plant_care_1/solution/{DUE}/1", [("list_plants", {"only_due": True})], '["Fern", "Monstera"]')


@pytest.mark.parametrize(
    "said",
    [
        PROSE,
        "",
        "null",
        "[]",
        '{"at_fault": ["task"], "reason": {}}',
        '{"at_fault": "the moon", "reason": "it is full"}',
        '{"at_fault": null}',
        '{"at_fault": {"a": 1}}',
        '{"at_fault": "solution", "reason": "\\ud800"}',
        "\ud800",
        DEEP,
    ],
)
async def test_an_arbiter_that_talks_nonsense_blames_the_attempt(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "ATTEMPTS", 1)
    script = {**RIGHT, **conversation(f"{PLACE}/1", "I give up."), f"{PLACE}/1/arbiter": said}
    found, problems, state = await solved(script)
    assert [(p.stage, p.rule, p.subject) for p in problems] == [("solution", "unsolved", FERN)]
    assert list(found.solutions) == [DUE]
    assert state.attempts == {DUE: 1, FERN: 1}


async def test_a_solver_that_gives_up_each_time_leaves_the_task_unsolved() -> None:
    script: dict[str, Any] = dict(RIGHT)
    for number in range(1, 6):
        script |= conversation(f"{PLACE}/{number}", "I cannot do that.")
        script[f"{PLACE}/{number}/arbiter"] = {"at_fault": "solution", "reason": "It did nothing."}
    _, problems, state = await solved(script)
    (problem,) = problems
    assert (problem.rule, problem.subject, state.attempts[FERN]) == ("unsolved", FERN, 5)
    assert "5 attempts" in problem.message
    assert "It did nothing." in problem.message


@pytest.mark.parametrize(
    "call",
    [
        ("fly_away", {"to": "the moon"}),
        ("move_plant", {"plant_id": "\ud800", "room": None}),
        ("move_plant", {"plant_id": 10**30, "room": "x" * 300_000}),
        ("__import__", {}),
        ("", {}),
    ],
)
async def test_a_solver_that_calls_nonsense_for_ever_is_stopped(
    call: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solving, "ATTEMPTS", 1)
    monkeypatch.setattr(solving, "MAX_TURNS", 4)
    script = {**RIGHT, **conversation(f"{PLACE}/1", *([[call]] * 4))}
    script[f"{PLACE}/1/arbiter"] = {"at_fault": "solution", "reason": "It was lost."}
    _, problems, _ = await solved(script)
    assert [p.rule for p in problems] == ["unsolved"]


async def test_a_task_that_no_tool_can_do_goes_back_to_whoever_the_arbiter_blames() -> None:
    draft = plants()
    told = {
        **draft.tasks,
        FERN: {"kind": "change", "instruction": "Move the fern to the moon and paint it blue there."},
    }
    impossible = draft.having("task", {slug: json.dumps(task) for slug, task in told.items()})
    script = {**RIGHT, **conversation(f"{PLACE}/1", [("list_plants", {})], "No tool paints plants.")}
    script[f"{PLACE}/1/arbiter"] = {"at_fault": "task", "reason": "No tool can paint."}
    _, problems, _ = await solved(script, impossible)
    assert [(p.stage, p.rule, p.subject) for p in problems] == [("task", "attempt_disagrees", FERN)]
    assert "No tool can paint." in problems[0].message


def _run(script: Callable[[Body], Reply], out: Path, *names: str) -> tuple[SynthesisReport, dict[str, str]]:
    """A whole run; its report, and each rejected environment's rules."""
    with running_endpoint(script) as fake:
        endpoint = Endpoint("m", base_url=fake.base_url)
        report = synthesize([Seed(name=name, outline="") for name in names], out, endpoint=endpoint, sizes=SIZES)
    rejected = {
        path.parent.name: ", ".join(p["rule"] for p in json.loads(path.read_text()))
        for path in (out / "rejected").glob("*/problems.json")
    }
    return report, rejected


def test_an_environment_whose_every_stage_begins_with_rubbish_is_accepted(tmp_path: Path) -> None:
    kinds = itertools.cycle(["prose", "nothing", "null bytes", "half of a surrogate pair"])
    slips: dict[str, Sequence[str]] = {stage: [ANYWHERE[next(kinds)]] for stage in WRITING}
    slips |= {"suitability": [PROSE]}
    report, rejected = _run(model(slips), tmp_path / "made", "Plant Care")
    assert (report.state, report.accepted, rejected) == ("done", ("plant_care_1",), {})
    with read_store(tmp_path / "made") as store:
        attempts = [(a["stage"], a["number"]) for a in store.records("attempt")]
    assert attempts == [(stage, number) for stage in WRITING for number in (1, 2)]


def test_what_never_recovers_is_rejected_by_a_rule_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solving, "ATTEMPTS", 2)
    right = model()

    def script(body: Body) -> Reply:
        text = str(body["messages"])
        if "Sql Care" in text and "# Your task: the database" in text:
            return says("```sql\nATTACH 'x' AS y;\n```")
        if "Code Care" in text and "# Write the tools" in text:
            return says("```python\nimport os\n\n\ndef list_plants(db):\n    os.abort()\n```")
        if "Solver Care" in text and body.get("tools"):
            return calls(("fly_away", {})) if body["messages"][-1]["role"] == "user" else says("I give up.")
        if "Solver Care" in text and "An agent worked on a task" in text:
            return says("The moon is at fault.")
        return right(body)

    names = ("Sql Care", "Code Care", "Solver Care", "Plant Care")
    report, rejected = _run(script, tmp_path / "made", *names)
    assert (report.state, report.unfinished) == ("done", ())
    assert report.accepted == ("plant_care_1",)
    assert set(rejected) == set(report.rejected) == {"sql_care_1", "code_care_1", "solver_care_1"}
    assert rejected["sql_care_1"] == "unreadable_answer"
    assert "import" in rejected["code_care_1"]
    assert rejected["solver_care_1"] == "unsolved, unsolved"
    page = (tmp_path / "made" / "report.md").read_text()
    rules = {rule for told in rejected.values() for rule in told.split(", ")}
    assert {rule for rule in rules if rule not in page} == set()


@pytest.mark.slow
def test_a_view_without_end_that_nothing_reads_holds_nothing_up(tmp_path: Path) -> None:
    endless = answer_of("database").removesuffix("```") + f"\nCREATE VIEW endless AS {HUGE};\n```"
    report, _ = _run(model({"database": [endless]}), tmp_path / "made", "Plant Care")
    assert (report.state, report.accepted) == ("done", ("plant_care_1",))
