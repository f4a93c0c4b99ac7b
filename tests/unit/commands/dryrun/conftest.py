"""A folder for dry runs of programs that use the tests' own torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests.unit.dryrun.fake_torch import write_torch
from tests.unit.render.schemas import check_against


class Ground:
    """A folder in which `memreplay dryrun` runs."""

    def __init__(self, runner: CliRunner, folder: Path, packages: Path) -> None:
        self.runner = runner
        self.folder = folder
        self.torch = write_torch(packages)
        self.packages = packages

    def program(self, text: str, name: str = "prog.py") -> Path:
        """Write a script. Its snapshots are written next to it."""
        path = self.folder / name
        path.write_text(text)
        return path

    def ask(self, *options: str, program: tuple[str, ...] = ()) -> Result:
        """Run prog.py, or another command, with these memreplay options."""
        command = program or (sys.executable, "prog.py")
        return self.runner.invoke(app, ["dryrun", *options, "--", *command])

    def told(self, *options: str, program: tuple[str, ...] = ()) -> tuple[dict[str, Any], int]:
        """Run prog.py with --json, check the output against the schema, and return the output and
        exit code.
        """
        done = self.ask("--format", "json", *options, program=program)
        assert done.stdout, done.stderr
        found = json.loads(done.stdout)
        check_against(found["schema"].removeprefix("memreplay.").replace("/", "-") + ".json", found)
        return found, done.exit_code

    def left(self) -> list[str]:
        """Return the names of all files except programs."""
        return sorted(path.name for path in self.folder.iterdir() if path.suffix != ".py")


@pytest.fixture
def ground(runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    folder, packages, passing = (tmp_path / name for name in ("work", "packages", "tmp"))
    for one in (folder, packages, passing):
        one.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setenv("TMPDIR", str(passing))
    monkeypatch.setattr("tempfile.tempdir", None)  # kept for later calls
    for name in ("RANK", "WORLD_SIZE", "LD_PRELOAD", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    yield Ground(runner, folder, packages)
    # Dry runs must never leave temporary files.
    assert list(passing.iterdir()) == []
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
