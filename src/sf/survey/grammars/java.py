"""Java: the types at the top of a file."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_java",
    query="""
(program (class_declaration name: (identifier) @class))
(program (interface_declaration name: (identifier) @type))
(program (enum_declaration name: (identifier) @type))
(program (record_declaration name: (identifier) @type))
(program (annotation_type_declaration name: (identifier) @type))
(import_declaration (scoped_identifier) @import)
(package_declaration (_) @namespace)
((program (class_declaration body: (class_body (method_declaration
  (modifiers "static") type: (void_type) name: (identifier) @main)))) (#eq? @main "main"))
""",
)
