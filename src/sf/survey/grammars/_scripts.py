"""What JavaScript and TypeScript have in common: exports, imports, and files that export nothing."""

from __future__ import annotations

SHARED = """
(export_statement declaration: (function_declaration name: (identifier) @function))
(export_statement declaration: (generator_function_declaration name: (identifier) @function))
(export_statement declaration: (lexical_declaration (variable_declarator
  name: (identifier) @function value: [(arrow_function) (function_expression)])))
(program (function_declaration name: (identifier) @local.function))
(program (lexical_declaration (variable_declarator
  name: (identifier) @local.function value: [(arrow_function) (function_expression)])))
(import_statement source: (string (string_fragment) @import))
(export_statement source: (string (string_fragment) @import))
((call_expression function: (identifier) @_require
  arguments: (arguments . (string (string_fragment) @import) .)) (#eq? @_require "require"))
(call_expression function: (import) arguments: (arguments . (string (string_fragment) @import)))
"""
