"""C#: the public types."""

from __future__ import annotations

from sf.survey.grammars._grammar import Grammar

GRAMMAR = Grammar(
    package="tree_sitter_c_sharp",
    query="""
((class_declaration (modifier) @_seen name: (identifier) @class) (#eq? @_seen "public"))
((interface_declaration (modifier) @_seen name: (identifier) @type) (#eq? @_seen "public"))
((struct_declaration (modifier) @_seen name: (identifier) @type) (#eq? @_seen "public"))
((enum_declaration (modifier) @_seen name: (identifier) @type) (#eq? @_seen "public"))
((record_declaration (modifier) @_seen name: (identifier) @type) (#eq? @_seen "public"))
(class_declaration name: (identifier) @local.class)
(namespace_declaration name: (_) @namespace)
(file_scoped_namespace_declaration name: (_) @namespace)
(using_directive [(qualified_name) (identifier)] @import)
((method_declaration (modifier) @_static name: (identifier) @main)
  (#eq? @_static "static") (#eq? @main "Main"))
""",
)
