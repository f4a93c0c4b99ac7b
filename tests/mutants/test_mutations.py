"""Tests of mutation testing: which changes are made, which code is left alone, and which tests are
run.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.mutants import __main__ as tool
from tests.mutants.mutations import mutations


def changes(text: str) -> list[str]:
    """Return the whole source after each change."""
    return [one.applied(text.encode()).decode() for one in mutations(text.encode())]


@pytest.mark.parametrize(
    "text, found",
    [
        ("a <= b < c", ["(a < b < c)", "(a <= b <= c)"]),
        ("a and b", ["(a or b)"]),
        ("x = a - b", ["x = (a + b)"]),
        ("x = not a", ["x = (a)"]),
        ("x = max(a)", ["x = min(a)"]),
        ("x = True", ["x = False"]),
        ("x = 'a'", []),
        ("x += y", ["pass"]),
        ("f(a)", ["pass"]),
        ("if a: b", ["if not (a): b"]),
        ("x = a if b else c", ["x = (c if b else a)"]),
        ("é = a == 7", ["é = (a != 7)", "é = a == 8"]),
        ("def f(a: 'x < 1' = 2) -> (y < 1): ...", ["def f(a: 'x < 1' = 3) -> (y < 1): ..."]),
        ("@f(1)\nclass A:\n  n: g[1] = 2", ["@f(1)\nclass A:\n  n: g[1] = 3"]),
        ("assert a < b", []),
        ("f'{a < b}'", []),
        ("if TYPE_CHECKING:\n  a < b", []),
        (
            "def f(o): return o.start_bytes, o.end_bytes",
            [
                "def f(o): return o.end_bytes, o.end_bytes",
                "def f(o): return o.start_bytes, o.start_bytes",
            ],
        ),
    ],
)
def test_code_is_changed_as_expected(text: str, found: list[str]) -> None:
    assert sorted(changes(text)) == sorted(found)


def test_each_mutation_compiles_and_differs() -> None:
    for path in (ROOT / "tests" / "oracle.py", ROOT / "tests" / "build.py"):
        text = path.read_text()
        found = changes(text)
        assert len(found) == len(set(found)) > 20
        for one in found[:: len(found) // 40]:  # a sample from the whole file
            assert one != text
            ast.parse(one)


def test_same_seed_picks_the_same_mutations() -> None:
    files = tool.changed("")[::10]
    assert [str(one) for one in tool.choose(files, 5, 1)] == [
        str(one) for one in tool.choose(files, 5, 1)
    ]
    assert len(tool.choose(files[-1:], 10**6, 1)) < 10**6


def test_tests_of_a_module_are_found_by_name_and_import() -> None:
    path = tool.SRC / "pack" / "one.py"
    tests = {
        Path("x/test_one.py"): "",
        Path("x/test_two.py"): "from pack import (\n  a,\n  one,\n)",
        Path("x/test_user.py"): "",
        Path("x/test_other.py"): "from pack import ones, someone\nimport pack.ones",
    }
    code = {tool.SRC / "user.py": "from pack.one import f", tool.SRC / "other.py": "import pack"}
    assert tool.tests_of(path, tests, code) == (
        (Path("x/test_one.py"),),
        (Path("x/test_two.py"), Path("x/test_user.py")),
    )
