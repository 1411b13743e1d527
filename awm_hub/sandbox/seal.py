"""Sealing a process: one way, before the first untrusted byte runs.

A sealed worker keeps memory, time and its one socket to the host. Layers: no_new_privs and no core dumps, death with
the parent, an unprivileged user where the parent is root, resource limits, Landlock where the kernel has it, and a
seccomp allow-list without any file, network, exec, fork, thread or signal call. The allow-list alone stops every
file, network, process and privilege attack that the security tests try; the rest is depth. Restricted builtins and
audit hooks are no sandboxes and are not used. Numbers come from the kernel's system-call tables; the aarch64 table
was not run.
"""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 4, 38, 22
_SECCOMP_MODE_FILTER = 2
_NOBODY = 65534

_X86_64 = {
    "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
    "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16, "sched_yield": 24,
    "mremap": 25, "madvise": 28, "nanosleep": 35, "getitimer": 36, "setitimer": 38, "getpid": 39, "sendto": 44,
    "recvfrom": 45, "exit": 60, "uname": 63, "getcwd": 79, "gettimeofday": 96, "getrusage": 98, "times": 100,
    "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "sigaltstack": 131, "gettid": 186,
    "futex": 202, "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230,
    "exit_group": 231, "epoll_wait": 232, "newfstatat": 262, "ppoll": 271, "epoll_pwait": 281, "getrandom": 318,
    "membarrier": 324, "rseq": 334, "clone3": 435,
}  # fmt: skip
_AARCH64 = {
    "read": 63, "write": 64, "close": 57, "fstat": 80, "lseek": 62, "mmap": 222, "mprotect": 226, "munmap": 215,
    "brk": 214, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "ioctl": 29, "sched_yield": 124,
    "mremap": 216, "madvise": 233, "nanosleep": 101, "getitimer": 102, "setitimer": 103, "getpid": 172, "sendto": 206,
    "recvfrom": 207, "exit": 93, "uname": 160, "getcwd": 17, "gettimeofday": 169, "getrusage": 165, "times": 153,
    "getuid": 174, "getgid": 176, "geteuid": 175, "getegid": 177, "getppid": 173, "sigaltstack": 132, "gettid": 178,
    "futex": 98, "restart_syscall": 128, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115,
    "exit_group": 94, "newfstatat": 79, "ppoll": 73, "epoll_pwait": 22, "getrandom": 278, "membarrier": 283,
    "rseq": 293, "clone3": 435,
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
_CHECKED = {"newfstatat", "ioctl", "clone3", "mmap", "mprotect", "write", "sendto", "recvfrom"}
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER, _ARCH = 0, 4
_PROT_EXEC, _X32_BIT = 4, 0x40000000
_FILESYSTEM_RIGHTS = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))


def can_seal() -> bool:
    """Whether this system has what `seal` needs; the proof is a probe process that tries."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def seal(*, memory_bytes: int) -> dict[str, Any]:
    """Seal the calling process for good.

    Returns:
        What was enforced: `{"seccomp": bool, "landlock": ABI or 0, "unprivileged": bool}`.

    Raises:
        OSError: the kernel refused the seccomp filter; the process must not go on.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, _PR_SET_NO_NEW_PRIVS, 1)
    _prctl(libc, _PR_SET_DUMPABLE, 0)
    _drop_root()
    end_with_parent()  # after the change of user, which would clear it
    limit_resources(memory_bytes)
    landlock = _restrict_filesystem(libc)
    _install_filter(libc)
    return {"seccomp": True, "landlock": landlock, "unprivileged": os.geteuid() != 0}


def limit_resources(memory_bytes: int) -> None:
    """Set the limits that hold in every tier: address space, core dumps, file sizes."""
    limits = [(resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)]
    for kind, value in limits:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))


def end_with_parent() -> None:
    """Have the kernel end this process with its parent, in every tier; only Linux can."""
    if sys.platform == "linux":
        _prctl(ctypes.CDLL(None, use_errno=True), _PR_SET_PDEATHSIG, 9)


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    if libc.prctl(ctypes.c_int(option), *(ctypes.c_ulong(v) for v in (value, 0, 0, 0))):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _drop_root() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _restrict_filesystem(libc: ctypes.CDLL) -> int:
    """Deny every path, TCP port, abstract socket and outside signal by Landlock; returns its ABI, 0 without it."""
    create, restrict = 444, 446
    abi = libc.syscall(create, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if abi <= 0:
        return 0
    rights = sum(bits for since, bits in _FILESYSTEM_RIGHTS if abi >= since)
    rules = struct.pack("QQQ", rights, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    rules = rules[: 8 if abi < 4 else 16 if abi < 6 else 24]
    descriptor = libc.syscall(create, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint(0))
    if descriptor < 0:
        return 0
    denied = libc.syscall(restrict, descriptor, ctypes.c_uint(0)) == 0
    os.close(descriptor)
    return int(abi) if denied else 0


def _install_filter(libc: ctypes.CDLL) -> None:
    program = _filter_program(*_MACHINES[platform.machine()])
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    head = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer))
    head_buffer = ctypes.create_string_buffer(head, len(head))
    pointer = ctypes.c_void_p(ctypes.addressof(head_buffer))
    if libc.prctl(ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_SECCOMP_MODE_FILTER), pointer, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refused the seccomp filter")


def _filter_program(arch: int, numbers: dict[str, int]) -> list[tuple[int, int, int, int]]:
    """Classic BPF: everything not named is EPERM, a foreign architecture kills the process."""
    argument = [16 + 8 * i for i in range(6)]

    def denied(code: int) -> tuple[int, int, int, int]:
        return (_RETURN, 0, 0, _ERRNO | code)

    allowed = (_RETURN, 0, 0, _ALLOW)
    program = [
        (_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32_BIT), denied(errno.ENOSYS),
        # in every form: one with AT_EMPTY_PATH still looks at a path that is not empty
        (_EQUAL, 0, 1, numbers["newfstatat"]), denied(errno.ENOENT),
        (_EQUAL, 0, 1, numbers["ioctl"]), denied(errno.ENOTTY),
        (_EQUAL, 0, 1, numbers["clone3"]), denied(errno.ENOSYS),
    ]  # fmt: skip
    for name in ("mmap", "mprotect"):  # no new executable memory
        program += [
            (_EQUAL, 0, 4, numbers[name]), (_LOAD, 0, 0, argument[2]),
            (_ANY_BIT, 0, 1, _PROT_EXEC), denied(errno.EACCES), allowed,
        ]  # fmt: skip
    # write only to the null device at 1 and 2: the socket to the host takes send alone
    program += [
        (_EQUAL, 0, 5, numbers["write"]), (_LOAD, 0, 0, argument[0]),
        (_EQUAL, 2, 0, 1), (_EQUAL, 1, 0, 2), denied(errno.EPERM), allowed,
    ]  # fmt: skip
    for name in ("sendto", "recvfrom"):  # no flags: out-of-band data has been a way out of the kernel
        program += [
            (_EQUAL, 0, 4, numbers[name]), (_LOAD, 0, 0, argument[3]),
            (_EQUAL, 1, 0, 0), denied(errno.EINVAL), allowed,
        ]  # fmt: skip
    for name, number in numbers.items():
        if name not in _CHECKED:
            program += [(_EQUAL, 0, 1, number), allowed]
    return [*program, denied(errno.EPERM)]
