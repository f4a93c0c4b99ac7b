"""With --bare, tests whose packages are missing are skipped; other failures stay failures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import bare
from tests.conftest import ROOT

# A missing package that is in [dev], and one that isn't.
CONFTEST = "from tests import bare\nbare.PACKAGES = ('nosuch',)\n"
FILES = {
    "test_file.py": "import nosuch.part\n\ndef test_it():\n    pass\n",
    "test_parts.py": """
import subprocess
import pytest
from memreplay.errors import MissingExtraError

def test_import():
    import nosuch

def test_importorskip():
    pytest.importorskip("nosuch.part")

def test_extra():
    try:
        import nosuch
    except ImportError:
        raise MissingExtraError("needs it") from None

def test_another_extra():
    raise MissingExtraError("needs it")

def test_another_package():
    import nosuch_either

def test_another_skip():
    pytest.importorskip("nosuch_either", reason="a reason")

def test_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    subprocess.run(["gcc"])

def test_another_program():
    subprocess.run(["nosuch"])

def test_there():
    pass
""",
}


def run(folder: Path, *options: str) -> str:
    for name, text in {"conftest.py": CONFTEST, **FILES}.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.bare"]
    command += ["-rfsE", "--continue-on-collection-errors", *options, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout


def test_tests_that_need_missing_packages_are_skipped_with_bare(tmp_path: Path) -> None:
    said = run(tmp_path, "--bare")
    assert "3 failed, 1 passed, 6 skipped" in said, said
    assert "needs nosuch" in said
    assert "FAILED" in said
    for name in ("test_another_extra", "test_another_package", "test_another_program"):
        assert f"test_parts.py::{name}" in said


def test_tests_that_need_missing_packages_fail_without_bare(tmp_path: Path) -> None:
    said = run(tmp_path)
    assert "7 failed, 1 passed, 1 skipped, 1 error" in said, said
    assert "nosuch is missing: pip install -e '.[dev]', or --bare" in said


@pytest.mark.parametrize(
    "text, package",
    [
        ("No module named 'nosuch'", "nosuch"),
        ("No module named 'nosuch.part'", "nosuch"),
        ("could not import 'nosuch.part': a reason", "nosuch"),
        ("No module named 'other'", ""),
        ("No module named 'json'", ""),  # it is installed
        ("nosuch", ""),
    ],
)
def test_missing_package_is_found_in_the_error(
    monkeypatch: pytest.MonkeyPatch, text: str, package: str
) -> None:
    monkeypatch.setattr(bare, "PACKAGES", ("nosuch", "json"))
    assert bare.missing(text) == package


def test_missing_extra_is_found_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "EXTRAS", {"tables": "nosuch", "there": "json"})
    assert bare.asked_for("tables need it: pip install it (the extra 'tables')") == "nosuch"
    assert bare.asked_for("it needs json: pip install it (the extra 'there')") == ""
    assert bare.asked_for("pip install it (the extra 'other')") == ""
    assert bare.asked_for("tables") == ""
