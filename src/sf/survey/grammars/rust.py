"""Rust: what is `pub` at the top of a module."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_rust",
    query="""
(source_file (function_item (visibility_modifier) name: (identifier) @function))
(source_file (struct_item (visibility_modifier) name: (type_identifier) @class))
(source_file (enum_item (visibility_modifier) name: (type_identifier) @type))
(source_file (trait_item (visibility_modifier) name: (type_identifier) @type))
(source_file (type_item (visibility_modifier) name: (type_identifier) @type))
(source_file (union_item (visibility_modifier) name: (type_identifier) @type))
(source_file (macro_definition name: (identifier) @local.function))
(use_declaration argument: (_) @import)
(source_file (mod_item name: (identifier) @import !body))
((source_file (function_item name: (identifier) @main)) (#eq? @main "main"))
""",
)
