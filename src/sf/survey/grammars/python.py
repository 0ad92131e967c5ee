"""Python: what a module defines at its top and does not mark as private."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_python",
    hidden=r"_",
    query="""
(module (function_definition name: (identifier) @function))
(module (class_definition name: (identifier) @class))
(module (decorated_definition definition: (function_definition name: (identifier) @function)))
(module (decorated_definition definition: (class_definition name: (identifier) @class)))
(import_statement name: (dotted_name) @import)
(import_statement name: (aliased_import name: (dotted_name) @import))
(import_from_statement module_name: (_) @import name: (dotted_name) @member)
(import_from_statement module_name: (_) @import name: (aliased_import name: (dotted_name) @member))
(import_from_statement module_name: (_) @import (wildcard_import))
((module (if_statement condition: (comparison_operator (identifier) @_name (string) @main)))
  (#eq? @_name "__name__"))
""",
)
