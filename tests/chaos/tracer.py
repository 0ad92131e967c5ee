"""Run a command and count, across all its processes and threads, the calls that change a folder.

At the chosen one it kills, tears or refuses. strace can inject too, but counts for each thread alone; here
the N-th call is the N-th of the whole tree, so a sweep over N meets every boundary and ends.

    python tracer.py '{"within": "...", "report": "...", "at": 7, "act": "kill-all"}' command…
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

Act = Literal["none", "kill-all", "kill-main", "kill-one", "tear", "fail"]
Kind = Literal["durable", "descriptors", "locks"]
Command = Sequence[str] | Callable[[], int]

# x86_64 numbers. By which argument the place is known: a descriptor, a path, or a folder's descriptor + path.
_BY_FD = {
    1: "write",
    18: "pwrite64",
    20: "writev",
    74: "fsync",
    75: "fdatasync",
    77: "ftruncate",
    306: "syncfs",
}
_BY_OUT_FD = {40: "sendfile"}
_LOCKING = {72: "fcntl"}
_BY_PATH = {82: "rename", 83: "mkdir", 84: "rmdir", 85: "creat", 86: "link", 87: "unlink", 88: "symlink"}
_BY_AT = {257: "openat", 258: "mkdirat", 263: "unlinkat", 264: "renameat", 265: "linkat", 316: "renameat2"}
_BY_TARGET = {266: "symlinkat"}
_ANYWHERE = {293: "pipe2", 41: "socket", 53: "socketpair", 291: "epoll_create1"}
_NAMES = {**_BY_FD, **_BY_OUT_FD, **_BY_PATH, **_BY_AT, **_BY_TARGET, **_ANYWHERE, **_LOCKING}
_OPENAT = 257
_WRITES = (1, 18)
SYNCS = ("fsync", "fdatasync", "syncfs")
_SETLK = (6, 7, 37, 38)
_UNLOCK = 2
_CHANGING = os.O_CREAT | os.O_TRUNC

_CONT, _SYSCALL, _GETREGS, _SETREGS = 7, 24, 12, 13
_SEIZE, _LISTEN, _GET_SYSCALL_INFO = 0x4206, 0x4208, 0x420E
# sysgood, fork, vfork, clone, exec, seccomp, and death of all when this process dies.
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000
_EVENT_EXEC, _EVENT_SECCOMP, _EVENT_STOP = 4, 7, 128
_WALL = 0x40000000
_ORIG_RAX, _RAX, _RDX, _REGS = 15, 10, 12, 27
_AUDIT_ARCH_X86_64 = 0xC000003E

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
_libc.process_vm_readv.restype = ctypes.c_ssize_t
_libc.process_vm_readv.argtypes = [
    *(ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)
]

# A run stops for the tracer thousands of times: what a stop is read into is there already.
_PAGE = 4096
_CALL = struct.Struct("<7Q")
_INFO = ctypes.create_string_buffer(128)
_INFO_AT = ctypes.addressof(_INFO)
_MEMORY = ctypes.create_string_buffer(_PAGE)
_HERE = (ctypes.c_size_t * 2)(ctypes.addressof(_MEMORY), _PAGE)
_THERE = (ctypes.c_size_t * 2)()
_HERE_AT, _THERE_AT = ctypes.addressof(_HERE), ctypes.addressof(_THERE)


class Order(msgspec.Struct, frozen=True):
    """What to count, and what to do at which call; the rest narrows what is counted."""

    within: str
    report: str
    at: int = 0
    act: Act = "none"
    error: str = "ENOSPC"
    lasting: bool = False
    kind: Kind = "durable"
    calls: tuple[str, ...] = ()
    program: str = ""
    spared: tuple[str, ...] = ()
    """Programs that are left alone."""
    place: str = ""
    timeout: int = 60
    journal: str = ""
    """Where to keep what a journaling file system would bring back; then `at` counts the commits of rows."""


class Boundary(msgspec.Struct, frozen=True):
    """One call that was counted: who made it, which, and where."""

    number: int
    program: str
    call: str
    place: str


class Report(msgspec.Struct, frozen=True):
    """What was counted, and how the command ended; a signal is a negative code."""

    boundaries: list[Boundary]
    code: int
    acted: bool
    timed_out: bool


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    result = int(_libc.ptrace(request, pid, address, data))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")
    return result


def _instructions(numbers: Sequence[int], opens: int) -> Iterator[bytes]:
    """A filter that hands exactly these calls to the tracer, and openat with one of the flags in `opens`."""
    load, equal, common, answer = 0x20, 0x15, 0x45, 0x06
    allow, trace, third_argument = 0x7FFF0000, 0x7FF00000, 32
    yield struct.pack("HBBI", load, 0, 0, 4)
    yield struct.pack("HBBI", equal, 1, 0, _AUDIT_ARCH_X86_64)
    yield struct.pack("HBBI", answer, 0, 0, allow)
    yield struct.pack("HBBI", load, 0, 0, 0)
    for index, number in enumerate(numbers):
        yield struct.pack("HBBI", equal, len(numbers) - index + 3, 0, number)
    yield struct.pack("HBBI", equal, 0, 2, _OPENAT)
    yield struct.pack("HBBI", load, 0, 0, third_argument)
    yield struct.pack("HBBI", common, 1, 0, opens)
    yield struct.pack("HBBI", answer, 0, 0, allow)
    yield struct.pack("HBBI", answer, 0, 0, trace)


def _install_filter(numbers: Sequence[int], opens: int) -> None:
    code = b"".join(_instructions(numbers, opens))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    if _libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        _libc.prctl(38, 1, 0, 0, 0)
        if _libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
            os._exit(126)


class Tracer:
    """Follows one command and everything it starts."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._within = order.within.rstrip("/")
        self._boundaries: list[Boundary] = []
        self._known: set[int] = set()
        self._programs: dict[int, str] = {}
        self._acted = False
        self._tearing = 0
        self._timed_out = False
        self._main = 0
        self._code = -signal.SIGKILL

    def run(self, command: Command) -> Report:
        """Run the command, or the function in a fork, to the end of its last process."""
        self._main = self._start(command)
        signal.signal(signal.SIGALRM, self._overdue)
        signal.alarm(self._order.timeout)
        while True:
            try:
                pid, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                break
            self._heed(pid, status)
        signal.alarm(0)
        return Report(self._boundaries, self._code, self._acted, self._timed_out)

    def _start(self, command: Command) -> int:
        durable = {**_BY_FD, **_BY_OUT_FD, **_BY_PATH, **_BY_AT, **_BY_TARGET}
        counted = {
            "durable": durable.keys() - {_OPENAT},
            "descriptors": {*_ANYWHERE, _OPENAT},
            "locks": _LOCKING.keys(),
        }[self._order.kind]
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(writer)
            os.read(reader, 1)
            os.close(reader)
            _install_filter(sorted(counted), _CHANGING)
            if callable(command):
                sys.exit(command())
            os.execvp(command[0], list(command))
        os.close(reader)
        try:
            _ptrace(_SEIZE, pid, 0, _OPTIONS)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            raise
        self._known.add(pid)
        os.close(writer)
        return pid

    def _overdue(self, number: int, frame: object) -> None:
        self._timed_out = True
        self._kill_all()

    def _kill_all(self) -> None:
        for pid in self._known:
            _kill(pid)

    def _heed(self, pid: int, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self._known.discard(pid)
            self._programs.pop(pid, None)
            if pid == self._main:
                self._code = os.waitstatus_to_exitcode(status)
            return
        self._known.add(pid)
        event, number = status >> 16, os.WSTOPSIG(status)
        try:
            if event == _EVENT_SECCOMP:
                self._called(pid)
            elif event == _EVENT_EXEC:
                self._programs.clear()
                _ptrace(_CONT, pid)
            elif event == _EVENT_STOP and number in (signal.SIGSTOP, signal.SIGTSTP):
                _ptrace(_LISTEN, pid)
            elif number == signal.SIGTRAP | 0x80:
                self._returned(pid)
            else:
                _ptrace(_CONT, pid, 0, 0 if event else number)
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise

    def _returned(self, pid: int) -> None:
        if pid == self._tearing:
            self._kill_all()
            return
        _ptrace(_CONT, pid)

    def _called(self, pid: int) -> None:
        if self._acted and not self._order.lasting:
            # The blow is dealt: what follows is nobody's concern, and looking takes its time.
            _ptrace(_CONT, pid)
            return
        _ptrace(_GET_SYSCALL_INFO, pid, 128, _INFO_AT)
        number, *arguments = _CALL.unpack_from(_INFO, 24)
        place = _place(pid, number, arguments, self._order.kind)
        if place is None or not self._inside(number, place):
            _ptrace(_CONT, pid)
            return
        program = self._programs.get(pid) or self._programs.setdefault(pid, _program(pid))
        if not self._counts(number, place, program):
            _ptrace(_CONT, pid)
            return
        self._boundaries.append(
            Boundary(len(self._boundaries) + 1, program, _NAMES[number], place[len(self._within) :])
        )
        if self._is_due():
            self._act(pid, number)
        else:
            _ptrace(_CONT, pid)

    def _is_due(self) -> bool:
        """Whether the call that was counted last is the one to act at."""
        count, at = len(self._boundaries), self._order.at
        return at > 0 and (count == at or (self._order.lasting and count > at))

    def _inside(self, number: int, place: str) -> bool:
        return number in _ANYWHERE or place == self._within or place.startswith(self._within + "/")

    def _counts(self, number: int, place: str, program: str) -> bool:
        order = self._order
        called = not order.calls or _NAMES[number] in order.calls
        struck = program.startswith(order.program) and program not in order.spared
        return called and struck and order.place in place

    def _act(self, pid: int, number: int) -> None:
        self._acted = True
        act = self._order.act
        if act == "kill-all" or (act == "tear" and number not in _WRITES):
            self._kill_all()
        elif act == "tear":
            registers = _registers(pid)
            registers[_RDX] //= 2
            _set_registers(pid, registers)
            self._tearing = pid
            _ptrace(_SYSCALL, pid)
        elif act == "fail":
            registers = _registers(pid)
            registers[_ORIG_RAX] = (1 << 64) - 1
            registers[_RAX] = (1 << 64) - int(getattr(errno, self._order.error))
            _set_registers(pid, registers)
            _ptrace(_CONT, pid)
        else:
            victim = self._main if act == "kill-main" else pid
            _kill(victim)
            _ptrace(_CONT, pid)


class JournalTracer(Tracer):
    """Acts once the rows of the `at`-th commit are on the disk, and keeps what else is by then.

    File systems with a journal bring names back as they were at some sync. One of a whole file takes every
    name before it along; one of rows alone, written where rows were before, need not.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._commits = 0
        self._unkept = False

    def _is_due(self) -> bool:
        *before, met = self._boundaries
        if self._unkept and met.call not in SYNCS:
            # The sync before this call was carried out by now, and the call itself was not.
            subprocess.run(["rm", "-rf", self._order.journal], check=True)
            subprocess.run(["cp", "-a", self._within, self._order.journal], check=True)
            self._unkept = False
        if met.call in SYNCS and not is_of_rows(met):
            self._unkept = True
        self._commits += bool(before) and is_of_rows(before[-1])
        return self._order.at > 0 and self._commits == self._order.at and not self._acted


def is_of_rows(met: Boundary) -> bool:
    """Whether a call is the sync of rows that are committed, and of nothing else."""
    return met.call in SYNCS and met.place.endswith("-wal")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _registers(pid: int) -> list[int]:
    buffer = ctypes.create_string_buffer(8 * _REGS)
    _ptrace(_GETREGS, pid, 0, ctypes.addressof(buffer))
    return list(struct.unpack(f"<{_REGS}Q", buffer.raw))


def _set_registers(pid: int, registers: Sequence[int]) -> None:
    buffer = ctypes.create_string_buffer(struct.pack(f"<{_REGS}Q", *registers), 8 * _REGS)
    _ptrace(_SETREGS, pid, 0, ctypes.addressof(buffer))


def _place(pid: int, number: int, arguments: Sequence[int], kind: Kind) -> str | None:
    """The absolute path that a call is about, or None when it changes nothing."""
    if number in _ANYWHERE:
        return ""
    if number == _OPENAT and (kind == "locks" or (kind == "durable" and not arguments[2] & _CHANGING)):
        return None
    try:
        if number in _LOCKING and not _takes_lock(pid, arguments):
            return None
        if number in _BY_FD or number in _BY_OUT_FD or number in _LOCKING:
            return os.readlink(f"/proc/{pid}/fd/{arguments[0]}")  # noqa: PTH115 - thousands of times a run
        if number in _BY_PATH:
            position = 1 if number == 88 else 0
            return _resolved(pid, -100, _text(pid, arguments[position]))
        if number in _BY_TARGET:
            return _resolved(pid, arguments[1], _text(pid, arguments[2]))
        return _resolved(pid, arguments[0], _text(pid, arguments[1]))
    except OSError:
        return None


def _resolved(pid: int, folder: int, path: str) -> str:
    if not path.startswith("/"):
        descriptor = ctypes.c_int(folder & 0xFFFFFFFF).value
        base = f"/proc/{pid}/cwd" if descriptor == -100 else f"/proc/{pid}/fd/{descriptor}"
        path = f"{os.readlink(base)}/{path}"  # noqa: PTH115 - thousands of times a run
    return os.path.normpath(path)


def _takes_lock(pid: int, arguments: Sequence[int]) -> bool:
    """Whether a call of fcntl asks for a lock, and does not give one back."""
    return arguments[1] in _SETLK and int.from_bytes(_read(pid, arguments[2], 2), "little") != _UNLOCK


def _text(pid: int, address: int) -> str:
    found = b""
    while b"\0" not in found and len(found) < _PAGE:
        start = address + len(found)
        # A page at most: the next one may not be there.
        found += _read(pid, start, _PAGE - start % _PAGE)
    return os.fsdecode(found.split(b"\0", 1)[0])


def _read(pid: int, address: int, size: int) -> bytes:
    """What a stopped process has in its memory."""
    _THERE[0], _THERE[1] = address, size
    count = _libc.process_vm_readv(pid, _HERE_AT, 1, _THERE_AT, 1, 0)
    if count <= 0:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    return _MEMORY.raw[:count]


def _program(pid: int) -> str:
    try:
        parts = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "?"
    name = os.fsdecode(parts[0]).rpartition("/")[2]
    if name != "git":
        return name
    words = [os.fsdecode(part) for part in parts[1:]]
    plain = [w for i, w in enumerate(words) if not w.startswith("-") and (i == 0 or words[i - 1] != "-c")]
    return f"git {plain[0]}" if plain else name


def trace(order: Order, command: Command) -> int:
    """Trace as ordered; the command's exit code, 128 + the signal when it was killed."""
    tracer = JournalTracer(order) if order.journal else Tracer(order)
    report = tracer.run(command)
    Path(order.report).write_bytes(msgspec.json.encode(report))
    return report.code if report.code >= 0 else 128 - report.code


if __name__ == "__main__":
    sys.exit(trace(msgspec.json.decode(sys.argv[1], type=Order), sys.argv[2:]))
