"""Tests of dryrun/python.py, which finds the Python that a command runs, and its torch."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from pathlib import Path

import pytest

from memreplay.dryrun.python import interpreter, torch_of
from memreplay.dryrun.runtime import NoCudaError
from memreplay.errors import UsageError
from tests.unit.dryrun.fake_torch import python_without, write_torch

LONG = "a" * 200


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder that is searched for commands. It has `python3` and `python3.13t`."""
    for name in ("python3", "python3.13t"):
        (tmp_path / name).symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def script(folder: Path, text: str, name: str = "tool") -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_python_commands_run_themselves(there: Path) -> None:
    assert interpreter(["python3", "-m", "x"]) == str(there / "python3")
    assert interpreter(["python3.13t"]) == str(there / "python3.13t")
    assert interpreter([str(there / "python3"), "x.py"]) == str(there / "python3")


@pytest.mark.parametrize(
    "first, found",
    [
        ("#!{there}/python3.13t", "python3.13t"),
        ("#! {there}/python3.13t -u", "python3.13t"),
        ("#!/usr/bin/env python3.13t", "python3.13t"),
        ("#!/usr/bin/env -S python3.13t -u -X dev", "python3.13t"),
        ("#!/usr/bin/env -S A=1 B=python3 python3.13t", "python3.13t"),
        # These are launchers that pip and uv write if a path is too long or unknown.
        ("#!/bin/sh\n'''exec' \"{there}/python3.13t\" \"$0\" \"$@\"\n' '''", "python3.13t"),
        (
            '#!/bin/sh\n\'\'\'exec\' "$(dirname -- "$(realpath -- "$0")")"/\'python3.13t\' "$0"',
            "python3.13t",
        ),
        # Scripts in other languages run some python3, or none.
        ("#!/bin/sh\npython3.13t x.py", "python3"),
        ("#!/bin/sh 'unclosed", "python3"),
        ("", "python3"),
        ("\x7fELF", "python3"),
    ],
)
def test_script_runs_the_python_named_in_its_first_line(
    there: Path, first: str, found: str
) -> None:
    tool = script(there, first.replace("{there}", str(there)))
    assert interpreter([tool]) == str(there / found)
    assert interpreter(["tool"]) == str(there / found)


def test_missing_interpreter_is_an_error(there: Path) -> None:
    tool = script(there, f"#!/gone/{LONG}/python3.9")
    assert interpreter([tool]) == f"/gone/{LONG}/python3.9"
    with pytest.raises(UsageError, match=r"python3\.9 doesn't run: .*No such file"):
        torch_of(interpreter([tool]))


def test_env_runs_the_command_that_it_is_given(there: Path) -> None:
    (there / "env").symlink_to(shutil.which("env", path="/usr/bin:/bin") or "")
    assert interpreter(["env", "A=python3", "python3.13t", "x"]) == str(there / "python3.13t")


def test_current_python_is_used_if_none_is_found(there: Path) -> None:
    tool = script(there, "#!/bin/sh")
    (there / "python3").unlink()
    assert interpreter([tool]) == sys.executable


def test_unknown_command_is_an_error(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^nothing: command not found$"):
        interpreter(["nothing"])
    monkeypatch.chdir(there)
    (there / "train.py").write_text("")
    with pytest.raises(
        UsageError, match=r": command not found; to run a script: python train\.py$"
    ):
        interpreter(["train.py"])


# ---- torch


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "packages"
    write_torch(folder, library=False)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_torch_is_found_with_its_version(packages: Path) -> None:
    assert torch_of(sys.executable)[:4] == (sys.executable, packages / "torch", "9.9", 92600)


@pytest.mark.parametrize(
    "said, version",
    [
        ("nvidia-cudnn-cu13==9.26.0.51", 92600),
        ("nvidia-cudnn-cu12==9.1.0.70 ; platform_system == 'Linux'", 90100),
        ("nvidia-cudnn-cu12==8.9.2.26", 8902),
        ("nvidia-cudnn-cu11>=8", None),
        ("nvidia-cublas-cu12==12.1.3.1", None),
    ],
)
def test_cudnn_version_is_read_from_the_metadata(
    packages: Path, said: str, version: int | None
) -> None:
    about = packages / "torch-9.9.dist-info/METADATA"
    about.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: 8.8\nRequires-Dist: {said}\n")
    found = torch_of(sys.executable)
    assert (found.version, found.cudnn) == ("8.8", version)


def test_python_says_how_packages_are_installed(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = torch_of(sys.executable).installer
    assert (found.python, found.version) == (sys.executable, sys.version_info[:2])
    assert found.machine == platform.machine()
    assert found.pip == (importlib.util.find_spec("pip") is not None)
    assert not found.managed
    # Replace what the question reads.
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.1\n")
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    (packages / "sitecustomize.py").write_text(
        "import sys, sysconfig\n"
        f"sys.prefix = sys.base_prefix = {str(tmp_path)!r}\n"
        f"sysconfig.get_path = lambda name: {str(tmp_path)!r}\n"
    )
    found = torch_of(sys.executable).installer
    assert (found.uv, found.managed) == (True, True)


def test_torch_is_not_imported(packages: Path) -> None:
    (packages / "torch/__init__.py").write_text("raise SystemExit('it ran')")
    assert torch_of(sys.executable).version == "9.9"


def test_torch_without_metadata_is_found(packages: Path) -> None:
    shutil.rmtree(packages / "torch-9.9.dist-info")
    assert torch_of(sys.executable)[1:4] == (packages / "torch", "", None)


def test_python_startup_output_is_ignored(packages: Path) -> None:
    (packages / "sitecustomize.py").write_text("print('welcome')\nprint()")
    assert torch_of(sys.executable)[1:4] == (packages / "torch", "9.9", 92600)


def test_python_without_torch_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = str(python_without(tmp_path))
    (tmp_path / "uv").touch(0o755)
    for path, words in (
        (os.defpath, rf"`{python} -m ensurepip`, then `{python} -m pip install --no-deps torch`"),
        (str(tmp_path), rf"`uv pip install --python {python} --no-deps torch`"),
    ):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(NoCudaError, match=f"/python3 has no torch; install it: {words}, then"):
            torch_of(python)


def test_program_that_is_not_python_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = script(tmp_path, "#!/bin/sh\necho 'one word\nthe last word' >&2; exit 3", "python3")
    with pytest.raises(UsageError, match=r"python3 doesn't run: the last word$"):
        torch_of(bad)
    bad = script(tmp_path, "#!/bin/sh\nexit 3", "python3")
    with pytest.raises(UsageError, match=r"python3 doesn't run: exit code 3$"):
        torch_of(bad)
    bad = script(tmp_path, "#!/bin/sh\necho something", "python3")
    with pytest.raises(UsageError, match=r"python3 doesn't run: exit code 0$"):
        torch_of(bad)
    os.chmod(bad, 0o644)
    with pytest.raises(UsageError, match=r"python3 doesn't run: .*Permission denied"):
        torch_of(bad)
