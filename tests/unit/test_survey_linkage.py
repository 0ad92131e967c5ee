"""Imports followed to the files that they mean, language by language."""

from __future__ import annotations

from pathlib import Path

import pytest

from sf.survey.linkage import linkage_of
from tests.support.repository import facts_of, tree_of


def links(folder: Path, files: dict[str, str]) -> dict[str, int]:
    """The modules of a tree by their importers."""
    tree = tree_of(folder, files)
    return {module.path: module.importers for module in linkage_of(tree, facts_of(tree)).modules}


CASES: dict[str, tuple[dict[str, str], dict[str, int]]] = {
    "python": (
        {
            "src/app/__init__.py": "",
            "src/app/core.py": "import os\nimport json\n",
            "src/app/sub/__init__.py": "from .. import core\n",
            "src/app/sub/deep.py": "from ..core import x\nfrom . import sibling\nimport app.core\n",
            "src/app/sub/sibling.py": "from app import core\nimport requests\n",
            "tests/test_core.py": "from app.core import x\nfrom tests.support import y\n",
            "tests/support.py": "",
        },
        {"src/app/core.py": 4, "src/app/sub/sibling.py": 1, "tests/support.py": 1},
    ),
    "python, the nearest of the same name": (
        {
            "one/pkg/__init__.py": "",
            "one/pkg/a.py": "from pkg import b\n",
            "one/pkg/b.py": "",
            "two/pkg/__init__.py": "",
            "two/pkg/a.py": "from pkg import b\n",
            "two/pkg/b.py": "",
        },
        {"one/pkg/b.py": 1, "two/pkg/b.py": 1},
    ),
    "javascript": (
        {
            "src/index.js": "import a from './a';\nimport b from './lib';\nimport r from 'react';\n",
            "src/a.ts": "import { c } from './lib/c.js';\nexport * from '../src/a';\n",
            "src/lib/index.ts": "",
            "src/lib/c.ts": "import gone from './gone';\n",
        },
        {"src/a.ts": 1, "src/lib/index.ts": 1, "src/lib/c.ts": 1},
    ),
    "go": (
        {
            "go.mod": "module example.com/m\n",
            "main.go": 'package main\nimport (\n"fmt"\n"example.com/m/internal/x"\n"example.com/mm/y")\n',
            "internal/x/x.go": "package x\n",
        },
        {"internal/x": 1},
    ),
    "rust": (
        {
            "Cargo.toml": '[workspace]\nmembers = ["core"]\n',
            "core/Cargo.toml": '[package]\nname = "my-core"\n',
            "core/src/lib.rs": "pub mod a;\n",
            "core/src/a/mod.rs": "mod b;\nuse crate::a::b::Thing;\n",
            "core/src/a/b.rs": "use super::super::lib;\nuse std::io;\n",
            "cli/Cargo.toml": '[package]\nname = "cli"\n',
            "cli/src/main.rs": "use my_core::a::b::{Thing, Other};\nuse serde::Serialize;\n",
        },
        {"core/src/a/b.rs": 2, "core/src/a/mod.rs": 1, "core/src/lib.rs": 1},
    ),
    "java": (
        {
            "src/main/java/com/x/A.java": "package com.x;\nimport com.x.y.B;\nimport java.util.List;\n",
            "src/main/java/com/x/y/B.java": "package com.x.y;\npublic class B {}\n",
            "src/main/java/com/x/C.java": "package com.x;\nimport static com.x.y.B.make;\nclass C {}\n",
        },
        {"src/main/java/com/x/y/B.java": 2},
    ),
    "c": (
        {
            "include/proj/api.h": "",
            "src/a.c": '#include <proj/api.h>\n#include "a.h"\n#include <stdio.h>\n',
            "src/a.h": "",
        },
        {"include/proj/api.h": 1, "src/a.h": 1},
    ),
    "ruby": (
        {
            "lib/x/y.rb": "",
            "lib/x.rb": "require_relative 'x/y'\nrequire 'json'\n",
            "bin/go.rb": "require 'x/y'\n",
        },
        {"lib/x/y.rb": 2},
    ),
    "php": (
        {
            "app/User.php": "<?php\nnamespace App;\nuse App\\Support\\Str;\nrequire 'boot.php';\n",
            "app/Support/Str.php": "<?php\nnamespace App\\Support;\nclass Str {}\n",
            "app/boot.php": "<?php\n",
        },
        {"app/Support/Str.php": 1, "app/boot.php": 1},
    ),
    "c#": (
        {
            "Core/A.cs": "namespace Acme.Core;\npublic class A {}\n",
            "App/B.cs": "using System;\nusing Acme.Core;\nnamespace Acme.App;\npublic class B {}\n",
        },
        {"Core": 1},
    ),
    "shell": ({"run.sh": ". lib/common.sh\n", "lib/common.sh": ""}, {"lib/common.sh": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_imports_lead_to_files(case: str, tmp_path: Path) -> None:
    files, wanted = CASES[case]
    assert links(tmp_path, files) == wanted


def test_areas_that_need_each_other_are_told_without_the_tests(tmp_path: Path) -> None:
    files = {
        "src/a/x.py": "from src.b import y, z\n",
        "src/a/w.py": "from src.b import y\n",
        "src/b/y.py": "",
        "src/b/z.py": "",
        "tests/test_x.py": "from src.a import x\n",
    }
    tree = tree_of(tmp_path, files)
    found = linkage_of(tree, facts_of(tree))
    assert [(edge.source, edge.target, edge.imports) for edge in found.edges] == [("src/a", "src/b", 3)]
    assert found.internal == 4


def test_what_comes_from_elsewhere_is_counted_by_package(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "a.py": "import requests.adapters\nimport sys\n",
            "b.py": "from requests import get\n",
            "c.js": "import x from '@scope/pkg/deep';\nimport p from 'node:path';\n",
        },
    )
    assert linkage_of(tree, facts_of(tree)).external == (
        ("requests", 2),
        ("@scope/pkg", 1),
        ("path", 1),
        ("sys", 1),
    )


def test_a_module_tells_what_it_offers(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, {"a.py": "import b\n", "b.py": "\ndef offered(): pass\n"})
    (module,) = linkage_of(tree, facts_of(tree)).modules
    assert [(item.name, item.kind, item.line) for item in module.definitions] == [("offered", "function", 2)]


def test_relative_imports_that_lead_out_of_the_tree_lead_nowhere(tmp_path: Path) -> None:
    files = {
        "a.py": "from ....up import x\nfrom . import y\n",
        "b.js": "import x from '../../../etc/passwd';\n",
    }
    assert links(tmp_path, files) == {}
