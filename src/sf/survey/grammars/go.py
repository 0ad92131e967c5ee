"""Go: what begins with a capital letter."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_go",
    hidden=r"[^A-Z]",
    query="""
(source_file (function_declaration name: (identifier) @function))
(source_file (type_declaration (type_spec name: (type_identifier) @type)))
(source_file (type_declaration (type_alias name: (type_identifier) @type)))
(import_spec path: (interpreted_string_literal) @import)
(package_clause (package_identifier) @namespace)
((source_file (package_clause (package_identifier) @_package)
  (function_declaration name: (identifier) @main))
  (#eq? @_package "main") (#eq? @main "main"))
""",
)
