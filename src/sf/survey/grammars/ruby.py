"""Ruby: modules, classes and methods at the top, and classes one module deep."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_ruby",
    query="""
(program (class name: (_) @class))
(program (module name: (_) @type))
(program (module body: (body_statement (class name: (_) @class))))
(program (module body: (body_statement (module name: (_) @type))))
(program (method name: (_) @function))
((call !receiver method: (identifier) @_how arguments: (argument_list . (string (string_content) @import) .))
  (#eq? @_how "require"))
((call !receiver method: (identifier) @member
  arguments: (argument_list . (string (string_content) @import) .)) (#eq? @member "require_relative"))
""",
)
