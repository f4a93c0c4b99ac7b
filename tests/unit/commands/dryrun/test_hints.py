"""A program that lacks a file or the network gets a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from memreplay.commands.dryrun.hints import hint_of
from memreplay.dryrun.installing import Installer
from memreplay.dryrun.launch import Ended
from memreplay.dryrun.python import Torch
from tests.unit.commands.dryrun.conftest import Ground

TORCH = Torch("python", Path("torch"), "9.9", None, Installer("python"))


def ended(status: int, *missing: tuple[str, str]) -> Ended:
    return Ended(status, False, False, 1.0, TORCH, 13, (), (), missing=missing)


@pytest.mark.parametrize(
    "missing, words",
    [
        (("hub", ""), "it needs files from the Hugging Face Hub. A dry run needs neither"),
        (("torch.hub", ""), "it downloads weights. A dry run needs none: pass weights=None"),
        (("network", ""), "it needs something from the network. A dry run needs no real data"),
        (("file", "a{b}.bin"), "it needs a{b}.bin, which isn't here. A dry run needs no real"),
        (("folder", "out/x.json"), "the folder of out/x.json isn't here. Make it if the program"),
        (("file", ""), "it needs a file, which isn't here. "),
    ],
)
def test_each_kind_has_a_hint(missing: tuple[str, str], words: str) -> None:
    found = hint_of(ended(1, missing, ("hub", "of another process")))
    assert found is not None
    assert found.startswith(words)
    assert "\n" not in found


def test_other_programs_get_none() -> None:
    assert hint_of(ended(1)) is None
    assert hint_of(ended(0, ("hub", ""))) is None  # another process went on
    assert hint_of(ended(1, ("of a newer version", ""))) is None


def test_program_that_fails_early_gets_the_hint(ground: Ground) -> None:
    ground.program("open('train.bin')")
    done = ground.ask()
    assert (done.exit_code, done.stdout) == (6, "")
    assert done.stderr.endswith(
        "memreplay: error: the program ended with exit code 1 before it used a GPU: it needs"
        " train.bin, which isn't here. A dry run needs no real data or weights: use tensors of the"
        " same shapes, or copy the file\n"
    )


def test_program_that_fails_later_gets_the_hint(ground: Ground) -> None:
    ground.program("import torch; torch.take(1 << 20); open('train.bin')")
    found, code = ground.told()
    assert (code, found["verdict"]) == (6, "not_known")
    assert found["hint"].startswith("it needs train.bin, which isn't here.")
    assert "warning: it needs train.bin, which isn't here." in ground.ask().stdout
