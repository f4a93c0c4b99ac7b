"""The import rule and the rules about a file's form, checked from the source text itself.

`_native → _core → snapshot → analysis → tables → reports → cli`, with what is between
them in LAYERS: a module may import its own layer and those before it. `errors` and `model` import
nothing of the package but what is below them, and everything may import them. The list is in
docs/architecture.md, which says where each module belongs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from memreplay.commands.app import COMMANDS

PACKAGE = "memreplay"
LAYERS = (
    "results",
    "_native",
    "_diagnosis",
    "_core",
    "_timeline",
    "_measures",
    "_soundness",
    "_groups",
    "_churn",
    "_growth",
    "_blockmap",
    "_pieces",
    "_slicing",
    "_converting",
    "sources",
    "foreign",
    "container",
    "readahead",
    "packing",
    "_adding",
    "dataset_files",
    "dataset_rows",
    "dataset",
    "columns",
    "replay",
    "snapshot",
    "conversion",
    "analysis",
    "tables",
    "reports",
    "cli",
    "__main__",
    "pytest_plugin",
)
LEAVES = ("errors", "model")  # these import nothing of the package but what is below them
BELOW = ("brief", "record", "json_values")
RANK = (
    {name: rank for rank, name in enumerate(LAYERS)}
    | dict.fromkeys(LEAVES, -1)
    | dict.fromkeys(BELOW, -2)
)
RANK["__init__"] = RANK["reports"]  # the public names: all but the command line

PURE = ("analysis", "reports")
LIGHT = (
    "results",
    "cli",
    "reports",
    "__init__",
    "__main__",
    *LEAVES,
    *BELOW,
)  # start without NumPy
LAZY = ("duckdb", "rich", "plotille", "pyarrow", "matplotlib", "zstandard", "fsspec", "torch")
NOT_IN_NATIVE = ("numpy", "rich", "click", "torch")

IO_CALLS = ("open", "print", "input")
IO_METHODS = ("open", "write_text", "write_bytes")
IO_STREAMS = ("stdin", "stdout", "stderr")
IO_MODULES = ("subprocess", "requests", "urllib", "http", "socket", "shutil", "tempfile", "logging")

MAX_PYX_LINES = 700


class Import(NamedTuple):
    """One import: the dotted name, its line, and whether it runs when the module is loaded."""

    name: str
    line: int
    at_load: bool


class Module(NamedTuple):
    """One source file of the package."""

    path: Path
    parts: tuple[str, ...]  # below the package: ("analysis", "peak"), ("__init__",)
    text: str

    @property
    def layer(self) -> str:
        return self.parts[0]

    @property
    def package(self) -> tuple[str, ...]:
        """What a relative import starts from."""
        return (PACKAGE, *self.parts[:-1])

    def at(self, line: int, message: str) -> str:
        return f"{'/'.join(self.parts)}{self.path.suffix}:{line}: {message}"


def modules(package: Path, *suffixes: str) -> Iterator[Module]:
    for path in sorted(package.rglob("*")):
        if path.suffix in suffixes:
            parts = path.relative_to(package).with_suffix("").parts
            yield Module(path, parts, path.read_text(encoding="utf-8"))


# --- what a file imports -----------------------------------------------------------------------


def absolute(module: Module, dots: int, name: str) -> str:
    if not dots:
        return name
    base = module.package[: len(module.package) - (dots - 1)]
    return ".".join((*base, name)) if name else ".".join(base)


def python_imports(module: Module) -> Iterator[Import]:
    """Every import in a .py file, those of `importlib.import_module("…")` included."""

    def visit(node: ast.AST, at_load: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_load)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node.level, node.module or "")
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, at_load)
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func).rpartition(".")[2]
            name = node.args[0]
            if called in ("import_module", "__import__") and isinstance(name, ast.Constant):
                text = str(name.value)
                bare = text.lstrip(".")
                yield Import(absolute(module, len(text) - len(bare), bare), node.lineno, at_load)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                yield from visit(statement, False)
            for statement in node.orelse:
                yield from visit(statement, at_load)
            return
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_load and not inside)

    return visit(ast.parse(module.text), True)


STRING = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'', re.DOTALL)
FROM = re.compile(r"^[ \t]*from\s+(\.*)([\w.]*)\s+c?import\b\s*([^#\n]*)", re.MULTILINE)
PLAIN = re.compile(r"^[ \t]*c?import\s+([^#\n]*)", re.MULTILINE)


def cython_imports(module: Module) -> Iterator[Import]:
    """Every import and cimport in a .pyx or .pxd file, found in its text."""
    text = STRING.sub(lambda match: "\n" * match.group().count("\n"), module.text)
    for match in FROM.finditer(text):
        base = absolute(module, len(match[1]), match[2])
        line = text.count("\n", 0, match.start(2)) + 1
        if match[3].startswith("("):
            end = text.find(")", match.end())
            names = re.sub(r"#.*", "", text[match.start(3) + 1 : end])
        else:
            names = match[3]
        for name in names.split(","):
            if name.strip():
                yield Import(f"{base}.{name.split()[0]}", line, True)
    for match in PLAIN.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        for name in match[1].split(","):
            if name.strip():
                yield Import(name.split()[0], line, True)


def imports(module: Module) -> Iterator[Import]:
    return python_imports(module) if module.path.suffix == ".py" else cython_imports(module)


def layer_of(name: str) -> str | None:
    """The layer that an imported name belongs to; None outside the package."""
    top, _, rest = name.partition(".")
    if top != PACKAGE:
        return None
    first = rest.partition(".")[0]
    return first if first in RANK else "__init__"  # `from memreplay import Snapshot`


# --- the rules: each yields one line for each violation ------------------------------------------


def against_the_layers(package: Path) -> Iterator[str]:
    for module in modules(package, ".py", ".pyx", ".pxd"):
        if module.layer not in RANK:
            yield module.at(
                1, f"`{module.layer}` has no layer; give it one in {Path(__file__).name}"
            )
            continue
        for name, line, _ in imports(module):
            layer = layer_of(name)
            if layer is None or (module.layer in LEAVES and name == f"{PACKAGE}.{module.layer}"):
                continue
            if module.layer in LEAVES and layer not in BELOW:
                yield module.at(line, f"a leaf imports {name}")
            elif RANK[layer] > RANK[module.layer]:
                yield module.at(line, f"`{module.layer}` imports {name} of a later layer")


def native_dependencies(package: Path) -> Iterator[str]:
    for module in modules(package, ".pyx", ".pxd"):
        for name, line, _ in imports(module):
            if name.partition(".")[0] in NOT_IN_NATIVE:
                yield module.at(line, f"native code imports {name}")


def impure(package: Path) -> Iterator[str]:
    for module in modules(package, ".py"):
        if module.layer not in PURE:
            continue
        for name, line, _ in imports(module):
            if name.partition(".")[0] in IO_MODULES or name in {f"sys.{s}" for s in IO_STREAMS}:
                yield module.at(line, f"imports {name}; {module.layer} does no I/O")
        for node in ast.walk(ast.parse(module.text)):
            if isinstance(node, ast.Call):
                called = node.func
                if isinstance(called, ast.Name) and called.id in IO_CALLS:
                    yield module.at(node.lineno, f"calls {called.id}(); {module.layer} does no I/O")
                elif isinstance(called, ast.Attribute) and called.attr in IO_METHODS:
                    yield module.at(
                        node.lineno, f"calls .{called.attr}(); {module.layer} does no I/O"
                    )
            elif isinstance(node, ast.Attribute) and node.attr in IO_STREAMS:
                yield module.at(
                    node.lineno, f"uses {ast.unparse(node)}; {module.layer} does no I/O"
                )


def heavy_at_load(package: Path) -> Iterator[str]:
    for module in modules(package, ".py"):
        for name, line, at_load in imports(module):
            top = name.partition(".")[0]
            if at_load and top in LAZY:
                yield module.at(
                    line, f"imports {top} at load; import it in the function that uses it"
                )
            if at_load and top == "numpy" and module.layer in LIGHT:
                yield module.at(
                    line, f"imports numpy at load; `{module.layer}` must start without it"
                )


def nameless(folder: Path) -> Iterator[str]:
    """Files whose first line does not say their job; empty ones have none."""
    for module in modules(folder, ".py", ".pyx", ".pxd"):
        lines = [line for line in module.text.splitlines()[:2] if not line.startswith("#!")]
        first = lines[0] if lines else '"""an empty file"""'
        words = re.sub(r'^(#|r?""")\s*', "", first)
        if (
            words == first
            or len(words.split()) < 2
            or re.match(r"(cython|distutils|-\*-)\b", words)
        ):
            yield module.at(
                1, f"the first line is no docstring or comment naming its job: {first!r}"
            )


def oversized(package: Path) -> Iterator[str]:
    for module in modules(package, ".pyx"):
        lines = module.text.count("\n")
        if lines > MAX_PYX_LINES:
            yield module.at(lines, f"{lines} lines, {MAX_PYX_LINES} allowed: split it at a seam")


PACKAGE_RULES = (
    against_the_layers,
    native_dependencies,
    impure,
    heavy_at_load,
    nameless,
    oversized,
)


def violations(package: Path) -> list[str]:
    return [line for rule in PACKAGE_RULES for line in rule(package)]


# --- the tests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", PACKAGE_RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule, root: Path) -> None:  # type: ignore[no-untyped-def]
    package = root / "src" / PACKAGE
    assert list(modules(package, ".py")), f"no source in {package}"
    found = list(rule(package))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", ["tests", "bench"])
def test_first_lines_elsewhere(folder: str, root: Path) -> None:
    found = list(nameless(root / folder))
    assert not found, "\n".join(found)


def test_the_architecture_has_the_import_rule(root: Path) -> None:
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = text.partition("## The import rule\n\n")[2].partition("\n\n")[0]
    assert re.findall(r"\w+", block) == [*BELOW, *LEAVES, *LAYERS]


def test_the_architecture_has_a_place_for_every_module(root: Path) -> None:
    """By its name; what is of one command alone is where the command's name says."""
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = text.partition("## Files\n")[2].partition("\n## ")[0]
    said = {Path(name).stem for name in re.findall(r"`([\w./]+)`", files)}
    absent = []
    for module in modules(root / "src" / PACKAGE, ".py", ".pyx", ".pxd"):
        name = module.parts[-1]
        command = re.sub(r"_(text|json|csv|github|junit|markdown|sarif)$", "", name)
        if len(module.parts) > 1 and command in COMMANDS.keys() | said:
            continue
        if name != "__init__" and name not in said:
            absent.append("/".join(module.parts))
    assert not absent, f"docs/architecture.md has no place for {', '.join(absent)}"


def plant(package: Path, name: str, body: str) -> None:
    path = package / name
    path.parent.mkdir(parents=True, exist_ok=True)
    comment = '"""A planted file."""\n' if path.suffix == ".py" else "# A planted file.\n"
    path.write_text(comment + body, encoding="utf-8")


# A file, what is planted in it from its second line on, and what the checker has to say.
PLANTED = [
    ("analysis/a.py", "from memreplay.reports import text", "analysis/a.py:2: `analysis` imports"),
    ("analysis/a.py", "from ..cli import peak", "analysis/a.py:2: `analysis` imports"),
    ("analysis/__init__.py", "from .. import cli", "analysis/__init__.py:2: `analysis` imports"),
    ("analysis/a.py", "from memreplay import Snapshot", "imports memreplay.Snapshot of a later"),
    (
        "snapshot.py",
        "def f():\n    import memreplay.commands.peak.find",
        "snapshot.py:3: `snapshot` imp",
    ),
    (
        "snapshot.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .analysis import peak",
        "snapshot.py:4: `snapshot` imports",
    ),
    (
        "reports/r.py",
        "from importlib import import_module\nm = import_module('memreplay.commands.peak.command')",
        "reports/r.py:3: `reports` imports",
    ),
    ("model.py", "from .errors import SnapshotError", "model.py:2: a leaf imports"),
    ("brief.py", "from .model import Frame", "brief.py:2: `brief` imports"),
    ("errors.py", "import memreplay", "errors.py:2: a leaf imports"),
    ("helpers.py", "", "helpers.py:1: `helpers` has no layer"),
    ("__init__.py", "from memreplay.cli import main", "__init__.py:2: `__init__` imports"),
    ("_native/n.pyx", "from memreplay._core import f", "_native/n.pyx:2: `_native` imports"),
    (
        "_native/n.pxd",
        "from ..snapshot cimport (\n    a)",
        "_native/n.pxd:2: `_native` imports",
    ),
    ("_core.pyx", "import memreplay.snapshot.snapshot", "_core.pyx:2: `_core` imports"),
    ("_core.pyx", "import numpy as np", "_core.pyx:2: native code imports numpy"),
    ("_core.pyx", "    cimport numpy", "_core.pyx:2: native code imports numpy"),
    ("_native/n.pyx", "from torch cimport x", "_native/n.pyx:2: native code imports torch"),
    ("reports/r.py", "x = open('f')", "reports/r.py:2: calls open()"),
    (
        "reports/r.py",
        "def f(path):\n    path.write_text('')",
        "reports/r.py:3: calls .write_text()",
    ),
    ("analysis/a.py", "print('x')", "analysis/a.py:2: calls print()"),
    ("analysis/a.py", "import sys\nsys.stdout.write('x')", "analysis/a.py:3: uses sys.stdout"),
    ("analysis/a.py", "from sys import stdout", "analysis/a.py:2: imports sys.stdout"),
    ("reports/r.py", "def f():\n    import subprocess", "reports/r.py:3: imports subprocess"),
    ("cli/c.py", "import rich.table", "cli/c.py:2: imports rich at load"),
    ("snapshot.py", "try:\n    import zstandard\nexcept ImportError: ...", "imports zstandard at"),
    ("cli/c.py", "import numpy as np", "cli/c.py:2: imports numpy at load"),
    ("__init__.py", "from numpy import ndarray", "__init__.py:2: imports numpy at load"),
    ("_native/n.pyx", "\n" * MAX_PYX_LINES, "701 lines, 700 allowed"),
]


@pytest.mark.parametrize("name, body, expected", PLANTED)
def test_a_planted_violation_is_caught(name: str, body: str, expected: str, tmp_path: Path) -> None:
    plant(tmp_path, name, body)
    (found,) = violations(tmp_path)
    assert expected in found


@pytest.mark.parametrize("first", ["", "import os", "# cython: language_level=3", '"""', "# x"])
def test_a_first_line_that_names_no_job_is_caught(first: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(f"{first}\nx = 1\n", encoding="utf-8")
    (found,) = nameless(tmp_path)
    assert "model.py:1: the first line" in found


def test_what_the_rules_allow(tmp_path: Path) -> None:
    plant(tmp_path, "brief.py", "from html import escape")
    plant(tmp_path, "model.py", "from dataclasses import dataclass\nfrom .brief import Brief")
    plant(tmp_path, "snapshot.py", "import numpy as np\nfrom memreplay import _core, errors")
    plant(tmp_path, "analysis/a.py", "import numpy as np\nfrom .b import f\nfrom .. import model")
    plant(tmp_path, "reports/r.py", "from ..analysis import a\ndef f():\n    import rich, numpy")
    plant(tmp_path, "__init__.py", "from .snapshot import Snapshot")
    plant(
        tmp_path,
        "cli/c.py",
        "from typing import TYPE_CHECKING\nfrom memreplay import __version__\n"
        "if TYPE_CHECKING:\n    import numpy\n    import rich\nprint(open)",
    )
    plant(tmp_path, "__main__.py", "from memreplay.cli import main")
    plant(tmp_path, "_native/a.pxd", "from libc.stdint cimport uint64_t\nfrom .b cimport (\n    c)")
    plant(
        tmp_path,
        "_core.pyx",
        '"""Text:\nimport numpy\n"""\nfrom memreplay._native.a cimport (\n    b, # c\n)',
    )
    assert violations(tmp_path) == []
