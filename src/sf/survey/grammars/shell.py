"""Shell scripts, by bash's grammar: functions, and the files they take in."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_bash",
    hidden=r"_",
    query="""
(program (function_definition name: (word) @function))
((command name: (command_name (word) @_how) . argument: (_) @import) (#any-of? @_how "source" "."))
""",
)
