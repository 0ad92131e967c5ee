"""Run as a script: confine this process as told, then become the command.

Arguments: ruleset descriptor, status descriptor, "private" or "host" network, parent's pid, "--", command.
Nothing is ever written to the status descriptor unless the command could not be started; it closes on exec.
A preexec function would do the same inside a fork of a large, threaded process, at a higher cost. The imports
are few because each run of a command pays for them.
"""

from __future__ import annotations

import ctypes
import os
import sys

_RESTRICT_SELF = 446
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_SIGKILL, _CAPABILITIES = 9, 64
_AF_INET, _SOCK_DGRAM = 2, 2
# struct ifreq: the interface's name in 16 bytes, then its flags (up, running).
_SIOCSIFFLAGS, _LOOPBACK_UP = 0x8914, b"lo".ljust(16, b"\0") + (0x41).to_bytes(2, sys.byteorder) + bytes(22)

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _leave_network() -> None:
    uid, gid = os.getuid(), os.getgid()
    _checked(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET), "unshare")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")
    descriptor = _libc.socket(_AF_INET, _SOCK_DGRAM, 0)
    _checked(_libc.ioctl(descriptor, _SIOCSIFFLAGS, _LOOPBACK_UP), "ioctl")
    os.close(descriptor)


def _confine(ruleset: int, network: str, parent: int) -> None:
    if network == "private":
        _leave_network()
    # After unshare, which changes credentials and so clears the parent-death signal.
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        raise OSError(f"process {parent} is gone")
    # Root's capabilities reach past Landlock, into /proc/<pid>/environ. Fails for those who have none.
    for capability in range(_CAPABILITIES):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _main(arguments: list[str]) -> None:
    ruleset, status, network, parent, _, *command = arguments
    os.set_inheritable(int(status), False)
    try:
        _confine(int(ruleset), network, int(parent))
        os.execv(command[0], command)
    except OSError as error:
        os.write(int(status), str(error).encode())
        sys.exit(126)


if __name__ == "__main__":
    _main(sys.argv[1:])
