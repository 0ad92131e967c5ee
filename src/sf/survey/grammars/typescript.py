"""TypeScript, by the grammar that also knows JSX: what a module exports, else what it declares at its top."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar
from sf.survey.grammars._scripts import SHARED

GRAMMAR = Grammar(
    package="tree_sitter_typescript",
    entry="language_tsx",
    query=SHARED
    + """
(export_statement declaration: (class_declaration name: (type_identifier) @class))
(export_statement declaration: (abstract_class_declaration name: (type_identifier) @class))
(export_statement declaration: (interface_declaration name: (type_identifier) @type))
(export_statement declaration: (type_alias_declaration name: (type_identifier) @type))
(export_statement declaration: (enum_declaration name: (identifier) @type))
(program (class_declaration name: (type_identifier) @local.class))
(program (interface_declaration name: (type_identifier) @local.type))
""",
)
