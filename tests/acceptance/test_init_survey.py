"""`sf init` as a newcomer runs it: deep by default, `--quick`, again, interrupted."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sf.survey import findings
from tests.support.repository import Repository
from tests.support.stage import run_sf

FILES: dict[str, str | bytes] = {
    "pyproject.toml": """
[project]
name = "shop"
dependencies = ["click>=8"]
scripts = {shop = "shop.cli:main"}
""",
    "src/shop/__init__.py": "",
    "src/shop/cli.py": "from shop.cart import Cart\n\n\ndef main() -> None:\n    Cart()\n",
    "src/shop/cart.py": "class Cart:\n    pass\n",
    "src/shop/tax.py": "from shop import cart\n\n\ndef rate() -> int:\n    return 1\n",
    "tests/test_cart.py": "import pytest\nfrom shop.cart import Cart\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    """A small project with some history."""
    repository = Repository(tmp_path / "checkout")
    repository.commit(FILES, "Open the shop")
    for number in range(4):
        change: dict[str, str | bytes] = {
            name: f"{FILES[name]!s}# {number}\n" for name in ("src/shop/cart.py", "tests/test_cart.py")
        }
        repository.commit(change, f"Mend the cart {number}", author="Bob Builder")
    return repository


@pytest.mark.conforms("K-07")
def test_init_scans_by_default_and_says_what_it_found(shop: Repository, tmp_path: Path) -> None:
    done = run_sf(shop.root, tmp_path / "home", "init")
    assert done.returncode == 0, done.stderr
    for part in (
        "scanning:  6 files",
        "shop: 6 files",
        "Python 100 %",
        "shop → shop.cli:main (pyproject.toml)",
        "test: python3 -m pytest -q",
        "src/shop/cart.py (3 importers): Cart",
        "5 commits by 2 names",
        "Bob Builder (4)",
        "src/shop/cart.py + tests/test_cart.py (5×, 100%)",
        "sf doctor",
    ):
        assert part in done.stdout, done.stdout
    assert "example.invalid" not in done.stdout
    kept = findings.kept(shop.root / ".sf" / "survey.json")
    assert kept is not None
    assert kept.head == shop.git("rev-parse", "HEAD").decode().strip()
    assert any(note.kind == "co_change" for note in kept.notes())
    assert shop.git("status", "--porcelain", "--untracked-files=all", "--", ".sf/survey.json") == b""
    assert "# Languages: Python" in (shop.root / ".sf" / "config.toml").read_text()


@pytest.mark.conforms("K-07")
def test_quick_skips_the_scan(shop: Repository, tmp_path: Path) -> None:
    done = run_sf(shop.root, tmp_path / "home", "init", "--quick")
    assert done.returncode == 0
    assert "scanning" not in done.stdout
    assert "tests:     python3 -m pytest -q" in done.stdout
    assert not (shop.root / ".sf" / "survey.json").exists()
    assert (
        json.loads(run_sf(shop.root, tmp_path / "home", "init", "--quick", "--json").stdout)["survey"] is None
    )


def test_quick_does_not_import_the_scan(shop: Repository, tmp_path: Path) -> None:
    code = (
        "import sys; from sf.surfaces.cli.main import run; assert run(['init', '--quick']) == 0;"
        " loaded = [name for name in sys.modules if 'tree_sitter' in name or name == 'sf.survey.scan'];"
        " sys.exit(str(loaded) if loaded else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=shop.root,
        env={**os.environ, "SF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_init_again_scans_anew_and_changes_nothing_else(shop: Repository, tmp_path: Path) -> None:
    assert run_sf(shop.root, tmp_path / "home", "init").returncode == 0
    before = (shop.root / ".sf" / "config.toml").read_bytes()
    first = (shop.root / ".sf" / "survey.json").read_bytes()
    assert run_sf(shop.root, tmp_path / "home", "init").returncode == 0
    assert (shop.root / ".sf" / "survey.json").read_bytes() == first
    shop.commit({"src/shop/new.go": "package shop\n\nfunc New() {}\n"}, "Go")
    answer = json.loads(run_sf(shop.root, tmp_path / "home", "init", "--json").stdout)
    assert answer["written"] == []
    assert [share["language"] for share in answer["survey"]["languages"]] == ["Python", "Go", "TOML"]
    kept = findings.kept(shop.root / ".sf" / "survey.json")
    assert kept is not None
    assert kept.head == answer["survey"]["head"]
    assert (shop.root / ".sf" / "config.toml").read_bytes() == before


def test_headless_tells_progress_and_ends_with_the_findings(shop: Repository, tmp_path: Path) -> None:
    done = run_sf(shop.root, tmp_path / "home", "headless", "init")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0] == {"event": "scan", "done": 0, "total": 6}
    assert events[-1]["event"] == "result"
    assert events[-1]["data"]["survey"]["project"] == "shop"


def test_an_empty_repository_is_ready_at_once(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "empty")
    done = run_sf(repository.root, tmp_path / "home", "init")
    assert done.returncode == 0
    assert "scanning" not in done.stdout
    assert "0 files" not in done.stdout


def test_a_terminal_sees_one_row_that_goes_away(shop: Repository, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sf", "init"],
        cwd=shop.root,
        env={**os.environ, "SF_HOME": str(tmp_path / "home"), "TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    try:
        while select.select([master], [], [], 60)[0]:
            try:
                chunk = os.read(master, 4096)
            except OSError:
                break
            if not chunk:
                break
            shown += chunk
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    row, _, rest = shown.partition(b"\r\x1b[K\r\n")
    assert b"\r\x1b[Kscanning:  6 files" in row
    assert b"shop: 6 files" in rest
    assert b"scanning" not in rest


def _workers_of(pid: int) -> list[int]:
    """The live processes whose parent is this one."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:
            continue
        state, parent = text.rpartition(") ")[2].split()[:2]
        if int(parent) == pid and state != "Z":
            found.append(int(status.parent.name))
    return found


def test_an_interrupted_scan_leaves_a_project_that_works(shop: Repository, tmp_path: Path) -> None:
    endless: dict[str, str | bytes] = {f"e{n}.py": "x = " + "(" * 400_000 for n in range(6)}
    shop.commit(endless, "Hold it up")
    process = subprocess.Popen(
        [sys.executable, "-m", "sf", "init"],
        cwd=shop.root,
        env={**os.environ, "SF_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 30
        while not (workers := _workers_of(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        workers = _workers_of(process.pid) or workers
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, out + err
    assert "no scan:   interrupted; all else is set up" in out
    assert "Traceback" not in out + err
    assert workers
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert not (shop.root / ".sf" / "survey.json").exists()
    assert run_sf(shop.root, tmp_path / "home", "status").returncode == 0
    checked = run_sf(shop.root, tmp_path / "home", "config", "check")
    assert checked.returncode == 0, checked.stderr


def test_findings_that_came_with_the_repository_are_refused(shop: Repository, tmp_path: Path) -> None:
    shop.write({".sf/survey.json": "{}"})
    shop.git("add", "-f", ".sf/survey.json")
    done = run_sf(shop.root, tmp_path / "home", "init")
    assert done.returncode == 2
    assert "unsafe_config" in done.stderr


@pytest.mark.parametrize(("manifest", "told"), [('{"dependencies": {"dep": "1"}}', True), ("{}", False)])
def test_init_says_that_what_git_ignores_is_not_where_gates_run(
    tmp_path: Path, manifest: str, told: bool
) -> None:
    repository = Repository(tmp_path / "web")
    repository.commit({"package.json": manifest})
    done = run_sf(repository.root, tmp_path / "home", "init", "--quick")
    assert done.returncode == 0, done.stderr
    assert ("package.json has installed; install it with the hook after_create" in done.stdout) is told
    assert ('# after_create = "npm ci"' in (repository.root / ".sf/config.toml").read_text()) is told
    assert "after_create" not in run_sf(repository.root, tmp_path / "home", "init", "--quick").stdout
    assert run_sf(repository.root, tmp_path / "home", "config", "check").returncode == 0
