"""The denylist: one function per program, from its arguments to the reason why they are refused."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from sf.policy._shell_words import Word

_PRIVILEGE = "it changes privileges; do it with the rights that you have"
_POWER = "it would stop the machine"
_SYSTEM = "it changes the machine, not the workspace"
_ESCAPE = "it would outlive this command; run it in the foreground, or in the background with & only"
FORBIDDEN: dict[str, str] = {
    **dict.fromkeys(("sudo", "su", "doas", "pkexec", "runuser", "sudoedit", "visudo", "run0"), _PRIVILEGE),
    **dict.fromkeys(("setpriv", "capsh", "chroot", "nsenter", "unshare", "newgrp", "sg"), _PRIVILEGE),
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff", "init", "telinit", "kexec"), _POWER),
    **dict.fromkeys(("fdisk", "sfdisk", "parted", "wipefs", "blkdiscard", "mkswap", "swapoff"), _SYSTEM),
    **dict.fromkeys(("mount", "umount", "insmod", "rmmod", "modprobe", "systemctl", "useradd"), _SYSTEM),
    **dict.fromkeys(("usermod", "userdel", "passwd", "chpasswd", "iptables", "nft", "sysctl"), _SYSTEM),
    **dict.fromkeys(("nohup", "setsid", "disown", "crontab", "at", "batch", "systemd-run"), _ESCAPE),
    **dict.fromkeys(("tmux", "screen", "daemonize", "start-stop-daemon", "dtach", "abduco"), _ESCAPE),
}
_SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "root", "run", "sbin", "srv", "sys"}
    | {"tmp", "usr", "var", "Users", "System", "Library"}
)
_SAFE_DEVICES = re.compile(
    r"/dev/(null|zero|full|random|urandom|tty|stdin|stdout|stderr|fd/\d+|shm/.+|pts/\d+)"
)
_HOME = re.compile(r"~[\w-]*|\$HOME|\$\{HOME\}")
_EMPTY_VARIABLE = re.compile(r"\$(\w+|\{\w+\})/+\*?")
_GIT_TAKES_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path"}
)
_GIT_ALIAS = re.compile(r"(alias\.|core\.(hookspath|sshcommand|fsmonitor|pager|editor)\b)", re.IGNORECASE)


def refusal(name: str, arguments: Sequence[Word]) -> str:
    """Why this program with these arguments is refused, or nothing."""
    if name in FORBIDDEN:
        return FORBIDDEN[name]
    if name == "mkfs" or name.startswith("mkfs."):
        return _SYSTEM
    rule = _RULES.get(name)
    return rule(arguments) if rule is not None else ""


def device_refusal(target: str) -> str:
    """Why nothing may be written to this path, or nothing."""
    path = posixpath.normpath(target) if target else ""
    path = path[1:] if path.startswith("//") else path
    if path.startswith("/dev/") and not _SAFE_DEVICES.fullmatch(path):
        return f"it writes to the device {path}"
    return ""


def vital(word: Word) -> str:
    """Why a recursive change may not start at this path, or nothing."""
    text = word.text
    bare = text[:-1] if word.pattern and text.endswith("/*") else text
    if _HOME.fullmatch(bare.rstrip("/") or "/") and not word.raw.startswith(("'", "\\")):
        return "it names the whole home folder"
    if _EMPTY_VARIABLE.fullmatch(text) and not word.literal:
        return f"with an empty variable {text} is the root folder; write ${{NAME:?}} or the path itself"
    path = posixpath.normpath(bare) if bare else ""
    parts = [part for part in path.split("/") if part]
    if path.startswith("/") and (not parts or (len(parts) == 1 and _system_folder(parts[0]))):
        return f"it names {path.replace('//', '/')}, a folder of the system"
    return ""


def _system_folder(name: str) -> bool:
    return name in _SYSTEM_FOLDERS or any(char in name for char in "*?[{")


def _options(arguments: Sequence[Word]) -> tuple[set[str], list[Word]]:
    """Options, with clustered letters taken apart, and operands."""
    options: set[str] = set()
    operands: list[Word] = []
    for position, word in enumerate(arguments):
        if word.text == "--":
            operands += arguments[position + 1 :]
            break
        if word.text.startswith("--"):
            options.add(word.text.partition("=")[0])
        elif word.text.startswith("-") and len(word.text) > 1:
            options |= {f"-{letter}" for letter in word.text[1:]}
        else:
            operands.append(word)
    return options, operands


def _recursive(options: set[str]) -> bool:
    # GNU tools accept any unambiguous beginning of a long option.
    return bool(options & {"-r", "-R"}) or any(
        o.startswith("--r") and "--recursive".startswith(o) for o in options
    )


def _rm(arguments: Sequence[Word]) -> str:
    options, operands = _options(arguments)
    if any(option.startswith("--no-p") for option in options):
        return "it asks to remove the root folder"
    if not _recursive(options):
        return ""
    for word in operands:
        if ".git" in word.text.rstrip("/*").split("/"):
            return "it removes the repository's own .git"
        if reason := vital(word):
            return reason
    return ""


def _chmod(arguments: Sequence[Word]) -> str:
    options, operands = _options(arguments)
    return next(filter(None, map(vital, operands)), "") if _recursive(options) else ""


def _find(arguments: Sequence[Word]) -> str:
    texts = {word.text for word in arguments}
    if not texts & {"-delete", "-exec", "-execdir"}:
        return ""
    removes = "-delete" in texts or texts & {"rm", "shred", "unlink", "/bin/rm", "chmod", "chown"}
    starts = [word for word in arguments if not word.text.startswith("-")][:1]
    return vital(starts[0]) if removes and starts else ""


def _dd(arguments: Sequence[Word]) -> str:
    targets = [word.text[3:] for word in arguments if word.text.startswith("of=")]
    return next(filter(None, map(device_refusal, targets)), "")


def _writer(arguments: Sequence[Word]) -> str:
    return next(filter(None, (device_refusal(word.text) for word in arguments)), "")


def _copier(arguments: Sequence[Word]) -> str:
    return _writer(arguments[-1:])


def _kill(arguments: Sequence[Word]) -> str:
    texts = [word.text for word in arguments]
    if texts[:1] and texts[0] in ("-s", "-n", "--signal"):
        texts = texts[2:]
    elif texts[:1] and texts[0].startswith("-") and texts[0] != "--":
        texts = texts[1:]
    if {"1", "-1", "-0", "01", "-01"} & set(texts):
        return "it signals every process or the first one; name the process that you started"
    return ""


def _git(arguments: Sequence[Word]) -> str:
    rest = list(arguments)
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        value = rest.pop(0).text if option in _GIT_TAKES_VALUE and rest else option.partition("=")[2]
        if option.startswith(("-c", "--config-env")) and _GIT_ALIAS.match(value or option[2:]):
            return "it makes git run another program; run that program itself"
    if not rest:
        return ""
    if not rest[0].literal:
        return "the git command is not literal; write it out"
    command, texts = rest[0].text, [word.text for word in rest[1:]]
    if command in ("push", "send-pack", "http-push", "send-email", "svn", "p4"):
        return "sf publishes the work itself when it is done; leave the commits in the workspace"
    if command == "remote" and {"add", "set-url", "rename"} & set(texts[:2]):
        return "the repository's remotes are the user's"
    if command == "config":
        return _git_config(texts)
    return ""


def _git_config(texts: list[str]) -> str:
    if any(text.startswith(("--gl", "--sy")) for text in texts):
        return "it touches the user's own git configuration; use git config without --global"
    if any(_GIT_ALIAS.match(text) for text in texts):
        return "it makes git run another program"
    return ""


_Rule = Callable[[Sequence[Word]], str]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("rm", "grm"), _rm),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl", "chattr"), _chmod),
    **dict.fromkeys(("tee", "shred", "truncate", "sponge"), _writer),
    **dict.fromkeys(("cp", "mv", "install", "rsync"), _copier),
    **{"find": _find, "dd": _dd, "kill": _kill, "git": _git},
}
