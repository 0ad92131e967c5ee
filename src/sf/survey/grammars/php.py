"""PHP: types and functions at the top of a file or of its namespace."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_php",
    entry="language_php",
    query="""
(class_declaration name: (name) @class)
(interface_declaration name: (name) @type)
(trait_declaration name: (name) @type)
(enum_declaration name: (name) @type)
(program (function_definition name: (name) @function))
(namespace_definition name: (namespace_name) @namespace)
(namespace_use_clause (qualified_name) @import)
(require_once_expression (string (string_content) @import))
(require_expression (string (string_content) @import))
(include_expression (string (string_content) @import))
(require_once_expression (binary_expression right: (string (string_content) @import)))
(require_expression (binary_expression right: (string (string_content) @import)))
""",
)
