"""What counts as a test, in the layouts of many languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf.domain import testfiles

TESTS = {
    "Python": "tests/test_a.py test_a.py a_test.py app/tests.py tests.py test.py app/tests/helper.py",
    "JavaScript": "a.test.js a.spec.mjs __tests__/a.js test/a.js test.js a-test.js spec/aSpec.js",
    "TypeScript": "src/a.test.ts a.spec.tsx a.cy.ts a.e2e.ts a.e2e-spec.ts cypress/e2e/a.ts",
    "Rust": "src/tests.rs tests/it.rs src/a/tests.rs src/a_test.rs",
    "Go": "a_test.go pkg/a/a_test.go integrationtests/a.go",
    "Java": "src/test/java/x/A.java src/main/java/XTest.java TestA.java AIT.java OrderIT.java ATestCase.java",
    "Kotlin": "src/androidTest/java/A.kt ASpec.kt AKtTest.kt",
    "Scala and Groovy": "ASuite.scala src/it/AIT.scala src/test/scala/A.scala ASpec.groovy",
    "Ruby": "spec/a_spec.rb test/a_test.rb test/test_a.rb a_spec.rb features/a.feature",
    "PHP": "tests/Unit/ATest.php ATest.php ACest.php a.phpt",
    "C and C++": "test.c test_a.c a_test.cc aTest.cpp unittests/A.cpp tests/main.c unit_tests/a.hpp",
    "shell": "test.sh test-a.sh a_test.sh a.bats test/a.bats tests/run t/t0001-init.sh",
    "Perl": "a.t t/00-load.t xt/pod.t t/lib/A.pm",
    "Elixir and Erlang": "test/a_test.exs apps/a/test/a_test.exs test/a_SUITE.erl a_tests.erl",
    "Swift": "Tests/FooTests/ATests.swift FooTests/A.swift AppUITests/A.swift",
    "C# and F#": "Foo.Tests/AShould.cs Foo.UnitTests/A.cs ATests.cs Foo.Tests/A.fs",
    "Haskell": "test/Spec.hs test/ASpec.hs ASpec.hs tests/Main.hs",
    "others": "test/a_test.dart spec/a_spec.lua tests/testthat/test-a.R a_test.zig spec/a_spec.cr",
    "cases": "tests/a.robot tests/deployment_test.yaml tests/cases/a.json tests/a.txt e2e/a.sql",
}
NO_TESTS = {
    "code": "a.py src/contest.py src/latest/a.py src/testing/clock.py attest.go src/lib.rs Contest.java",
    "specifications": "a.spec.json openapi-spec.yaml spec/design.md PodSpec.java pod_spec.go spec_loader.py",
    "fixtures": "test/data.txt tests/data.json tests/fixtures/a.json tests/test_data.csv",
    "documents": "tests/README.md tests/README docs/test_plan.md test.txt test.json tests/a.png",
    "set-up": "tests/Makefile tests/CMakeLists.txt jest.config.js vitest.config.ts pytest.ini conftest.py",
    "others": "src/test/resources/a.xml a.spec Testing.java tests/.gitkeep .rspec EXIT.java src/attests.rs",
}


def _listed(table: dict[str, str]) -> list[str]:
    return [path for line in table.values() for path in line.split()]


@pytest.mark.parametrize("path", _listed(TESTS))
def test_it_is_a_test(path: str) -> None:
    assert testfiles.is_test(path)


@pytest.mark.parametrize("path", _listed(NO_TESTS))
def test_it_is_none(path: str) -> None:
    assert not testfiles.is_test(path)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/lib.rs", "    #[test]"),
        ("src/lib.rs", '#[tokio::test(flavor = "multi_thread")]'),
        ("src/lib.rs", "#[cfg(test)]"),
        ("src/lib.rs", '#[cfg(all(test, feature = "x"))]'),
        ("src/a.zig", 'test "adds" {'),
        ("src/a.zig", "test add {"),
        ("a.d", "unittest"),
        ("tool.py", "def test_adds() -> None:"),
        ("tool.py", "    async def test_adds(self):"),
        ("a.ml", 'let%test "adds" = add 1 1 = 2'),
        ("a.erl", "add_test() ->"),
        ("a.rkt", "(module+ test"),
        ("a.clj", "(deftest adds"),
        ("a.cpp", 'TEST_CASE("adds") {'),
        ("a.c", "TEST(Adds, Two) {"),
        ("a.ts", "if (import.meta.vitest) {"),
        ("checks/a.ts", "it('adds', () => {"),
        ("Checks.java", "    @ParameterizedTest"),
        ("Checks.cs", "    [Fact]"),
        ("Checks.swift", "@Test func adds() {"),
    ],
)
def test_a_test_among_the_code(path: str, line: str) -> None:
    assert testfiles.may_hold_tests(path)
    assert testfiles.adds_test(path, ["let a = 1;", line])
    assert not testfiles.adds_test("notes.txt", [line])


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/lib.rs", "fn test(input: &str) {}"),
        ("src/lib.rs", '#[cfg(feature = "test")]'),
        ("src/lib.rs", "#[derive(Debug)]"),
        ("src/a.zig", "const test_count = 1;"),
        ("tool.py", "def attest():"),
        ("tool.py", "    # def test_adds(): comes later"),
        ("a.ts", "const ok = /a/.test('a');"),
        ("a.cs", "[FactoryMethod]"),
    ],
)
def test_code_that_is_no_test(path: str, line: str) -> None:
    assert not testfiles.adds_test(path, [line])


@given(st.text())
def test_any_path_has_an_answer(path: str) -> None:
    assert testfiles.is_test(path) in (True, False)
    assert testfiles.adds_test(f"{path}.rs", [path]) in (True, False)
