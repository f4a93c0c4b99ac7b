"""Check the layer rule, and rules about each file's form, in the source text. ci/layers.txt lists
the layers, lowest first.

A module may import from its own layer and lower ones, and no two folders may import each other,
directly or indirectly. docs/architecture.md quotes that list.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "memreplay"
LIST = Path(__file__).parents[1] / "ci" / "layers.txt"


def ranks() -> dict[str, int]:
    """Return the rank of each layer and, if a layer has stages, of each stage (engine.base)."""
    found: dict[str, int] = {}
    rank = 0
    for line in LIST.read_text(encoding="utf-8").splitlines():
        layer, colon, stages = line.rpartition(":")
        if colon:
            found[layer] = rank
        for stage in stages.split("→"):
            for name in map(str.strip, stage.split(",")):
                # Top-level files, named with a leading underscore.
                found[f"{layer}.{name}" if colon and not name.startswith("_") else name] = rank
            rank += 1
    return found


RANK = ranks()
STAGED = {name.partition(".")[0] for name in RANK if "." in name}

PURE = ("analysis", "render")
# Folders and files that may import NumPy at load: they give users arrays, or exchange data with
# other programs. Everything else runs without NumPy.
WITH_NUMPY = (
    *("export.tables", "export.viewers.torch_categories"),
    *("snapshot.arrow_columns", "snapshot.columns"),
)
LAZY = (
    *("duckdb", "rich", "plotille", "pyarrow", "matplotlib", "zstandard", "fsspec", "torch"),
    *("textual", "distributed", "dask", "cloudpickle", "IPython", "mcp", "mcp_types"),
)
# Workers that write files load this module before their memory is limited, so that its cost isn't
# attributed to a file.
WRITING = {("commands", "fleet", "writing")}
# These modules are built on Textual's classes, so commands load them once there is a terminal.
DRAWN = {("live", "app")} | {
    ("explore", name)
    for name in (
        "app",
        "command_palette",
        "details",
        "foot",
        "help_screen",
        "legend",
        "palette",
        "panes",
        "prompt",
        "ranks_app",
        "showing",
        "widgets",
    )
}
# This module uses the Model Context Protocol SDK, so its command loads it when the command runs.
SERVING = {("mcp", "server")}
NOT_IN_NATIVE = ("numpy", "rich", "click", "torch")

IO_CALLS = ("open", "print", "input")
IO_METHODS = ("open", "write_text", "write_bytes")
IO_STREAMS = ("stdin", "stdout", "stderr")
IO_MODULES = ("subprocess", "requests", "urllib", "http", "socket", "shutil", "tempfile", "logging")

MAX_PYX_LINES = 700
# Folders whose files have no import cycles, not even inside functions.
NO_CIRCLES = ("snapshot", "io", "dryrun", "programs", "recording", "workers")


class Import(NamedTuple):
    """An import: the dotted name, its line, and whether it runs when the module is loaded."""

    name: str
    line: int
    at_load: bool


class Module(NamedTuple):
    """A source file in the package."""

    path: Path
    parts: tuple[str, ...]  # path in the package: ("analysis", "peak"), ("__init__",)
    text: str

    @property
    def layer(self) -> str:
        return layer_of(self.parts)

    @property
    def top(self) -> str:
        return self.parts[0]

    @property
    def folder(self) -> str:
        """Return the module's folder; a top-level file is its own unit."""
        return ".".join(self.parts[:-1] or self.parts)

    @property
    def package(self) -> tuple[str, ...]:
        """Return the package that relative imports start from."""
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
    """Return every import in a .py file, including `importlib.import_module("…")`."""

    def visit(node: ast.AST, at_load: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_load)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node.level, node.module or "")
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, at_load)
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
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
    """Return every import and cimport in a .pyx or .pxd file, by searching its text."""
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


@cache  # cached, because half of the rules use it
def imports(module: Module) -> tuple[Import, ...]:
    of_suffix = python_imports if module.path.suffix == ".py" else cython_imports
    return tuple(of_suffix(module))


def layer_of(parts: tuple[str, ...]) -> str:
    """Return the layer or stage of a module path."""
    first = parts[0] if parts else "__init__"
    staged = first in STAGED and len(parts) > 1 and parts[1] != "__init__"
    return f"{first}.{parts[1]}" if staged else first


def target(name: str) -> tuple[str, ...] | None:
    """Return an imported name's module path; None if it's outside the package."""
    top, *rest = name.split(".")
    if top != PACKAGE:
        return None
    return tuple(rest)


# --- the rules: each yields one line per violation -----------------------------------------------


def against_the_layers(package: Path) -> Iterator[str]:
    for module in modules(package, ".py", ".pyx", ".pxd"):
        if module.layer not in RANK:
            yield module.at(1, f"`{module.layer}` has no layer; give it one in {LIST.name}")
            continue
        for name, line, _ in imports(module):
            place = target(name)
            # Any other name is public: `from memreplay import Snapshot`.
            if place is not None and RANK[module.layer] < RANK.get(
                layer_of(place), RANK["__init__"]
            ):
                yield module.at(line, f"`{module.layer}` imports {name} of a later layer")


def circles(package: Path) -> Iterator[str]:
    """Return folders, and files in NO_CIRCLES, that import each other, directly or indirectly."""
    found = {".".join(path.relative_to(package).parts) for path in package.rglob("*/")}
    yield from _circles(package, found, "folders")
    for folder in NO_CIRCLES:
        files = {f"{folder}.{path.stem}" for path in (package / folder).glob("*.py")}
        yield from _circles(package, files, "files")


def _circles(package: Path, nodes: set[str], kind: str) -> Iterator[str]:
    reached: dict[str, set[str]] = defaultdict(set)
    why: dict[tuple[str, str], str] = {}
    for module in modules(package, ".py", ".pyx", ".pxd"):
        here = ".".join(module.parts) if kind == "files" else module.folder
        if len(module.parts) == 1 or here not in nodes:
            continue
        for name, line, _ in imports(module):
            place = target(name) or ()
            ways = [".".join(place[:n]) for n in range(len(place), 0, -1)]
            other = next((way for way in ways if way in nodes), None)
            if other is not None and other != here:
                reached[here].add(other)
                why[here, other] = module.at(line, f"imports {name}")
    for node in sorted(reached):
        seen, left = set(), list(reached[node])
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += reached[one]
        if node in seen:
            back = min(one for one in reached[node] if one == node or one in seen)
            yield f"{why[node, back]}: `{node}` is in a circle of {kind}"


def native_dependencies(package: Path) -> Iterator[str]:
    for module in modules(package, ".pyx", ".pxd"):
        for name, line, _ in imports(module):
            if name.partition(".")[0] in NOT_IN_NATIVE:
                yield module.at(line, f"native code imports {name}")


def starred(package: Path) -> Iterator[str]:
    """Return star imports, because they hide where a name comes from."""
    for module in modules(package, ".py", ".pyx", ".pxd"):
        for name, line, _ in imports(module):
            if name.endswith(".*"):
                yield module.at(line, f"imports {name}; name what is used")


def impure(package: Path) -> Iterator[str]:
    for module in modules(package, ".py"):
        if module.top not in PURE:
            continue
        for name, line, _ in imports(module):
            if name.partition(".")[0] in IO_MODULES or name in {f"sys.{s}" for s in IO_STREAMS}:
                yield module.at(line, f"imports {name}; {module.top} does no I/O")
        for node in ast.walk(ast.parse(module.text)):
            if isinstance(node, ast.Call):
                called = node.func
                if isinstance(called, ast.Name) and called.id in IO_CALLS:
                    yield module.at(node.lineno, f"calls {called.id}(); {module.top} does no I/O")
                elif isinstance(called, ast.Attribute) and called.attr in IO_METHODS:
                    yield module.at(
                        node.lineno, f"calls .{called.attr}(); {module.top} does no I/O"
                    )
            elif isinstance(node, ast.Attribute) and node.attr in IO_STREAMS:
                yield module.at(node.lineno, f"uses {ast.unparse(node)}; {module.top} does no I/O")


def heavy_at_load(package: Path) -> Iterator[str]:
    for module in modules(package, ".py"):
        for name, line, at_load in imports(module):
            top = name.partition(".")[0]
            if at_load and top in LAZY and module.parts not in DRAWN | WRITING | SERVING:
                yield module.at(
                    line, f"imports {top} at load; import it in the function that uses it"
                )
            if at_load and top == "numpy" and not ".".join(module.parts).startswith(WITH_NUMPY):
                yield module.at(line, "imports numpy at load; use vectors, or import it late")


def handles(package: Path) -> Iterator[str]:
    """Return files that read the engine's data directly, which only `snapshot` may. Analysis may
    only pass it on to the engine.
    """
    for module in modules(package, ".py"):
        if module.top != "analysis":
            continue
        for node in ast.walk(ast.parse(module.text)):
            if not isinstance(node, ast.Assign | ast.Attribute | ast.Subscript):
                continue
            kept = node.value
            if isinstance(kept, ast.Attribute) and kept.attr == "native":
                yield module.at(
                    node.lineno, f"looks into {ast.unparse(kept)}; ask `snapshot` for it"
                )


def nameless(folder: Path) -> Iterator[str]:
    """Return non-empty files whose first line doesn't say what they're for."""
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
    circles,
    native_dependencies,
    starred,
    impure,
    heavy_at_load,
    handles,
    nameless,
    oversized,
)


def violations(package: Path) -> list[str]:
    return [line for rule in PACKAGE_RULES for line in rule(package)]


# --- the tests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", PACKAGE_RULES, ids=lambda rule: rule.__name__)
def test_package_keeps_the_layer_rule(rule, root: Path) -> None:  # type: ignore[no-untyped-def]
    package = root / "src" / PACKAGE
    assert list(modules(package, ".py")), f"no source in {package}"
    found = list(rule(package))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", ["tests", "bench"])
def test_first_line_of_every_other_file_says_what_it_is_for(folder: str, root: Path) -> None:
    found = list(nameless(root / folder))
    assert not found, "\n".join(found)


def test_architecture_page_quotes_the_list_of_layers(root: Path) -> None:
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = text.partition("## The import rule\n\n")[2].partition("\n\n")[0]
    said = [line.strip() for line in block.splitlines()]
    assert said == LIST.read_text(encoding="utf-8").splitlines()


def test_there_are_nine_layers() -> None:
    assert len(LIST.read_text(encoding="utf-8").splitlines()) == 9


def test_names_in_the_architecture_page_exist(root: Path) -> None:
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 300
    named = re.findall(
        r"`([a-z]+/[\w./-]+\.p[yx][xd]?|(?:src|docs|tests|bench|ci)/[\w./-]+)`", text
    )
    tops = {path.name for path in root.iterdir()}
    named = [one if one.split("/")[0] in tops else f"src/memreplay/{one}" for one in named]
    absent = [one for one in named if "NAME" not in one and not (root / one).exists()]
    assert len(named) > 30
    assert not absent


def plant(package: Path, name: str, body: str) -> None:
    path = package / name
    path.parent.mkdir(parents=True, exist_ok=True)
    comment = '"""A planted file."""\n' if path.suffix == ".py" else "# A planted file.\n"
    path.write_text(comment + body, encoding="utf-8")


# A file, the code planted from its second line on, and the checker's message.
PLANTED = [
    ("analysis/a.py", "from memreplay.render import text", "analysis/a.py:2: `analysis` imports"),
    ("analysis/a.py", "from ..commands import peak", "analysis/a.py:2: `analysis` imports"),
    ("analysis/__init__.py", "from .. import commands", "analysis/__init__.py:2: `analysis` imp"),
    ("analysis/a.py", "from memreplay import Snapshot", "imports memreplay.Snapshot of a later"),
    (
        "snapshot/s.py",
        "def f():\n    import memreplay.analysis.trust",
        "snapshot/s.py:3: `snapshot` imp",
    ),
    (
        "snapshot/s.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..analysis import trust",
        "snapshot/s.py:4: `snapshot` imports",
    ),
    (
        "render/r.py",
        "from importlib import import_module\nm = import_module('memreplay.commands.peak')",
        "render/r.py:3: `render` imports",
    ),
    ("errors.py", "import memreplay", "errors.py:2: `errors` imports"),
    ("errors.py", "from memreplay.io import sources", "errors.py:2: `errors` imports"),
    ("helpers.py", "", "helpers.py:1: `helpers` has no layer"),
    ("engine/more/n.pyx", "", "engine/more/n.pyx:1: `engine.more` has no layer"),
    ("commands/c.py", "from memreplay import open", "commands/c.py:2: `commands` imports"),
    ("engine/base/n.pyx", "from memreplay._core import f", "n.pyx:2: `engine.base` imports"),
    (
        "engine/replay/n.pxd",
        "from ..query cimport (\n    a)",
        "engine/replay/n.pxd:2: `engine.replay` imports",
    ),
    ("engine/base/n.pxd", "from memreplay.engine.base.m cimport *", "n.pxd:2: imports memreplay"),
    ("_core.pyx", "import memreplay.snapshot", "_core.pyx:2: `_core` imports"),
    ("_core.pyx", "import numpy as np", "_core.pyx:2: native code imports numpy"),
    ("_core.pyx", "    cimport numpy", "_core.pyx:2: native code imports numpy"),
    ("engine/read/n.pyx", "from torch cimport x", "n.pyx:2: native code imports torch"),
    ("render/r.py", "x = open('f')", "render/r.py:2: calls open()"),
    (
        "render/r.py",
        "def f(path):\n    path.write_text('')",
        "render/r.py:3: calls .write_text()",
    ),
    ("analysis/a.py", "print('x')", "analysis/a.py:2: calls print()"),
    ("analysis/a.py", "import sys\nsys.stdout.write('x')", "analysis/a.py:3: uses sys.stdout"),
    ("analysis/a.py", "from sys import stdout", "analysis/a.py:2: imports sys.stdout"),
    ("render/r.py", "def f():\n    import subprocess", "render/r.py:3: imports subprocess"),
    ("commands/c.py", "import rich.table", "commands/c.py:2: imports rich at load"),
    ("io/s.py", "try:\n    import zstandard\nexcept ImportError: ...", "imports zstandard at"),
    ("analysis/a.py", "import numpy as np", "analysis/a.py:2: imports numpy at load"),
    ("__init__.py", "from numpy import ndarray", "__init__.py:2: imports numpy at load"),
    ("analysis/a.py", "x = snap.native.n_frames", "analysis/a.py:2: looks into snap.native"),
    ("analysis/a.py", "native = replay.native", "analysis/a.py:2: looks into replay.native"),
    ("engine/read/n.pyx", "\n" * MAX_PYX_LINES, "701 lines, 700 allowed"),
]


def test_cycle_of_folders_is_caught(tmp_path: Path) -> None:
    plant(tmp_path, "analysis/a/x.py", "from memreplay.analysis.b import y")
    plant(tmp_path, "analysis/b/y.py", "from ..c.z import f")
    plant(tmp_path, "analysis/c/z.py", "def f():\n    from memreplay.analysis.a.x import g")
    plant(tmp_path, "analysis/d/w.py", "from memreplay.analysis.a import x")
    found = list(circles(tmp_path))
    assert len(found) == 3
    assert "analysis/a/x.py:2: imports memreplay.analysis.b.y: `analysis.a` is in a" in found[0]


def test_cycle_of_files_is_caught(tmp_path: Path) -> None:
    plant(tmp_path, "snapshot/replay.py", "from memreplay.snapshot.usage import Usage")
    plant(
        tmp_path,
        "snapshot/usage.py",
        "def f():\n    from memreplay.snapshot.replay import Replay",
    )
    plant(tmp_path, "snapshot/model.py", "from memreplay.snapshot import usage")
    first, second = circles(tmp_path)
    assert "replay.py:2: imports memreplay.snapshot.usage.Usage: `snapshot.replay` is in a" in first
    assert second.endswith("`snapshot.usage` is in a circle of files")


@pytest.mark.parametrize("name, body, expected", PLANTED)
def test_planted_violation_is_caught(name: str, body: str, expected: str, tmp_path: Path) -> None:
    plant(tmp_path, name, body)
    (found,) = violations(tmp_path)
    assert expected in found


@pytest.mark.parametrize("first", ["", "import os", "# cython: language_level=3", '"""', "# x"])
def test_empty_first_line_is_caught(first: str, tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text(f"{first}\nx = 1\n", encoding="utf-8")
    (found,) = nameless(tmp_path)
    assert "errors.py:1: the first line" in found


def test_allowed_imports_pass(tmp_path: Path) -> None:
    plant(tmp_path, "errors.py", "from dataclasses import dataclass")
    plant(tmp_path, "snapshot/columns.py", "import numpy as np\nimport memreplay._core as _core")
    plant(
        tmp_path,
        "analysis/a.py",
        "from .b import f\nfrom .. import snapshot\nf(replay.native)",
    )
    plant(tmp_path, "render/r.py", "from ..analysis import a\ndef f():\n    import rich, numpy")
    plant(tmp_path, "__init__.py", "from .snapshot import Snapshot")
    plant(
        tmp_path,
        "commands/c.py",
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import numpy\n    import rich\nprint(open)",
    )
    plant(tmp_path, "__main__.py", "from memreplay.commands import main")
    plant(
        tmp_path,
        "engine/base/a.pxd",
        "from libc.stdint cimport uint64_t\nfrom .b cimport (\n    c)",
    )
    plant(tmp_path, "engine/read/n.pyx", "from memreplay._core cimport Tables")
    plant(
        tmp_path,
        "_core.pyx",
        '"""Text:\nimport numpy\n"""\nfrom memreplay.engine.base.a cimport (\n    b, # c\n)',
    )
    assert violations(tmp_path) == []
