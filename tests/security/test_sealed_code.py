"""A row's code, SQL and verifiers reach nothing but their own database."""

import socket

import pytest
from making import NOTES_DDL, make_environment, notes_request

from awm_hub import aio
from awm_hub.environment import SeedTable, Table
from awm_hub.errors import LoadError, SourceError
from awm_hub.runtime import jobs
from awm_hub.trajectory import StateDiff

ATTACKS = {
    "read a file": "open('/etc/passwd').read()",
    "list a folder": "__import__('os').listdir('/')",
    "read the parent's environment": "open('/proc/%d/environ' % __import__('os').getppid()).read()",
    "write a file": "open('/tmp/awm-hub-escape', 'w').write('x')",
    "connect": "__import__('socket').create_connection(('127.0.0.1', PORT), 1)",
    "send a datagram": "__import__('socket').socket(2, 2).sendto(b'x', ('127.0.0.1', 9))",
    "run a program": "__import__('subprocess').run(['/bin/true'])",
    "fork": "__import__('os').fork()",
    "start a thread": "__import__('threading').Thread(target=print).start()",
    "signal the parent": "__import__('os').kill(__import__('os').getppid(), 0)",
    "become root": "__import__('os').setuid(0)",
    "attach a file": "__import__('sqlite3').connect(':memory:').execute(\"ATTACH '/tmp/awm-hub-escape' AS a\")"
    ".connection.execute('CREATE TABLE a.t (x)')",
    "open a database file": "__import__('sqlite3').connect('/tmp/awm-hub-escape').execute('CREATE TABLE t (x)')",
    "load an extension": "(lambda c: (c.enable_load_extension(True), c.load_extension('/lib/libm.so.6')))"
    "(__import__('sqlite3').connect(':memory:'))",
    "make memory executable": "__import__('mmap').mmap(-1, 4096, prot=7)",
    "write to the host's socket": "[__import__('os').write(d, b'x') for d in range(3, 64)]",
    "import from disk": "__import__('turtledemo')",
}


def _attack(expression: str, port: int) -> str:
    return expression.replace("PORT", str(port))


@pytest.fixture(scope="module")
def port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_tool_that_reaches_out_is_a_fault_and_the_instance_goes_on(name: str, port: int) -> None:
    code = (
        "import mmap\n"
        'def attack(db) -> str:\n    """Try."""\n'
        f"    return str({_attack(ATTACKS[name], port)}) or 'done'\n"
        'def count(db) -> int:\n    """Count."""\n'
        "    return db.execute('SELECT count(*) FROM notes').fetchone()[0]\n"
    ).replace("import mmap\n", "")
    environment = await make_environment(code)
    async with await aio.launch(environment) as instance:
        assert instance.tier == "sealed"
        result = await instance.call_tool("attack")
        assert result.type == "fault", result
        assert (await instance.call_tool("count")).value == 2


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_module_that_reaches_out_while_it_is_loaded_does_not_load(name: str, port: int) -> None:
    report = await jobs.build(notes_request(f"x = {_attack(ATTACKS[name], port)}\n", strict=False))
    assert report.load_error, report
    assert report.tools == ()


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_verifier_that_reaches_out_fails(name: str, port: int) -> None:
    image = (await jobs.build(notes_request(None))).image
    code = f"def check(initial, final):\n    return {{'found': str({_attack(ATTACKS[name], port)})}}\n"
    with pytest.raises(jobs.VerifierError):
        await jobs.verify(
            code=code, function="check", initial=image, final=image, changes=StateDiff(), answer=None,
            clock=notes_request(None).clock,
        )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH DATABASE '/tmp/awm-hub-escape' AS other",
        "CREATE TABLE read AS SELECT readfile('/etc/passwd')",
        "CREATE TABLE loaded AS SELECT load_extension('/lib/libm.so.6')",
        "VACUUM INTO '/tmp/awm-hub-escape'",
    ],
)
async def test_ddl_that_reaches_out_is_an_error(statement: str) -> None:
    request = jobs.BuildRequest(
        interface="functions", code=None, clock=notes_request(None).clock, tables=(Table(name="x", ddl=statement),)
    )
    with pytest.raises(SourceError):
        await jobs.build(request)


async def test_a_seed_that_reaches_out_is_an_error() -> None:
    request = jobs.BuildRequest(
        interface="functions",
        code=None,
        clock=notes_request(None).clock,
        tables=(Table(name="notes", ddl=NOTES_DDL),),
        seed=(SeedTable(table="notes", inserts=("INSERT INTO notes (text) VALUES (readfile('/etc/passwd'))",)),),
    )
    with pytest.raises(SourceError, match="no such function"):
        await jobs.build(request)


async def test_the_sandbox_holds_no_secret_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    environment = await make_environment(
        'import os\ndef secrets(db) -> dict:\n    """Environment variables."""\n    return dict(os.environ)\n'
    )
    async with await aio.launch(environment) as instance:
        found = await instance.call_tool("secrets")
    assert "HF_TOKEN" not in found.value
    assert "hf_planted" not in str(found.value)


@pytest.mark.parametrize("lie", ["2**40", "'text'", "b'x' * 100", "None"])
async def test_code_that_patches_its_sandbox_gets_no_further_than_a_load_error(lie: str) -> None:
    code = (
        "import sys\nbuilding = sys.modules['awm_hub.sandbox.building']\n"
        f"building.ImageBuilder._image = lambda self: {lie}\n"
    )
    with pytest.raises(LoadError):
        await jobs.build(notes_request(code))
