"""The standard modules that the page carries are those that its packages import."""

from __future__ import annotations

import ast
import importlib.util
import marshal
import zipfile
from codecs import lookup
from collections.abc import Iterator
from io import BytesIO
from types import CodeType, ModuleType

import pytest

from tests.conftest import ROOT
from tests.web.conftest import SINGLE

LIBRARY = {
    "encodings/__init__.py": b"",
    "text.py": b"import string\nfrom email import policy\ndef f():\n    import late\n",
    "string/__init__.py": b"from .templates import Template\nfrom . import parts\n",
    "string/templates.py": b"import unused",
    "string/parts.py": b"from .. import nothing",
    "email/__init__.py": b"",
    "email/policy.py": b"",
    "late.py": b"",
    "unused.py": b"",
    "apart.py": b"",
    "started/__init__.py": b"",
}


@pytest.fixture(scope="module")
def pack() -> ModuleType:
    """Load web/pack.py, which isn't part of the package."""
    return loaded()


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pack", ROOT / "web" / "pack.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def few(pack: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use these lists of modules."""
    monkeypatch.setattr(pack, "UNUSED", {"email", "unused"})
    monkeypatch.setattr(pack, "ENCODINGS", {"__init__"})
    monkeypatch.setattr(pack, "BY_NAME", {"encodings"})


@pytest.mark.browser
def test_page_is_small() -> None:
    if not SINGLE.exists():
        pytest.skip("the page isn't built: ci/web builds it")
    assert SINGLE.stat().st_size <= 9_000_000


def test_modules_are_followed_but_for_unused_ones(pack: ModuleType) -> None:
    found = pack.closure(LIBRARY, {"started"}, {"text.f"})
    assert found == set(LIBRARY) - {"apart.py", "unused.py", "email/__init__.py", "email/policy.py"}


def test_what_the_start_loaded_is_kept(pack: ModuleType) -> None:
    assert pack.closure(LIBRARY, {"email.policy"}, set()) == {
        "encodings/__init__.py",
        "email/__init__.py",
        "email/policy.py",
    }


def test_bytecode_runs_without_lines_and_docstrings(pack: ModuleType) -> None:
    source = b'"""Doc."""\ndef answer():\n    """More."""\n    return 6 * 7\n'
    packed = pack.archive_of({"one.py": source, "two.css": b"body {}"})
    with zipfile.ZipFile(BytesIO(packed)) as archive:
        assert archive.namelist() == ["one.pyc", "two.css"]
        code = marshal.loads(archive.read("one.pyc")[16:])
    assert isinstance(code, CodeType)
    names: dict[str, object] = {}
    exec(code, names)
    assert names.get("__doc__") is None
    answer = names["answer"]
    assert callable(answer)
    assert (answer(), answer.__doc__) == (42, None)
    assert code.co_linetable == b""


@pytest.mark.parametrize(
    "name, kept",
    [
        ("memreplay/_core.abi3.so", True),
        ("memreplay/commands/peak/find.py", True),
        ("memreplay/commands/record/command.py", False),
        ("memreplay/commands/dryrun/command.py", False),
        ("memreplay/commands/dryrun/running.py", True),
        ("memreplay/commands/recorded.py", True),
        ("memreplay/engine/read/vm.pyi", False),
        ("memreplay/pages/oom.md", True),
        ("memreplay/pages/reference/commands.md", False),
        ("memreplay-0.2.0.dist-info/METADATA", True),
        ("memreplay-0.2.0.dist-info/RECORD", False),
        ("click-8.dist-info/METADATA", False),
    ],
)
def test_files_that_a_browser_needs(pack: ModuleType, name: str, kept: bool) -> None:
    assert pack.is_kept(name) is kept


def test_codecs_that_memreplay_names_are_kept() -> None:
    """Python finds them by name, so no import tells."""
    kept = {lookup(name).name for name in loaded().ENCODINGS - {"__init__", "aliases"}}
    missing = {}
    for path in (ROOT / "src" / "memreplay").rglob("*.py"):
        if not loaded().is_kept(path.relative_to(ROOT / "src").as_posix()):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            for name in named(node):
                if lookup(name).name not in kept:
                    missing[name] = path.name
    assert missing == {}


def named(node: ast.AST) -> Iterator[str]:
    """Yield the codec in a call like text.encode("ascii") or open(path, encoding="ascii")."""
    if not isinstance(node, ast.Call):
        return
    function = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    given = [one.value for one in node.keywords if one.arg == "encoding"]
    given += node.args[:1] if function in ("encode", "decode") else []
    for one in given:
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value != "unicode":
            yield one.value
