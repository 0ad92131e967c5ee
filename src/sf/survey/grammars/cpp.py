"""C++: classes, types and free functions, at the top or in a namespace."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_cpp",
    query="""
(translation_unit (function_definition . type: (_)
  declarator: (function_declarator declarator: (identifier) @function)))
(declaration_list (function_definition . type: (_)
  declarator: (function_declarator declarator: (identifier) @function)))
(class_specifier name: (type_identifier) @class body: (_))
(struct_specifier name: (type_identifier) @class body: (_))
(enum_specifier name: (type_identifier) @type body: (_))
(alias_declaration name: (type_identifier) @type)
(preproc_include path: (string_literal) @import)
(preproc_include path: (system_lib_string) @import)
((translation_unit (function_definition declarator: (function_declarator declarator: (identifier) @main)))
  (#eq? @main "main"))
""",
)
