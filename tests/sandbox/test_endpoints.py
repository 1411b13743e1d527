"""Modules of the `fastapi` interface, live: calls are typed by the response, and nothing outlives its call."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from typing import Any

import pytest
from making import make_environment, notes_request

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.runtime import Limits, jobs
from awm_hub.trajectory import StateDiff, ToolResult

HEAD = """
import asyncio, os, time
from datetime import datetime
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel
from sqlalchemy import Column, Integer, String, create_engine, event, text
from sqlalchemy.orm import Session, declarative_base, sessionmaker

engine = create_engine(os.getenv("DATABASE_PATH", "sqlite:///x.db"), connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(autocommit=False, autoflush=False, bind=engine)
Base = declarative_base()
app = FastAPI()


class Note(Base):
    __tablename__ = "notes"
    id = Column(Integer, primary_key=True)
    text = Column(String, nullable=False)


def add(content):
    session = SessionLocal()
    session.add(Note(text=content))
    session.commit()
    session.close()


@app.get("/notes", operation_id="texts")
async def texts():
    session = SessionLocal()
    found = [n.text for n in session.query(Note).order_by(Note.id)]
    session.close()
    return found

"""
CODE = (
    HEAD
    + """
shared = SessionLocal()
kept = engine.connect()


@app.post("/leave", operation_id="leave_open")
async def leave_open(fails: bool = False):
    session = SessionLocal()
    session.add(Note(text="left open"))
    session.flush()
    if fails:
        raise RuntimeError("on purpose")


@app.post("/shared", operation_id="use_shared")
def use_shared(commits: bool):
    shared.add(Note(text="shared"))
    shared.flush()
    if commits:
        shared.commit()
    return shared.query(Note).count()


@app.get("/kept", operation_id="use_kept")
def use_kept():
    return kept.execute(text("SELECT count(*) FROM notes")).scalar()


@app.post("/inner", operation_id="read_inside")
async def read_inside():
    outer = SessionLocal()
    outer.add(Note(text="outer"))
    outer.flush()
    inner = SessionLocal()
    inner.query(Note).count()
    inner.rollback()
    inner.close()
    outer.commit()
    outer.close()


@app.post("/locked", operation_id="write_inside")
async def write_inside():
    outer = SessionLocal()
    outer.add(Note(text="outer"))
    outer.flush()
    try:
        add("inner")
    except Exception as error:
        outer.commit()
        return str(error).splitlines()[0]


@app.post("/after", operation_id="write_after")
async def write_after():
    outer = SessionLocal()
    outer.add(Note(text="outer"))
    outer.flush()
    outer.rollback()
    add("inner")
    outer.add(Note(text="outer again"))
    outer.commit()


@app.post("/task", operation_id="start_task")
async def start_task(seconds: float):
    async def later():
        await asyncio.sleep(seconds)
        add("from a task")
    asyncio.create_task(later())


@app.get("/nap", operation_id="nap")
async def nap(seconds: float):
    await asyncio.sleep(seconds)


@app.get("/status/{code}", operation_id="status")
async def status(code: int):
    raise HTTPException(status_code=code, detail=f"status {code}")


@app.get("/detail", operation_id="detail")
async def detail(kind: str):
    raise HTTPException(status_code=422, detail={"list": ["not", "valid"], "object": {"why": "no"}}[kind])


class Count(BaseModel):
    count: int


@app.get("/model", operation_id="wrong_model", response_model=Count)
async def wrong_model():
    return {"count": "no number"}


@app.get("/stream", operation_id="stream")
async def stream(parts: int, fails: bool = False):
    async def body():
        for n in range(parts):
            yield f"part {n} "
        if fails:
            raise RuntimeError("on purpose")
    return StreamingResponse(body(), media_type="text/plain")


@app.get("/large", operation_id="large")
async def large(size: int, swallowed: bool = False):
    return "x" * size


@app.get("/spin", operation_id="spin")
async def spin(how: str):
    session = SessionLocal()
    session.add(Note(text="spun"))
    session.flush()
    if how == "python":
        while True:
            pass
    if how == "sleep":
        await asyncio.sleep(60)
    if how == "block":
        time.sleep(60)
    if how == "sql":
        endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
        session.execute(text(endless))
    if how == "receive":
        await Never().receive()


class Never:
    async def receive(self):
        await asyncio.Event().wait()


@app.get("/background", operation_id="background")
async def background(tasks: BackgroundTasks, fails: bool):
    tasks.add_task(add, "in the background")
    if fails:
        tasks.add_task(int, "no number")
    return "done"


@app.get("/disconnected", operation_id="disconnected")
async def disconnected(request: Request):
    return await request.is_disconnected()


@app.get("/function", operation_id="sync_endpoint")
def sync_endpoint(function: str):
    return function


@app.get("/regexp", operation_id="regexp")
def regexp(pattern: str):
    session = SessionLocal()
    names = [n.text for n in session.query(Note).filter(Note.text.regexp_match(pattern))]
    other = SessionLocal()
    cursor = session.execute(text("SELECT id FROM notes"))
    first = cursor.fetchone()
    other.query(Note).filter(Note.text.regexp_match(pattern)).all()
    return [names, len(cursor.fetchall())]
"""
)
FAST = Limits(call_soft_s=0.4, call_hard_s=3.0, output_bytes=1000)


@pytest.fixture(scope="module")
def environment() -> Environment:
    return asyncio.run(make_environment(CODE, notes_request(CODE, interface="fastapi")))


@pytest.fixture
async def instance(environment: Environment) -> AsyncIterator[aio.Instance]:
    async with await aio.launch(environment, limits=FAST) as live:
        yield live


async def made(code: str) -> Environment:
    return await make_environment(HEAD + code, notes_request(HEAD + code, interface="fastapi"))


async def load_error(code: str) -> str | None:
    return (await jobs.build(notes_request(code, interface="fastapi", strict=False))).load_error


async def texts(instance: aio.Instance) -> Any:
    return (await instance.call_tool("texts")).value


def shown(result: ToolResult) -> tuple[str, Any, Any]:
    return result.type, result.code, result.message if result.type != "ok" else result.value


@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_session_left_open_has_written_is_undone(instance: aio.Instance, fails: bool) -> None:
    result = await instance.call_tool("leave_open", {"fails": fails})
    assert result.type == ("fault" if fails else "ok")
    assert await texts(instance) == ["first", "second"]
    assert await instance.diff() == StateDiff()


async def test_a_session_that_the_module_keeps_leads_to_the_instance_being_called(environment: Environment) -> None:
    async with await aio.launch(environment) as one, await aio.launch(environment) as two:
        assert (await one.call_tool("use_shared", {"commits": True})).value == 3
        assert (await two.call_tool("use_shared", {"commits": False})).value == 3
        assert (await two.call_tool("use_kept")).value == 2
        assert (await one.call_tool("use_kept")).value == 3
        assert await texts(one) == ["first", "second", "shared"]
        assert await texts(two) == ["first", "second"]
        await one.reset()
        assert (await one.call_tool("use_kept")).value == 2


async def test_an_inner_session_that_ends_leaves_the_outer_ones_changes(instance: aio.Instance) -> None:
    assert (await instance.call_tool("read_inside")).type == "ok"
    assert await texts(instance) == ["first", "second", "outer"]


async def test_a_second_writer_finds_the_database_locked(instance: aio.Instance) -> None:
    found = (await instance.call_tool("write_inside")).value
    assert found == "(sqlite3.OperationalError) database is locked"
    assert await texts(instance) == ["first", "second", "outer"]


async def test_after_a_rollback_others_may_write(instance: aio.Instance) -> None:
    assert (await instance.call_tool("write_after")).type == "ok"
    assert await texts(instance) == ["first", "second", "inner", "outer again"]


async def test_sql_functions_of_the_dialect_work_while_a_statement_runs(instance: aio.Instance) -> None:
    assert (await instance.call_tool("regexp", {"pattern": "^f"})).value == [["first"], 1]


async def test_tasks_end_with_the_call_that_started_them(environment: Environment) -> None:
    async with await aio.launch(environment) as one, await aio.launch(environment) as two:
        await one.call_tool("start_task", {"seconds": 0})
        await one.call_tool("start_task", {"seconds": 0.05})
        await two.call_tool("nap", {"seconds": 0.1})
        assert await texts(two) == ["first", "second"]
        assert await texts(one) == ["first", "second", "from a task"]


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "refused", "invalid"), (401, "refused", "forbidden"), (403, "refused", "forbidden"),
        (404, "refused", "not_found"), (409, "refused", "conflict"), (410, "refused", "not_found"),
        (412, "refused", "failed_precondition"), (418, "refused", "invalid"), (422, "refused", "invalid"),
        (423, "refused", "failed_precondition"), (429, "refused", "failed_precondition"), (500, "fault", "http_500"),
        (503, "fault", "http_503"),
    ],
)  # fmt: skip
async def test_calls_are_typed_by_the_status(instance: aio.Instance, status: int, kind: str, code: str) -> None:
    assert shown(await instance.call_tool("status", {"code": status})) == (kind, code, f"status {status}")


async def test_a_list_of_details_from_the_code_itself_is_a_refusal(instance: aio.Instance) -> None:
    result = await instance.call_tool("detail", {"kind": "list"})
    assert shown(result) == ("refused", "invalid", '["not", "valid"]')
    result = await instance.call_tool("detail", {"kind": "object"})
    assert shown(result) == ("refused", "invalid", '{"why": "no"}')


async def test_a_response_that_breaks_its_own_model_is_a_fault(instance: aio.Instance) -> None:
    assert shown(await instance.call_tool("wrong_model"))[:2] == ("fault", "ResponseValidationError")


async def test_streams_are_read_to_their_end(instance: aio.Instance) -> None:
    assert shown(await instance.call_tool("stream", {"parts": 2})) == ("ok", None, "part 0 part 1 ")
    assert (await instance.call_tool("stream", {"parts": 2, "fails": True})).type == "fault"


async def test_a_large_result_is_stopped_at_the_limit(instance: aio.Instance) -> None:
    assert (await instance.call_tool("large", {"size": 900})).type == "ok"
    assert shown(await instance.call_tool("large", {"size": 1100}))[:2] == ("fault", "output_limit")
    assert shown(await instance.call_tool("stream", {"parts": 500}))[:2] == ("fault", "output_limit")


@pytest.mark.parametrize("how", ["python", "sleep", "block", "sql", "receive"])
async def test_a_call_that_never_ends_is_a_fault_and_undone(instance: aio.Instance, how: str) -> None:
    assert shown(await instance.call_tool("spin", {"how": how}))[:2] == ("fault", "deadline")
    assert await texts(instance) == ["first", "second"]


@pytest.mark.parametrize("fails", [False, True])
async def test_what_fails_after_the_response_does_not_change_it(instance: aio.Instance, fails: bool) -> None:
    assert shown(await instance.call_tool("background", {"fails": fails})) == ("ok", None, "done")
    assert await texts(instance) == ["first", "second", "in the background"]


async def test_the_client_stays_connected_until_the_answer(instance: aio.Instance) -> None:
    assert (await instance.call_tool("disconnected")).value is False


async def test_sync_endpoints_take_arguments_of_any_name(instance: aio.Instance) -> None:
    assert (await instance.call_tool("sync_endpoint", {"function": "a"})).value == "a"


async def test_a_middleware_that_swallows_everything_does_not_hide_a_limit() -> None:
    environment = await made("""
@app.middleware("http")
async def swallow(request, call_next):
    try:
        return await call_next(request)
    except Exception as error:
        return JSONResponse({"detail": f"caught {type(error).__name__}"}, status_code=400)

@app.get("/large", operation_id="large")
async def large(size: int):
    if size < 0:
        raise KeyError("size")
    return "x" * size
""")
    async with await aio.launch(environment, limits=FAST) as instance:
        assert shown(await instance.call_tool("large", {"size": 2000}))[:2] == ("fault", "output_limit")
        assert shown(await instance.call_tool("large", {"size": -1})) == ("refused", "invalid", "caught KeyError")
        assert shown(await instance.call_tool("large", {"size": 3})) == ("ok", None, "xxx")


async def test_connect_listeners_run_on_every_instance() -> None:
    environment = await made("""
@event.listens_for(engine, "connect")
def set_pragma(connection, record):
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()
    connection.create_function("shout", 1, str.upper)

@app.get("/state", operation_id="state")
async def state():
    session = SessionLocal()
    found = session.execute(text("SELECT shout('on'), foreign_keys FROM pragma_foreign_keys")).one()
    session.close()
    return list(found)
""")
    async with await aio.launch(environment) as one, await aio.launch(environment) as two:
        for instance in (one, two, one):
            assert (await instance.call_tool("state")).value == ["ON", 1]


async def test_an_engine_that_commits_by_itself_keeps_what_was_written_before_an_error() -> None:
    environment = await made("""
by_itself = create_engine("sqlite:///x.db", isolation_level="AUTOCOMMIT")

@app.post("/fail", operation_id="fail")
async def fail():
    with by_itself.connect() as connection:
        connection.execute(text("INSERT INTO notes (text) VALUES ('kept')"))
        raise RuntimeError("on purpose")
""")
    async with await aio.launch(environment) as instance:
        assert (await instance.call_tool("fail")).code == "RuntimeError"
        assert await texts(instance) == ["first", "second", "kept"]
        assert (await instance.call_tool("fail")).code == "RuntimeError"


async def test_start_up_runs_before_the_first_call_and_its_state_reaches_requests() -> None:
    environment = await make_environment(
        code := HEAD.replace(
            "app = FastAPI()",
            """
import contextlib

@contextlib.asynccontextmanager
async def lifespan(app):
    add("at start-up")
    async def poll():
        while True:
            await asyncio.sleep(0.01)
            add("polled")
    asyncio.create_task(poll())
    yield {"greeting": "hello"}

app = FastAPI(lifespan=lifespan)
""",
        )
        + """
@app.get("/greeting", operation_id="greeting")
async def greeting(request: Request):
    await asyncio.sleep(0.05)
    return request.state.greeting
""",
        notes_request(code, interface="fastapi"),
    )
    async with await aio.launch(environment) as instance:
        assert (await instance.call_tool("greeting")).value == "hello"
        assert await texts(instance) == ["first", "second", "at start-up"]


async def test_a_start_up_that_fails_is_an_error_of_loading() -> None:
    code = HEAD + '@app.on_event("startup")\ndef start():\n    raise RuntimeError("no shop today")\n'
    assert (await load_error(code) or "").startswith("RuntimeError: no shop today (line ")


async def test_a_module_without_an_app_does_not_load() -> None:
    assert await load_error("x = 1") == "ImportError: the module defines no FastAPI app"


async def test_an_app_of_any_name_is_found() -> None:
    report = await jobs.build(notes_request(HEAD.replace("app", "api"), interface="fastapi"))
    assert [tool.name for tool in report.tools] == ["texts"]


async def test_routes_of_included_routers_are_seen_through() -> None:
    code = (
        HEAD
        + """
router = APIRouter()

@router.get("/items/{item_id}", operation_id="get_item")
def get_item(item_id: int):
    return item_id

@router.get("/items/search", operation_id="search_items")
def search_items():
    return "never"

@router.post("/items", operation_id="add_item")
def add_item():
    return "first"

app.include_router(router, prefix="/v1")

@app.post("/v1/items", operation_id="add_item_again")
def add_item_again():
    return "second"

@app.get("/other", operation_id="texts")
def other():
    return "other"

@app.get("/internal", operation_id="internal", include_in_schema=False)
def internal():
    return "hidden"
"""
    )
    report = await jobs.build(notes_request(code, interface="fastapi"))
    assert sorted(tool.name for tool in report.tools) == ["add_item_again", "get_item", "search_items", "texts"]
    assert report.dropped_tools == ("add_item", "texts")
    assert report.shadowed_tools == ("add_item_again", "search_items")
    environment = await make_environment(code, notes_request(code, interface="fastapi"))
    async with await aio.launch(environment) as instance:
        assert (await instance.call_tool("add_item_again")).value == "first"
        assert (await instance.call_tool("get_item", {"item_id": 4})).value == 4


@pytest.mark.parametrize(
    "line",
    [
        "import uvicorn",
        "from pydantic import RootModel, field_serializer, root_validator, validate_call, validator",
        "from pydantic.dataclasses import dataclass",
        "from pydantic.alias_generators import to_camel",
        "from fastapi.middleware.gzip import GZipMiddleware",
        "from starlette.middleware.base import BaseHTTPMiddleware",
        "from sqlalchemy.dialects.postgresql import JSONB, UUID",
        "from sqlalchemy.ext.orderinglist import ordering_list",
    ],
)
async def test_modules_may_import_what_the_frameworks_offer(line: str) -> None:
    assert await load_error(f"{line}\n{HEAD}") is None


async def test_a_validators_first_use_needs_no_disk() -> None:
    environment = await made("""
from pydantic import validator

class NoteIn(BaseModel):
    text: str

    @validator("text")
    def not_empty(cls, value):
        if not value:
            raise ValueError("must not be empty")
        return value

@app.post("/notes", operation_id="add_note")
async def add_note(note: NoteIn):
    return [note.copy(update={"text": "copied"}).dict(), note.json()]
""")
    async with await aio.launch(environment) as instance:
        assert (await instance.call_tool("add_note", {"text": "x"})).value == [{"text": "copied"}, '{"text":"x"}']
        result = await instance.call_tool("add_note", {"text": ""})
        assert shown(result)[:2] == ("invalid_call", "validation")
        assert "must not be empty" in result.message


async def test_an_image_holds_what_the_module_itself_creates() -> None:
    code = HEAD + "class Extra(Base):\n    __tablename__ = 'extra'\n    id = Column(Integer, primary_key=True)\n"
    code += "Base.metadata.create_all(engine)\nadd('from the module')\n"
    report = await jobs.build(notes_request(code, interface="fastapi"))
    assert report.row_counts == {"notes": 3, "extra": 0}
    db = sqlite3.connect(":memory:")
    db.deserialize(report.image)
    assert db.execute("SELECT text FROM notes WHERE id = 3").fetchall() == [("from the module",)]
