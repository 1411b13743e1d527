"""Who can see whom: other environments never, verifiers never; instances that share a worker can, as documented."""

import contextlib
import gc
import os
import socket

import pytest
from making import CLOCK, make_environment, notes_request

from awm_hub import aio
from awm_hub.environment import Environment, SeedTable
from awm_hub.runtime import Limits, jobs, processes
from awm_hub.sandbox import seal
from awm_hub.trajectory import StateDiff

SECRET = "the-secret-of-another-instance"
SEARCH = """
raw = []
for found in gc.get_objects():
    if type(found).__name__ == "InstanceConnection" and found is not db:
        found.is_trusted = True
        raw += [row[0] for row in found.execute("SELECT text FROM notes")]
"""
SCAN = f"""
needle = ({SECRET[:12]!r} + {SECRET[12:]!r}).encode()
heap = libc.sbrk
heap.restype, heap.argtypes = ctypes.c_void_p, [ctypes.c_long]
end = heap(0)
room_start = end - (4 << 20)
raw = [needle in ctypes.string_at(room_start, 4 << 20)]
"""
POISON = """
import json
def lie(*arguments, **options):
    return "poisoned"
for module in [m for name, m in sys.modules.items() if name.startswith("awm_hub.sandbox")]:
    for name, found in list(vars(module).items()):
        if callable(found) and name in ("diff", "dump", "logical_hash", "open_read_only", "run", "encode"):
            setattr(module, name, lie)
json.dumps = sqlite3.connect = lie
out = 'poisoned'
"""
CHECK = "def check(final):\n    return [row['text'] for row in final.execute('SELECT text FROM notes ORDER BY id')]\n"


@pytest.fixture(scope="module")
def secretive() -> Environment:
    """Another environment, whose database holds a secret."""
    from awm_hub.runtime import sync

    request = notes_request('def tell(db) -> str:\n    """Nothing."""\n    return "nothing"\n')
    seed = (SeedTable(table="notes", inserts=(f"INSERT INTO notes (text) VALUES ('{SECRET}')",)),)
    request = type(request)(**{**request.__dict__, "seed": seed})
    return sync.run(make_environment, request.code, request)


async def test_instances_of_one_environment_that_share_a_worker_can_read_each_other(hostile: Environment) -> None:
    async with await aio.launch(hostile) as one, await aio.launch(hostile) as other:
        code = f"db.execute('INSERT INTO notes (text) VALUES (?)', ({SECRET!r},))"
        assert (await other.call_tool("attack", {"code": code})).is_ok
        found = (await one.call_tool("attack", {"code": SEARCH})).value
    assert SECRET in found


async def test_with_one_instance_per_worker_they_cannot(hostile: Environment) -> None:
    limits = Limits(instances_per_worker=1)
    async with await aio.launch(hostile, limits=limits) as one, await aio.launch(hostile, limits=limits) as other:
        code = f"db.execute('INSERT INTO notes (text) VALUES (?)', ({SECRET!r},))"
        assert (await other.call_tool("attack", {"code": code})).is_ok
        assert SECRET not in (await one.call_tool("attack", {"code": SEARCH})).value


async def test_instances_of_another_environment_are_out_of_reach(hostile: Environment, secretive: Environment) -> None:
    async with await aio.launch(secretive) as other, await aio.launch(hostile) as one:
        assert (await other.call_tool("tell")).is_ok
        assert SECRET not in (await one.call_tool("attack", {"code": SEARCH})).value
        for place in (f"/proc/{os.getpid()}/mem", "/proc/1/mem"):
            assert (await one.call_tool("attack", {"code": f"open({place!r}, 'rb')"})).code == "PermissionError"
        scanned = await one.call_tool("attack", {"code": SCAN})
        assert scanned.value in ([False], None), scanned


async def test_an_environment_that_poisons_its_worker_poisons_no_reader_and_no_verifier(hostile: Environment) -> None:
    async with await aio.launch(hostile) as instance:
        code = "db.execute(\"INSERT INTO notes (text) VALUES ('third')\")"
        assert (await instance.call_tool("attack", {"code": code})).is_ok
        image = await instance.image()
        assert (await instance.call_tool("attack", {"code": POISON})).type in ("ok", "fault")
        final = await instance.image()
        changes = await instance.diff()
        assert [row["text"] for row in changes["notes"].added] == ["third"]
    assert (await jobs.dump(final))["notes"]["total"] == 3
    assert await jobs.logical_hash(final) == await jobs.logical_hash(image)
    found = await jobs.verify(
        code=CHECK, function="check", initial=image, final=final, changes=changes, answer=None, clock=CLOCK
    )
    assert found == ["first", "second", "third"]


async def test_a_verifier_leaves_nothing_to_the_next(hostile: Environment) -> None:
    image = (await jobs.build(notes_request(None))).image
    poison = (
        "import sys, json, sqlite3\n"
        "def check(final):\n    json.dumps = sqlite3.connect = None\n    sys.modules.clear()\n"
    )
    for _ in range(2):
        with contextlib.suppress(jobs.VerifierError):
            await jobs.verify(
                code=poison, function="check", initial=image, final=image, changes=StateDiff(), answer=None, clock=CLOCK
            )
        found = await jobs.verify(
            code=CHECK, function="check", initial=image, final=image, changes=StateDiff(), answer=None, clock=CLOCK
        )
        assert found == ["first", "second"]


async def test_a_row_can_lie_about_its_own_results_and_state(hostile: Environment) -> None:
    lie = (
        "kind = type(_worker())\nimage = db.serialize()\n"
        "kind._op_export = lambda self, message: {'image': image, 'calls_count': 7}\nout = 'lied'"
    )
    async with await aio.launch(hostile) as instance:
        await instance.call_tool("attack", {"code": lie})
        code = "db.execute(\"INSERT INTO notes (text) VALUES ('third')\")"
        await instance.call_tool("attack", {"code": code})
        assert not await instance.diff()
        assert (await instance.call_tool("count")).value == 3


async def test_the_host_holds_nothing_of_a_row_but_data(hostile: Environment) -> None:
    async with await aio.launch(hostile) as instance:
        await instance.call_tool(
            "attack", {"code": "raw = {'__class__': 'x', '$ref': '#', '__reduce__': ['os.system', 'id']}"}
        )
        result = instance.steps[-1].result
    assert type(result.value) is dict
    assert not [o for o in gc.get_objects() if type(o).__name__ == "module" and o.__name__ == "awm_environment"]


async def test_no_secret_of_the_host_is_in_a_process_that_its_zygote_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    processes.zygote().stop()
    code = 'import os\n\n\ndef secrets(db) -> dict:\n    """Environment variables."""\n    return dict(os.environ)\n'
    async with await aio.launch(await make_environment(code)) as instance:
        found = (await instance.call_tool("secrets")).value
    assert set(found) <= {"PATH", "LANG", "PYTHONHASHSEED", "TZ", "LC_CTYPE"}
    assert "hf_planted" not in str(found)


async def test_the_name_of_the_machine_and_the_place_of_the_package_can_be_seen(hostile: Environment) -> None:
    code = "raw = [os.uname().nodename, sys.modules['awm_hub.sandbox.seal'].__file__]"
    async with await aio.launch(hostile) as instance:
        found = (await instance.call_tool("attack", {"code": code})).value
    assert found == [socket.gethostname(), seal.__file__]
