"""A folder with a torch of the tests' own, where programs are run dry."""

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
    """Runs `memreplay dryrun` in a folder of its own."""

    def __init__(self, runner: CliRunner, folder: Path, packages: Path) -> None:
        self.runner = runner
        self.folder = folder
        self.torch = write_torch(packages)
        self.packages = packages

    def program(self, text: str, name: str = "prog.py") -> Path:
        """A script beside which snapshots are written."""
        path = self.folder / name
        path.write_text(text)
        return path

    def ask(self, *options: str, program: tuple[str, ...] = ()) -> Result:
        """Run prog.py, or another command, with these options of memreplay's."""
        command = program or (sys.executable, "prog.py")
        return self.runner.invoke(app, ["dryrun", *options, "--", *command])

    def told(self, *options: str, program: tuple[str, ...] = ()) -> tuple[dict[str, Any], int]:
        """The same as JSON, checked against its schema; and the exit code."""
        done = self.ask("--format", "json", *options, program=program)
        assert done.stdout, done.stderr
        found = json.loads(done.stdout)
        check_against(found["schema"].removeprefix("memreplay.").replace("/", "-") + ".json", found)
        return found, done.exit_code

    def left(self) -> list[str]:
        """The names of all files that there are, but for the programs."""
        return sorted(path.name for path in self.folder.iterdir() if path.suffix != ".py")


@pytest.fixture
def ground(runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    folder, packages, passing = (tmp_path / name for name in ("work", "packages", "tmp"))
    for one in (folder, packages, passing):
        one.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setenv("TMPDIR", str(passing))
    monkeypatch.setattr("tempfile.tempdir", None)  # it is kept once it was asked for
    for name in ("RANK", "WORLD_SIZE", "LD_PRELOAD", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    yield Ground(runner, folder, packages)
    # Whatever happened.
    assert list(passing.iterdir()) == []
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
