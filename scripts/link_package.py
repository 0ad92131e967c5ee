"""Put this checkout's commands into the environment that runs this script, without fetching a build tool.

`pip install .` works as usual; this is for `make`, which must not depend on a build backend that the
runtime lock does not hold.
"""

from __future__ import annotations

import compileall
import site
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {"sf": "sf", "singularity-memory": "singularity_memory"}
LAUNCHER = """#!{python}
import sys
from {package}.__main__ import main
sys.exit(main())
"""


def main() -> None:
    """Write the path file and the launchers, and compile the sources once."""
    packages = Path(site.getsitepackages()[0])
    (packages / "sf-checkout.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")
    for command, package in COMMANDS.items():
        launcher = Path(sys.executable).parent / command
        launcher.write_text(LAUNCHER.format(python=sys.executable, package=package), encoding="utf-8")
        launcher.chmod(0o755)
    compileall.compile_dir(ROOT / "src", quiet=1)


if __name__ == "__main__":
    main()
