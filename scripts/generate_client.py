"""Write the memory client from the server's OpenAPI document: the messages by datamodel-code-generator, one
method for each operation, both in the project's format.

`--check` writes nothing; it says whether the client is stale.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from datamodel_code_generator import InputFileType, LiteralType, PythonVersion, generate
from datamodel_code_generator.enums import DataModelType
from datamodel_code_generator.format import Formatter

from singularity_memory.server import openapi

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "src" / "singularity_memory" / "client"
_MESSAGES = '"""The messages, made from the server\'s document by `make generate`: not to be edited."""'
_OPERATIONS = '''"""The operations, made from the server's document by `make generate`: not to be edited."""

from __future__ import annotations

from singularity_memory.client.connection import Connection
from singularity_memory.client.models import (
{imports}
)


class Client(Connection):
    """Asks a memory server: one method for each of its operations."""
'''
_METHOD = '''
    async def {name}(self{parameter}, *, seconds: float | None = None) -> {reply}:
        """{summary}"""
        return await self.ask({method!r}, {path!r}, {argument}, {reply}, seconds)
'''


def files() -> dict[Path, str]:
    """What the generated files must contain."""
    document = openapi.document()
    made = {CLIENT / "models.py": _messages(), CLIENT / "operations.py": _operations(document)}
    return {path: _formatted(text, path) for path, text in made.items()}


def _messages() -> str:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "models.py"
        generate(
            openapi.encoded().decode(),
            input_file_type=InputFileType.OpenAPI,
            output=written,
            output_model_type=DataModelType.MsgspecStruct,
            target_python_version=PythonVersion.PY_311,
            base_class="singularity_memory.client.message.Message",
            use_schema_description=True,
            use_single_line_docstring=True,
            use_union_operator=True,
            use_double_quotes=True,
            enum_field_as_literal=LiteralType.All,
            keep_model_order=True,
            custom_file_header=_MESSAGES,
            formatters=[Formatter.BUILTIN],
        )
        return written.read_text(encoding="utf-8").replace("(Message):", "(Message, frozen=True):")


def _operations(document: dict[str, Any]) -> str:
    methods: list[str] = []
    imported: set[str] = set()
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            reply = _named(operation["responses"]["200"])
            request = _named(operation["requestBody"]) if "requestBody" in operation else ""
            imported |= {reply, request} - {""}
            methods.append(
                _METHOD.format(
                    name=operation["operationId"],
                    parameter=f", request: {request}" if request else "",
                    argument="request" if request else "None",
                    reply=reply,
                    summary=operation["summary"],
                    method=verb.upper(),
                    path=path,
                )
            )
    imports = "\n".join(f"    {name}," for name in sorted(imported))
    return _OPERATIONS.format(imports=imports) + "".join(methods)


def _named(content: dict[str, Any]) -> str:
    reference: str = content["content"]["application/json"]["schema"]["$ref"]
    return reference.rpartition("/")[2]


def _formatted(text: str, path: Path) -> str:
    """As `make format` would leave it, so that a check of the format and a check of the content agree."""
    for arguments in (["check", "--fix", "--quiet"], ["format"]):
        done = subprocess.run(
            [Path(sys.executable).parent / "ruff", *arguments, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        if done.returncode:
            raise SystemExit(f"{path}: {done.stdout[-500:]}{done.stderr}")
        text = done.stdout
    return re.sub(r"\n{3,}\Z", "\n", text)


def main() -> int:
    """Write the files, or say which are stale; 1 when one is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the client is stale")
    checking = parser.parse_args().check
    stale = [path for path, text in files().items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        if checking:
            print(f"{path.relative_to(ROOT)} is stale: run `make generate`")
        else:
            path.write_text(files()[path], encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if stale and checking else 0


if __name__ == "__main__":
    sys.exit(main())
