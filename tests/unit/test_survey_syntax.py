"""What each grammar's table finds: public definitions with their lines, imports, mains, broken files."""

from __future__ import annotations

import pytest

from sf.survey.grammars import TABLES
from sf.survey.syntax import outline

PYTHON = """import os, a.b as c
from .x import y, z as zz
from p import *
@deco
def shown(): pass
def _hidden(): pass
class Big:
    def method(self): pass
async def later():
    from inner import deep
if __name__ == "__main__": shown()
"""
JAVASCRIPT = """import x, {y} from './x.js';
export * from "../lib/all";
const fs = require('fs');
export function shown() {}
export const arrow = () => 1;
export class Big {}
function hidden() { import('./late.js') }
"""
COMMON_JS = """const a = require('./a');
function one() {}
const two = () => 2;
class Three {}
module.exports = { one, two, Three };
"""
TYPESCRIPT = """import type { A } from '@/a';
export interface Face { x: number }
export type Alias = string;
export enum Colour { Red }
export abstract class Base {}
export function go<T>(x: T): JSX.Element { return <div>{x}</div> }
"""
GO = """package main
import (
  "fmt"
  q "example.com/m/pkg"
)
type Shown struct{}
type hidden int
func Run() {}
func run() {}
func (s Shown) Method() {}
func main() {}
"""
RUST = """use crate::a::{b, c};
use std::collections::HashMap;
mod inner;
mod written { pub fn not_top() {} }
pub fn shown() {}
fn hidden() {}
pub struct S; pub enum E {} pub trait T {}
fn main() {}
"""
JAVA = """package com.example.app;
import java.util.List;
import static com.example.util.Names.clean;
public class Main { public static void main(String[] args) {} }
interface Face {} enum Kind { A } record Point(int x) {}
"""
C = """#include "own.h"
#include <stdio.h>
static int hidden(void) { return 0; }
int shown(int x) { return x; }
char *text(void) { return 0; }
struct thing { int x; };
typedef int number;
int main(void) { return 0; }
"""
CPP = """#include "own.hpp"
namespace n { class Big { int x; }; void free_one() {} }
struct Small { int y; };
enum class Colour { red };
using Alias = int;
int main() { return 0; }
"""
RUBY = """require 'json'
require_relative 'lib/x'
module Outer
  class Inner; end
end
class Plain < Base
  def method; end
end
def top; end
"""
PHP = """<?php
namespace App\\Models;
use App\\Support\\Str;
require_once __DIR__ . '/boot.php';
class User {} interface Face {} trait Does {}
function top() {}
"""
CSHARP = """using System.Text;
namespace Acme.Core;
public class Big { static void Main(string[] a) {} }
internal class Hidden {}
public interface IFace {} public enum Kind { A } public record Point(int X);
"""
SHELL = """#!/bin/bash
source lib/common.sh
. ./other.sh
shown() { echo; }
function also { echo; }
_hidden() { echo; }
"""

CASES = {
    "Python": (
        PYTHON,
        ["function shown 5", "class Big 7", "function later 9"],
        ["os", "a.b", ".x:y", ".x:z", "p", "inner:deep"],
        True,
    ),
    "JavaScript": (
        JAVASCRIPT,
        ["function shown 4", "function arrow 5", "class Big 6"],
        ["./x.js", "../lib/all", "fs", "./late.js"],
        False,
    ),
    "TypeScript": (
        TYPESCRIPT,
        ["type Face 2", "type Alias 3", "type Colour 4", "class Base 5", "function go 6"],
        ["@/a"],
        False,
    ),
    "Go": (GO, ["type Shown 6", "function Run 8"], ["fmt", "example.com/m/pkg"], True),
    "Rust": (
        RUST,
        ["function shown 5", "class S 7", "type E 7", "type T 7"],
        ["crate::a::{b, c}", "std::collections::HashMap", "inner"],
        True,
    ),
    "Java": (
        JAVA,
        ["class Main 4", "type Face 5", "type Kind 5", "type Point 5"],
        ["java.util.List", "com.example.util.Names.clean"],
        True,
    ),
    "C": (
        C,
        ["function shown 4", "function text 5", "type thing 6", "type number 7", "function main 8"],
        ["own.h", "stdio.h"],
        True,
    ),
    "C++": (
        CPP,
        [
            "class Big 2",
            "function free_one 2",
            "class Small 3",
            "type Colour 4",
            "type Alias 5",
            "function main 6",
        ],
        ["own.hpp"],
        True,
    ),
    "Ruby": (
        RUBY,
        ["type Outer 3", "class Inner 4", "class Plain 6", "function top 9"],
        ["json", "lib/x:require_relative"],
        False,
    ),
    "PHP": (
        PHP,
        ["class User 5", "type Face 5", "type Does 5", "function top 6"],
        ["App\\Support\\Str", "/boot.php"],
        False,
    ),
    "C#": (CSHARP, ["class Big 3", "type IFace 5", "type Kind 5", "type Point 5"], ["System.Text"], True),
    "Shell": (SHELL, ["function shown 4", "function also 5"], ["lib/common.sh", "./other.sh"], False),
}


def test_there_is_a_case_for_every_grammar() -> None:
    assert set(CASES) == set(TABLES)


@pytest.mark.parametrize("language", CASES)
def test_what_a_language_shows(language: str) -> None:
    source, definitions, imports, main = CASES[language]
    found = outline(language, source.encode())
    assert [f"{item.kind} {item.name} {item.line}" for item in found.definitions] == definitions
    assert [item.module + (f":{item.member}" if item.member else "") for item in found.imports] == imports
    assert (found.main, found.broken) == (main, False)


def test_a_file_that_exports_nothing_shows_what_it_declares() -> None:
    found = outline("JavaScript", COMMON_JS.encode())
    assert sorted(item.name for item in found.definitions) == ["Three", "one", "two"]


def test_namespaces_are_told() -> None:
    assert outline("Java", JAVA.encode()).namespace == "com.example.app"
    assert outline("PHP", PHP.encode()).namespace == "App\\Models"
    assert outline("C#", CSHARP.encode()).namespace == "Acme.Core"


@pytest.mark.parametrize("language", CASES)
def test_a_broken_file_is_told_and_what_can_be_read_counts(language: str) -> None:
    source, *_ = CASES[language]
    found = outline(language, source.encode() + b"\n(((}}} \xff\xfe <<<")
    assert found.broken
    assert outline(language, b"") == outline(language, b"\n")


def test_what_is_kept_of_one_file_is_bounded() -> None:
    found = outline("Python", b"".join(b"def f%d(): pass\nimport m%d\n" % (n, n) for n in range(2000)))
    assert (len(found.definitions), len(found.imports)) == (400, 400)
    long = outline("Python", b"class " + b"A" * 5000 + b": pass\n")
    assert len(long.definitions[0].name) <= 120
