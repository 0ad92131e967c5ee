"""JavaScript: what a module exports, else what it declares at its top."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar
from sf.survey.grammars._scripts import SHARED

GRAMMAR = Grammar(
    package="tree_sitter_javascript",
    query=SHARED
    + """
(export_statement declaration: (class_declaration name: (identifier) @class))
(program (class_declaration name: (identifier) @local.class))
""",
)
