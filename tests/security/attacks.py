"""The attacks of code that a row brings along, as data: what is tried, and what has to stop it.

`code` runs inside a tool, with the names of `PRELUDE`. Most attacks are one system call, made without any library
between; the numbers are those of x86_64. `process` says what the same code comes to in the tier without a seal, where
it is harmless to the machine: `open` (it succeeds) or `held` (the same thing stops it).
"""

from dataclasses import dataclass

KINDS = {
    "files": "read, write, look at or make files, also through SQLite and `import`",
    "network": "TCP, UDP, unix, abstract, netlink and raw sockets, passing descriptors",
    "processes": "fork, vfork, clone, exec in all forms",
    "threads": "threads of Python and of the kernel",
    "debugging": "ptrace, other processes' memory and descriptors, perf",
    "signals": "signals to the host, to others and to itself, by call, descriptor, timer and I/O",
    "io_uring": "io_uring and the kernel's older asynchronous I/O",
    "namespaces": "user namespaces and every other kind",
    "host information": "`/proc` of the host, secrets in the environment, the kernel's log",
    "privileges": "users, capabilities, another filter, lifted limits, modules, clocks, keys, bpf",
    "foreign calls": "x32, 32-bit and vsyscall entries into the kernel",
    "shared memory": "System V and POSIX shared memory, semaphores, queues",
    "executable memory": "new machine code",
    "descriptors": "making, copying, using and exhausting descriptors",
    "memory": "more memory than allowed, in Python, in C and in SQL",
    "CPU": "endless work in Python, C, regular expressions and SQL, with the alarm disarmed",
    "output": "results, messages and prints without measure",
    "crashes": "exit, abort, segfaults, broken interpreters",
    "host socket": "garbage, bombs and forged answers on the socket to the host",
    "false answers": "answers of wrong types in every field of every operation",
    "hostile images": "truncated, corrupted and booby-trapped databases into whatever opens one",
    "hostile statements": "DDL, seed and setup that reach out or never end",
    "other environments": "memory of the instances of another environment",
    "verifiers": "a verifier's process reached from the environment, and verifiers that reach out",
}
"""Every kind of attack and what belongs to it."""

PRELUDE = """
import asyncio, ctypes, gc, os, re, signal, socket, sqlite3, struct, subprocess, sys, threading, time, zlib

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
room = ctypes.create_string_buffer(4096)


def _call(number, *arguments):
    done = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if done == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def _worker():
    kind = sys.modules["awm_hub.sandbox.worker"].Worker
    frame = sys._getframe()
    while not isinstance(frame.f_locals.get("self"), kind):
        frame = frame.f_back
    return frame.f_locals["self"]


def _host():
    return _worker()._connection


def _frame(body):
    return struct.pack("<I", len(body)) + body


def _forged(number, value=b"\\xc3"):
    return _frame(b"\\x82\\xa2id" + (b"\\xcd" + struct.pack(">H", number)) + b"\\xa2ok" + value)


def _asked():
    frames = sys._getframe()
    while frames and "message" not in frames.f_locals:
        frames = frames.f_back
    return frames.f_locals["message"]["id"]
"""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attempt and what stops it: a name from `STOPS` in `stopping`."""

    kind: str
    name: str
    code: str
    stop: str
    process: str | None = None


def _python(kind: str, stop: str, attempts: dict[str, str], process: str | None = None) -> list[Attack]:
    return [Attack(kind=kind, name=n, code=c, stop=stop, process=process) for n, c in attempts.items()]


def _calls(kind: str, attempts: dict[str, str], stop: str = "EPERM") -> list[Attack]:
    """System calls: the number and the arguments, as they are written in a call."""
    return [Attack(kind=kind, name=f"{n}()", code=f"out = _call({c})", stop=stop) for n, c in attempts.items()]


FILES = [
    *_python("files", "EPERM", {
        "read a file": "out = open('/etc/hostname').read()",
        "list a folder": "out = os.listdir('/')",
        "find out whether a file may be read": "out = _call(21, b'/etc/hostname', 4)",
    }, process="open"),
    *_python("files", "ENOENT", {
        "look at a path": "out = os.stat('/etc/passwd')",
        "look at a path as if at a descriptor": "out = _call(262, -100, b'/etc/shadow', room, 0x1000)",
    }, process="open"),
    *_python("files", "EPERM", {
        "write a file": "open('/tmp/awm-hub-escape', 'w').write('x')",
        "write to shared memory's folder": "open('/dev/shm/awm-hub-escape', 'w').write('x')",
        "replace the sandbox's own module": "open(sys.modules['awm_hub.sandbox.seal'].__file__, 'a')",
        "remove a file": "os.unlink('/tmp/awm-hub-victim')",
        "read past patched builtins": "import json\nout = json.codecs.builtins.open('/etc/hostname').read()",
    }),
    *_python("files", "no such thing", {"import from disk": "import zipapp"}, process="open"),
    *_python("files", "no such thing", {
        "load an extension into SQLite": "db = sqlite3.connect(':memory:')\ndb.enable_load_extension(True)\n"
        "db.load_extension('/lib/x86_64-linux-gnu/libm.so.6')",
        "read a file by SQL": "sqlite3.connect(':memory:').execute(\"SELECT readfile('/etc/hostname')\")",
    }),
    *_python("files", "SQLite", {
        "attach a file": "sqlite3.connect(':memory:').execute(\"ATTACH '/tmp/awm-hub-escape' AS a\")"
        ".execute('CREATE TABLE a.t (x)')",
        "open a database file": "sqlite3.connect('/tmp/awm-hub-escape').execute('CREATE TABLE t (x)')",
        "write a copy of a database": "sqlite3.connect(':memory:').execute(\"VACUUM INTO '/tmp/awm-hub-escape'\")",
        "write the instance into a file": "db.execute(\"VACUUM INTO '/tmp/awm-hub-escape'\")",
        "choose a folder for temporary files": "sqlite3.connect(':memory:').execute(\"PRAGMA temp_store_directory = "
        "'/tmp'\")",
        "keep temporary tables in files": "c = sqlite3.connect(':memory:')\nc.execute('PRAGMA temp_store = FILE')\n"
        "c.execute('PRAGMA cache_size = 1')\nc.execute('CREATE TEMP TABLE t (x)')\n"
        "c.executemany('INSERT INTO t VALUES (zeroblob(9000))', [()] * 5000)",
    }),
    *_python("files", "not authorized", {
        "load an extension by SQL": "sqlite3.connect(':memory:').execute(\"SELECT load_extension('libm.so.6')\")",
        "attach a file to the instance": "db.execute(\"ATTACH '/tmp/awm-hub-escape' AS a\")",
        "move the instance's temporary files": "db.execute(\"PRAGMA temp_store_directory = '/tmp'\")",
    }),
    *_python("files", "EPERM", {"load a library": "ctypes.CDLL('/etc/hostname')"}),
    *_calls("files", {
        "open": "2, b'/etc/hostname', 0", "openat": "257, -100, b'/etc/hostname', 0",
        "openat2": "437, -100, b'/etc/hostname', bytes(24), 24", "creat": "85, b'/tmp/awm-hub-escape', 0o600",
        "stat": "4, b'/etc/passwd', room", "lstat": "6, b'/etc/passwd', room",
        "statx": "332, -100, b'/etc/passwd', 0, 0xfff, room", "statfs": "137, b'/', room",
        "readlink": "89, b'/proc/self/exe', room, 4096", "getdents64": "217, 0, room, 4096",
        "name_to_handle_at": "303, -100, b'/etc', room, room, 0", "open_by_handle_at": "304, -100, room, 0",
        "memfd_create": "319, b'x', 0", "memfd_secret": "447, 0", "unlink": "87, b'/tmp/awm-hub-victim'",
        "rename": "82, b'/tmp/awm-hub-victim', b'/tmp/awm-hub-escape'", "mkdir": "83, b'/tmp/awm-hub-escape', 0o700",
        "chmod": "90, b'/tmp/awm-hub-victim', 0o777", "chown": "92, b'/tmp/awm-hub-victim', 65534, 65534",
        "link": "86, b'/tmp/awm-hub-victim', b'/tmp/awm-hub-escape'",
        "symlink": "88, b'/etc/passwd', b'/tmp/awm-hub-escape'", "truncate": "76, b'/tmp/awm-hub-victim', 0",
        "mknod": "133, b'/tmp/awm-hub-escape', 0o10600, 0", "utime": "132, b'/tmp/awm-hub-victim', 0",
        "setxattr": "188, b'/tmp/awm-hub-victim', b'user.x', b'x', 1, 0", "chdir": "80, b'/tmp'",
        "inotify_init1": "294, 0", "fanotify_init": "300, 0, 0", "chroot": "161, b'/tmp'",
        "mount": "165, b'none', b'/tmp', b'tmpfs', 0, 0", "umount2": "166, b'/tmp', 0",
        "pivot_root": "155, b'/tmp', b'/tmp'", "open_tree": "428, -100, b'/', 1", "fsopen": "430, b'tmpfs', 0",
        "quotactl": "179, 0, 0, 0, 0", "sendfile": "40, 1, 0, 0, 1", "splice": "275, 0, 0, 1, 0, 1, 0",
        "copy_file_range": "326, 0, 0, 1, 0, 1, 0",
    }),
]  # fmt: skip

NETWORK = [
    *_python("network", "EPERM", {
        "connect by TCP": "socket.create_connection(('127.0.0.1', PORT), 1)\nout = 'connected'",
        "send a datagram": "socket.socket(2, 2).sendto(b'x', ('127.0.0.1', 9))\nout = 'sent'",
        "listen": "s = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nout = 'listening'",
        "make an abstract socket": "s = socket.socket(1)\ns.bind('\\0awm-hub-escape')\nout = 'bound'",
        "make a pair of sockets": "out = len(socket.socketpair())",
    }, process="open"),
    *_python("network", "EPERM", {
        "connect to a unix socket": "socket.socket(1).connect('/run/docker.sock')",
        "ask the kernel by netlink": "socket.socket(16, 3, 0)",
        "send raw packets": "socket.socket(17, 3, 3)",
        "connect to the hypervisor": "socket.socket(40, 1)",
        "connect in asyncio": "asyncio.new_event_loop()",
        "pass a descriptor to the host": "socket.send_fds(_host(), [b'x'], [0])",
        "take a descriptor from the host": "socket.recv_fds(_host(), 1, 1)",
        "connect the host's socket elsewhere": "_host().connect('/run/docker.sock')",
        "cut the host's socket": "_host().shutdown(2)",
        "change the host's socket": "_host().setsockopt(1, 7, 1 << 30)",
        "find the host's socket's peer": "out = _host().getpeername()",
        "ask who is at the other end": "out = _host().getsockopt(1, 17, 12)",
    }),
    *_python("network", "EINVAL", {
        "send out of band": "_host().send(b'x', socket.MSG_OOB)",
        "receive out of band": "_host().recv(1, socket.MSG_OOB | socket.MSG_DONTWAIT)",
    }),
    *_python("network", "no such thing", {
        "look up a name": "socket.getaddrinfo('localhost', 80)",
    }),
    *_calls("network", {
        "socket": "41, 2, 1, 0", "accept4": "288, 3, 0, 0, 0", "bind": "49, 3, room, 16", "listen": "50, 3, 1",
        "sendmsg": "46, 3, room, 0", "recvmsg": "47, 3, room, 0", "sendmmsg": "307, 3, room, 1, 0",
        "recvmmsg": "299, 3, room, 1, 0, 0", "getsockname": "51, 3, room, room", "writev": "20, 3, room, 1",
    }),
]  # fmt: skip

PROCESSES = [
    *_python("processes", "EPERM", {
        "fork": "pid = os.fork()\nif pid == 0:\n    os._exit(0)\nout = os.waitpid(pid, 0)[1]",
        "run a program": "out = subprocess.run(['/bin/true']).returncode",
    }, process="open"),
    *_python("processes", "EPERM", {
        "run a shell": "out = os.popen('id').read()",
        "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
        "replace the program": "os.execv('/bin/true', ['true'])",
    }),
    *_python("processes", "no such thing", {
        "run in a pool": "import concurrent.futures.process\nconcurrent.futures.ProcessPoolExecutor(1).submit(print)",
    }),
    *_calls("processes", {
        "clone": "56, 17, 0, 0, 0, 0", "vfork": "58", "execve": "59, b'/bin/true', 0, 0",
        "execveat": "322, -100, b'/bin/true', 0, 0, 0", "wait4": "61, -1, 0, 1, 0", "waitid": "247, 0, 0, room, 5, 0",
    }),
    *_calls("processes", {"clone3": "435, bytes(88), 88"}, stop="ENOSYS"),
]  # fmt: skip

THREADS = [
    *_python("threads", "no thread", {
        "start a thread": "t = threading.Thread(target=int)\nt.start()\nt.join()\nout = 'ran'",
        "start a bare thread": "import _thread\nout = _thread.start_new_thread(int, ())",
        "run a timer": "t = threading.Timer(0, int)\nt.start()\nt.join()\nout = 'ran'",
    }, process="open"),
    *_python("threads", "no such thing", {
        "run in a pool of threads": "import concurrent.futures\nout = concurrent.futures.ThreadPoolExecutor(1)"
        ".submit(int).result(5)",
    }, process="open"),
    *_calls("threads", {"clone with CLONE_THREAD": "56, 0x50f00, 0, 0, 0, 0"}),
]  # fmt: skip

DEBUGGING = [
    *_python("debugging", "EPERM", {
        "read the parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
        "write own memory past its protection": "open('/proc/self/mem', 'r+b')",
    }),
    *_calls("debugging", {
        "ptrace attach": "101, 16, os.getppid(), 0, 0", "ptrace traceme": "101, 0, 0, 0, 0",
        "process_vm_readv": "310, os.getppid(), room, 1, room, 1, 0",
        "process_vm_writev": "311, os.getppid(), room, 1, room, 1, 0", "kcmp":
        "312, os.getpid(), os.getppid(), 0, 0, 0",
        "pidfd_getfd": "438, 0, 0, 0", "perf_event_open": "298, bytes(128), 0, -1, -1, 0",
        "process_madvise": "440, 0, room, 1, 4, 0", "process_mrelease": "448, 0, 0",
    }),
]  # fmt: skip

SIGNALS = [
    *_python("signals", "EPERM", {
        "see whether the parent can be signalled": "os.kill(os.getppid(), 0)\nout = 'could'",
        "signal itself": "signal.raise_signal(signal.SIGCONT)\nout = 'did'",
    }, process="open"),
    *_python("signals", "EPERM", {
        "kill everything": "os.kill(-1, 9)",
        "kill the process group": "os.killpg(os.getpgid(0), 9)",
        "have a descriptor signal the parent": "_call(72, _host().fileno(), 8, os.getppid())",
        "have a timer start a thread": "_call(222, 0, struct.pack('QII48x', 0, 10, 2), room)",
    }),
    *_python("signals", "ENOTTY", {"have a descriptor signal":
    "_call(16, _host().fileno(), 0x5452, struct.pack('i', 1))"}),
    *_calls("signals", {
        "kill": "62, os.getppid(), 9", "tkill": "200, os.getppid(), 9", "tgkill": "234, os.getppid(), os.getppid(), 9",
        "rt_sigqueueinfo": "129, os.getppid(), 9, room", "pidfd_open": "434, os.getppid(), 0",
        "pidfd_send_signal": "424, 0, 9, 0, 0", "signalfd4": "289, -1, room, 8, 0", "timer_create": "222, 0, 0, room",
        "alarm": "37, 1", "pause": "34",
    }),
]  # fmt: skip

KERNEL = [
    *_calls("io_uring", {
        "io_uring_setup": "425, 1, bytes(200)", "io_uring_enter": "426, 0, 0, 0, 0, 0, 0",
        "io_uring_register": "427, 0, 0, 0, 0", "io_setup": "206, 1, room", "io_submit": "209, 0, 0, 0",
    }),
    *_calls("namespaces", {
        "unshare a user namespace": "272, 0x10000000", "unshare a mount namespace": "272, 0x20000",
        "unshare a network namespace": "272, 0x40000000", "setns": "308, 0, 0",
        "clone into a user namespace": "56, 0x10000011, 0, 0, 0, 0",
    }),
    *_python("host information", "EPERM", {
        "read the parent's environment": "out = open(f'/proc/{os.getppid()}/environ', 'rb').read() or 'empty'",
        "read the parent's command": "out = open(f'/proc/{os.getppid()}/cmdline', 'rb').read()",
        "list processes": "out = [p for p in os.listdir('/proc') if p.isdigit()]",
        "read the machine's id": "out = open('/proc/sys/kernel/random/boot_id').read()",
        "read own memory map": "out = open('/proc/self/maps').read()",
        "read own control group": "out = open('/proc/self/cgroup').read()",
    }, process="open"),
    *_python("host information", "empty", {
        "look for tokens in the environment": "out = [k for k in os.environ if 'TOKEN' in k or 'KEY' in k] or "
        "'nothing'",
        "look for the host's environment in C": "libc.getenv.restype = ctypes.c_char_p\n"
        "out = libc.getenv(b'HOME') or libc.getenv(b'HF_TOKEN') or 'nothing'",
    }, process="held"),
    *_calls("host information", {
        "sysinfo": "99, room", "syslog": "103, 3, room, 4096", "getrlimit": "97, 7, room", "getsid": "124, 0",
        "getpgid": "121, 0", "sched_getaffinity": "204, 0, 128, room", "getcpu": "309, room, room, 0",
        "lookup_dcookie": "212, 0, room, 4096", "capget": "125, room, room",
    }),
    *_calls("privileges", {
        "setuid": "105, 0", "setresuid": "117, 0, 0, 0", "setgid": "106, 0", "setgroups": "116, 0, 0",
        "setfsuid": "122, 0", "capset": "126, room, room", "prctl, another filter": "157, 22, 2, room, 0, 0",
        "prctl, core dumps again": "157, 4, 1, 0, 0, 0", "prctl, outliving the parent": "157, 1, 0, 0, 0, 0",
        "seccomp, another filter": "317, 1, 0, room", "seccomp, strict mode": "317, 0, 0, 0",
        "arch_prctl": "158, 0x1003, room", "personality": "135, 0x0400000", "setrlimit":
        "160, 9, struct.pack('QQ', -1 % 2**64, -1 % 2**64)",
        "prlimit64": "302, 0, 9, struct.pack('QQ', -1 % 2**64, -1 % 2**64), 0", "bpf": "321, 0, room, 48",
        "keyctl": "250, 0, -1, 0, 0, 0", "add_key": "248, b'user', b'x', b'x', 1, -2", "request_key":
        "249, b'user', b'x', 0, 0",
        "userfaultfd": "323, 1", "init_module": "175, room, 1, b''", "finit_module": "313, 0, b'', 0",
        "delete_module": "176, b'x', 0", "kexec_load": "246, 0, 0, 0, 0", "reboot": "169, 0, 0, 0, 0",
        "swapon": "167, b'/dev/null', 0", "sethostname": "170, b'x', 1", "settimeofday": "164, 0, 0",
        "clock_settime": "227, 0, room", "adjtimex": "159, room", "iopl": "172, 3", "ioperm": "173, 0, 1, 1",
        "acct": "163, 0", "landlock_create_ruleset": "444, bytes(8), 8, 0", "landlock_restrict_self": "446, 0, 0",
        "setpriority": "141, 0, 0, -20", "sched_setaffinity": "203, 0, 8, room", "sched_setscheduler":
        "144, 0, 1, room",
        "ioprio_set": "251, 1, 0, 0", "mlockall": "151, 3", "modify_ldt": "154, 0, room, 16", "setsid": "112",
        "setpgid": "109, 0, 0", "umask": "95, 0", "vhangup": "153", "set_mempolicy": "238, 0, 0, 0",
        "move_pages": "279, 0, 0, 0, 0, 0, 0", "pkey_alloc": "330, 0, 0", "lsm_set_self_attr": "460, 0, 0, 0, 0",
    }),
    *_calls("foreign calls", {
        "x32 getpid": "0x40000000 | 39", "x32 execve": "0x40000000 | 520, b'/bin/true', 0, 0",
        "x32 openat": "0x40000000 | 257, -100, b'/etc/hostname', 0", "x32 ptrace": "0x40000000 | 521, 16, 1, 0, 0",
    }, stop="ENOSYS"),
    *_calls("foreign calls", {
        "a number that does not exist": "5000", "the highest number below x32": "0x3fffffff",
        "high bits in the number": "(1 << 32) | 59, b'/bin/true', 0, 0",
    }),
    *_calls("shared memory", {
        "shmget": "29, 0, 4096, 0o1600", "shmat": "30, 0, 0, 0", "shmctl": "31, 0, 14, room", "semget":
        "64, 0, 1, 0o1600",
        "semop": "65, 0, room, 1", "msgget": "68, 0, 0o1600", "msgsnd": "69, 0, room, 1, 0",
        "mq_open": "240, b'awm-hub-escape', 0o102, 0o600, 0", "remap_file_pages": "216, 0, 4096, 0, 0, 0",
        "a POSIX segment": "2, b'/dev/shm/awm-hub-escape', 0o102, 0o600",
    }),
    *_calls("executable memory", {
        "mmap, executable": "9, 0, 4096, 5, 0x22, -1, 0", "mmap, writable and executable": "9, 0, 4096, 7, 0x22, -1, 0",
        "mprotect, executable data": "10, ctypes.addressof(room) & ~4095, 4096, 7",
        "mprotect, writable code": "10, ctypes.cast(libc.getpid, ctypes.c_void_p).value & ~4095, 4096, 7",
    }, stop="EACCES"),
    *_calls("executable memory", {
        "pkey_mprotect": "329, ctypes.addressof(room) & ~4095, 4096, 7, -1", "shmat, executable": "30, 0, 0, 0x8000",
        "personality READ_IMPLIES_EXEC": "135, 0x0400000", "map_shadow_stack": "453, 0, 4096, 0",
    }),
    *_python("executable memory", "death", {
        "jump into data": "room.raw = b'\\xc3' * 4096\nctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(room))()",
    }),
]  # fmt: skip

DESCRIPTORS = [
    *_python("descriptors", "EPERM", {
        "copy ten thousand": "out = len([os.dup(0) for _ in range(10_000)])",
        "write to every descriptor": "for d in range(3, 64):\n    os.write(d, b'x')",
        "open a pipe": "out = len(os.pipe())",
    }),
    *_python("descriptors", "ENOTTY", {
        "type into the host's terminal": "_call(16, 0, 0x5412, b'x')",
        "ask the terminal": "out = os.get_terminal_size(0)",
    }),
    *_python("descriptors", "death", {"close all of them": "os.closerange(0, 1024)\nout = 'closed'"}),
    *_calls("descriptors", {
        "dup": "32, 0", "dup2": "33, 0, 1", "dup3": "292, 0, 1, 0", "fcntl, copy": "72, 0, 0, 100", "pipe2":
        "293, room, 0",
        "eventfd2": "290, 0, 0", "epoll_create1": "291, 0", "epoll_ctl": "233, 4, 1, 0, room", "timerfd_create":
        "283, 0, 0",
        "select": "23, 0, 0, 0, 0, 0", "close_range": "436, 3, 100, 0",
    }),
]  # fmt: skip

LIMITS = [
    *_python("memory", "memory limit", {
        "eight gigabytes at once": "out = len(bytearray(8 << 30))",
        "growing lists": "kept = []\nwhile True:\n    kept.append(bytearray(64 << 20))",
        "a long text": "out = len('x' * (1 << 33))",
        "a wide format": "out = len(format(1, '>' + str(1 << 33)))",
        "a large integer": "out = (1 << (1 << 36)).bit_length()",
    }, process="held"),
    *_calls("memory", {
        "mmap of eight gigabytes": "9, 0, 8 << 30, 3, 0x4022, -1, 0", "mremap to eight gigabytes":
        "25, _call(9, 0, 4096, 3, 0x22, -1, 0), 4096, 8 << 30, 1",
    }, stop="ENOMEM"),
    *_python("memory", "SQLite limit", {
        "a large value": "db.execute('SELECT length(zeroblob(1000000000))').fetchone()",
        "a large value, elsewhere": "sqlite3.connect(':memory:').execute('SELECT hex(zeroblob(900000000))').fetchone()",
    }, process="held"),
    *_python("memory", "database limit", {
        "a growing table": "db.execute('CREATE TABLE more (x)')\n"
        "db.executemany('INSERT INTO more VALUES (zeroblob(1000000))', [()] * 1000)",
    }, process="held"),
    *_python("CPU", "soft deadline", {
        "an endless loop": "while True:\n    pass",
        "waiting": "time.sleep(60)",
        "waiting for a lock": "lock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        "waiting for the host": "_host().recv(1)",
        "a regular expression": "out = re.match(r'(a+)+$', 'a' * 60 + 'b')",
        "a large power": "out = 10 ** (10 ** 9)",
        "an endless coroutine": "async def spin():\n    while True:\n        pass\n"
        "try:\n    spin().send(None)\nexcept StopIteration:\n    pass",
    }, process="held"),
    *_python("CPU", "statement limit", {
        "SQL without end": "db.execute('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT count(*) FROM n').fetchone()",
        "SQL on a connection of its own": "sqlite3.connect(':memory:').execute('WITH RECURSIVE n(i) AS (SELECT 1 "
        "UNION ALL "
        "SELECT i + 1 FROM n) SELECT count(*) FROM n').fetchone()",
        "a cartesian product": "db.execute('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) "
        "SELECT count(*) FROM n a, n b, n c, n d').fetchone()",
    }, process="held"),
    *_python("CPU", "hard deadline", {
        "a loop that catches everything": "while True:\n    try:\n        while True:\n            pass\n"
        "    except BaseException:\n        pass",
        "one long step in C": "out = sum(range(10 ** 13))",
        "one long step in SQL": "db.execute(\"SELECT instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || "
        "'x')\").fetchone()",
        "the alarm turned off": "signal.setitimer(signal.ITIMER_REAL, 0)\nwhile True:\n    pass",
        "the alarm ignored": "signal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True:\n    pass",
        "the alarm handled otherwise": "signal.signal(signal.SIGALRM, lambda *_: None)\nwhile True:\n    pass",
        "the alarm blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\nwhile True:\n    pass",
        "the deadline patched away": "type(_worker()._deadline)._interrupt = lambda *_: None\n"
        "type(_worker()._deadline).is_overdue = lambda _: False\nwhile True:\n    pass",
        "a reset progress handler": "db.set_progress_handler(None, 0)\nsignal.setitimer(signal.ITIMER_REAL, 0)\n"
        "db.execute('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM "
        "n').fetchone()",
    }, process="held"),
    *_python("output", "output limit", {
        "a large result": "raw = 'x' * (1 << 19)",
        "a wide result": "raw = list(range(100_000))",
        "a deep quotation": "raw = '\"' * 200_000",
    }, process="held"),
    *_python("output", "cut", {
        "a long message": "raise Exception('x' * (1 << 26))",
        "a long name": "raise type('E' * (1 << 20), (Exception,), {})('x')",
    }, process="held"),
    *_python("output", "no JSON", {
        "a result in itself": "raw = []\nraw.append(raw)",
        "a result without a JSON form": "raw = object()",
    }, process="held"),
    *_python("output", "exception", {
        "a deep result": "raw = []\nfor _ in range(100_000):\n    raw = [raw]",
    }, process="held"),
    *_python("output", "empty", {
        "printing without end": "for _ in range(2000):\n    sys.stdout.write('x' * 100_000)\n    "
        "sys.stderr.write('x' * 1000)\n"
        "os.write(1, b'x' * 10_000)\nout = 'nothing'",
    }, process="held"),
    *_python("crashes", "death", {
        "leaving": "os._exit(3)", "aborting": "os.abort()", "a bad address": "ctypes.string_at(0)",
        "a broken object": "ctypes.memset(id([]) - 64, 255, 4096)\ngc.collect()\nout = [[] for _ in range(10**5)]",
        "an exception that cannot be shown": "class E(Exception):\n    def __str__(self):\n        raise self\nraise E",
        "a jump to nowhere": "ctypes.CFUNCTYPE(None)(0xdead0000)()",
    }),
    *_python("crashes", "exception", {
        "exiting": "sys.exit(0)", "an interrupt": "raise KeyboardInterrupt", "an exception below all":
        "raise BaseException",
        "a generator's exit": "raise GeneratorExit", "recursion": "def f():\n    f()\nf()",
        "a message that is no Unicode": "raise Exception(chr(0xd800))",
        "a name that is no Unicode": "raise type(chr(0xd800), (Exception,), {})('x')",
    }, process="held"),
]  # fmt: skip

SOCKET = [
    *_python("host socket", "protocol", {
        "garbage": "_host().sendall(b'\\xff' * 4096)\ntime.sleep(60)",
        "an oversized length": "_host().sendall(struct.pack('<I', 2**32 - 1))\ntime.sleep(60)",
        "no map": "_host().sendall(_frame(b'\\x93\\x01\\x02\\x03'))\ntime.sleep(60)",
        "nothing": "_host().sendall(_frame(b''))\ntime.sleep(60)",
        "a forged answer to another request": "_host().sendall(_forged(_asked() + 1))\ntime.sleep(60)",
        "a claim of gigabytes": "_host().sendall(_frame(b'\\x81\\xa2ok\\xc6\\xff\\xff\\xff\\xff'))\ntime.sleep(60)",
        "a claim of a million items in a million items": "_host().sendall(_frame(b'\\xdd\\x00\\x0f\\x42\\x40' * "
        "400))\ntime.sleep(60)",
        "a claim of four billion items":
        "_host().sendall(_frame(b'\\x81\\xa2ok\\xdd\\xff\\xff\\xff\\xff'))\ntime.sleep(60)",
        "many empty lists": "_host().sendall(_frame(b'\\x82\\xa2id\\xcd' + struct.pack('>H', _asked()) + "
        "b'\\xa2ok\\x98'"
        " + (b'\\xdd\\x00\\x0f\\x42\\x40' + b'\\x90' * 10**6) * 8))\ntime.sleep(60)",
        "deep nesting": "_host().sendall(_frame(b'\\x81\\xa2ok' + b'\\x91' * 5000 + b'\\xc0'))\ntime.sleep(60)",
        "keys that cannot be hashed": "_host().sendall(_frame(b'\\x81\\x90\\xc0'))\ntime.sleep(60)",
        "text that is no UTF-8": "_host().sendall(_frame(b'\\x81\\xa2ok\\xa2\\xff\\xff'))\ntime.sleep(60)",
        "a type of its own": "_host().sendall(_frame(b'\\xc7\\x03\\x05abc'))\ntime.sleep(60)",
        "an id of another type": "_host().sendall(_frame(b'\\x82\\xa2id\\xcb' + struct.pack('>d', _asked())"
        " + b'\\xa2ok\\xc3'))\ntime.sleep(60)",
        "an error that is no text": "_host().sendall(_frame(b'\\x82\\xa2id\\xcd' + struct.pack('>H', _asked())"
        " + b'\\xa5error\\x90'))\ntime.sleep(60)",
    }),
    *_python("host socket", "no answer", {
        "a forged answer of a wrong type": "_host().sendall(_forged(_asked()))\ntime.sleep(60)",
    }),
    *_python("host socket", "hard deadline", {
        "half a frame": "signal.setitimer(signal.ITIMER_REAL, 0)\n_host().sendall(struct.pack('<I', 1000) + "
        "b'x')\ntime.sleep(60)",
        "one byte at a time": "signal.setitimer(signal.ITIMER_REAL, 0)\n_host().sendall(struct.pack('<I', 10**6))\n"
        "while True:\n    _host().sendall(b'x')\n    time.sleep(0.01)",
        "stolen requests": "signal.setitimer(signal.ITIMER_REAL, 0)\nwhile True:\n    _host().recv(1 << 20)",
    }),
    *_python("host socket", "death", {"a closed socket": "_host().close()\nout = 1"}),
]  # fmt: skip

ATTACKS = [*FILES, *NETWORK, *PROCESSES, *THREADS, *DEBUGGING, *SIGNALS, *KERNEL, *DESCRIPTORS, *LIMITS, *SOCKET]
"""Every attack that a tool can try by itself."""
