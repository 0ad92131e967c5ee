"""The grammars by language; a table is imported when a file of its language is parsed."""

from __future__ import annotations

import importlib

from sf.survey.grammars._grammar import Grammar

TABLES = {
    "Python": "python",
    "JavaScript": "javascript",
    "TypeScript": "typescript",
    "Go": "go",
    "Rust": "rust",
    "Java": "java",
    "C": "c",
    "C++": "cpp",
    "Ruby": "ruby",
    "PHP": "php",
    "C#": "csharp",
    "Shell": "shell",
}


def grammar_of(language: str) -> Grammar:
    """The table of a language that has one."""
    found: Grammar = importlib.import_module(f"{__name__}.{TABLES[language]}").GRAMMAR
    return found
