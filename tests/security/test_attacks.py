"""What a row's code tries is stopped, by what should stop it, wherever the code runs; and the instance goes on."""

import json
import platform
from collections.abc import Iterable

import pytest
from making import make_environment, notes_request
from security.attacks import ATTACKS, PRELUDE, Attack
from security.stopping import STOPS

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.runtime import Limits, Options, jobs
from awm_hub.sandbox import seal
from awm_hub.trajectory import StateDiff, ToolResult

pytestmark = pytest.mark.skipif(
    not seal.can_seal() or platform.machine() != "x86_64", reason="the attacks use the system calls of Linux on x86_64"
)
CALM = Limits(call_soft_s=10, call_hard_s=20, call_steps=2_000_000, database_bytes=8 * 2**20, worker_memory_bytes=2**30)
SOFT = Limits(call_soft_s=0.2, call_hard_s=20)
HARD = Limits(call_soft_s=0.1, call_hard_s=0.5)
LIMITS = {"soft deadline": SOFT, "hard deadline": HARD, "no answer": HARD}
ERRORS = {"EPERM", "EACCES", "ENOENT", "ENOSYS", "ENOTTY", "EINVAL", "ENOMEM"}
BATCH = [a for a in ATTACKS if a.stop in ERRORS]
"""They leave nothing behind, so that many can be tried in one process."""


def _ids(attacks: Iterable[Attack]) -> list[str]:
    return [f"{a.kind}: {a.name}" for a in attacks]


PROGRAMS = [a for a in ATTACKS if a not in BATCH]


async def _try(hostile: Environment, attack: Attack, port: int, options: Options | None = None) -> ToolResult:
    limits = LIMITS.get(attack.stop, CALM)
    trust = options is not None
    async with await aio.launch(hostile, limits=limits, options=options, trust_remote_code=trust) as instance:
        assert instance.tier == ("process" if trust else "sealed")
        result = await instance.call_tool("attack", {"code": attack.code.replace("PORT", str(port))})
        assert (await instance.call_tool("count")).value == 2
    return result


@pytest.mark.parametrize("attack", PROGRAMS, ids=_ids(PROGRAMS))
async def test_an_attack_is_stopped_by_what_should_stop_it(hostile: Environment, attack: Attack, port: int) -> None:
    result = await _try(hostile, attack, port)
    assert STOPS[attack.stop](result), (attack.stop, result)


@pytest.mark.parametrize("kind", sorted({a.kind for a in BATCH}))
async def test_a_system_call_is_denied_with_the_right_error(hostile: Environment, kind: str, port: int) -> None:
    async with await aio.launch(hostile, limits=CALM) as instance:
        for attack in [a for a in BATCH if a.kind == kind]:
            result = await instance.call_tool("attack", {"code": attack.code.replace("PORT", str(port))})
            assert STOPS[attack.stop](result), (attack.name, attack.stop, result)
        assert (await instance.call_tool("count")).value == 2


UNSEALED = [
    pytest.param(a, id=f"{a.kind}: {a.name}", marks=[pytest.mark.slow] if a.stop in LIMITS else [])
    for a in ATTACKS
    if a.process
]


@pytest.mark.parametrize("attack", UNSEALED)
async def test_without_a_seal_only_the_limits_hold(hostile: Environment, attack: Attack, port: int) -> None:
    result = await _try(hostile, attack, port, Options(tier="process"))
    if attack.process == "held":
        assert STOPS[attack.stop](result), (attack.stop, result)
    else:
        assert result.is_ok, result
        assert not STOPS[attack.stop](result)


BATCHED = f'''{PRELUDE}
import json


def _outcomes(attacks):
    """What became of each attack."""
    found = {{}}
    for name, code in json.loads(attacks):
        names = dict(globals())
        try:
            exec(code, names)
            found[name] = repr(names.get("out"))
        except Exception as error:
            found[name] = f"{{type(error).__name__}}: {{error}}"
    return found
'''
"""The same attacks one after another, where there is no tool to call."""


def _batch(port: int) -> str:
    return json.dumps([(name, a.code.replace("PORT", str(port))) for name, a in zip(_ids(BATCH), BATCH, strict=True)])


def _assert_all_failed(found: dict[str, str]) -> None:
    for name, attack in zip(_ids(BATCH), BATCH, strict=True):
        assert STOPS[attack.stop](ToolResult(type="fault", code="x", message=found[name])), (name, found[name])


async def test_a_verifier_is_stopped_by_the_same(port: int) -> None:
    image = (await jobs.build(notes_request(None))).image
    code = f"{BATCHED}\ndef check(final):\n    return _outcomes({_batch(port)!r})\n"
    found = await jobs.verify(
        code=code, function="check", initial=image, final=image, changes=StateDiff(), answer=None,
        clock=notes_request(None).clock,
    )  # fmt: skip
    _assert_all_failed(found)


async def test_a_module_is_stopped_by_the_same_while_it_is_loaded_for_a_build(port: int) -> None:
    code = f"{BATCHED}\ndef tell(db) -> str:\n    pass\ntell.__doc__ = json.dumps(_outcomes({_batch(port)!r}))\n"
    report = await jobs.build(notes_request(code))
    _assert_all_failed(json.loads(report.tools[0].description))


async def test_a_module_is_stopped_by_the_same_while_it_is_loaded_to_run(port: int) -> None:
    code = f"{BATCHED}\n_found = _outcomes({_batch(port)!r})\n"
    code += 'def tell(db) -> dict:\n    """What became of it."""\n    return _found\n'
    environment = await make_environment(code)
    async with await aio.launch(environment) as instance:
        _assert_all_failed((await instance.call_tool("tell")).value)


async def test_an_endpoint_is_stopped_by_the_same(port: int) -> None:
    code = f"from fastapi import FastAPI\n{BATCHED}\napp = FastAPI()\n"
    code += f'@app.get("/tell", operation_id="tell")\ndef tell():\n    return _outcomes({_batch(port)!r})\n'
    environment = await make_environment(code, notes_request(code, interface="fastapi"))
    async with await aio.launch(environment) as instance:
        _assert_all_failed((await instance.call_tool("tell")).value)


LETS_THROUGH = {335, 336}
"""`uretprobe` and `uprobe`: newer kernels end a process that calls them itself, before any filter is asked."""


async def test_every_system_call_outside_the_list_is_denied(hostile: Environment) -> None:
    numbers = sorted(set(range(700)) - set(seal._X86_64.values()) - LETS_THROUGH)
    code = f"""
raw = {{}}
for number in {numbers}:
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
    raw.setdefault(str((done, ctypes.get_errno())), []).append(number)
"""
    async with await aio.launch(hostile) as instance:
        result = await instance.call_tool("attack", {"code": code})
    assert result.value == {"(-1, 1)": numbers}


@pytest.mark.parametrize("number", sorted(LETS_THROUGH))
async def test_what_the_kernel_lets_through_itself_does_nothing(hostile: Environment, number: int) -> None:
    async with await aio.launch(hostile) as instance:
        result = await instance.call_tool("attack", {"code": f"_call({number}, 0, 0, 0, 0, 0, 0)"})
    assert STOPS["EPERM"](result) or STOPS["death"](result) or "[Errno 6]" in result.message, result


async def test_the_list_holds_no_call_that_reaches_beyond_the_process() -> None:
    reaching = {
        "open", "openat", "socket", "connect", "sendmsg", "recvmsg", "execve", "fork", "vfork", "clone", "kill",
        "tgkill", "ptrace", "prctl", "dup", "fcntl", "pipe", "unlink", "mount", "bpf", "io_uring_setup",
        "prlimit64", "setuid",
    }  # fmt: skip
    assert not reaching & set(seal._X86_64)
    assert not reaching & set(seal._AARCH64)
