"""C: functions that are not static, and named types; a prototype in a header counts."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_c",
    query="""
(translation_unit (function_definition . type: (_)
  declarator: (function_declarator declarator: (identifier) @function)))
(translation_unit (function_definition . type: (_)
  declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @function))))
(translation_unit (declaration declarator: (function_declarator declarator: (identifier) @local.function)))
(translation_unit (struct_specifier name: (type_identifier) @type body: (_)))
(translation_unit (enum_specifier name: (type_identifier) @type body: (_)))
(translation_unit (type_definition declarator: (type_identifier) @type))
(preproc_include path: (string_literal) @import)
(preproc_include path: (system_lib_string) @import)
((translation_unit (function_definition declarator: (function_declarator declarator: (identifier) @main)))
  (#eq? @main "main"))
""",
)
