"""What has to be known of a PyTorch, and what a run says of itself."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from memreplay.recording.facts import (
    OLD_SYMBOLIZE,
    SYMBOLIZE,
    name_frames_quickly,
    stacks_for,
    tracing_slots,
)
from tests.unit.dryrun.fake_torch import HEADER
from tests.unit.recording.stand_in import make_torch


@pytest.mark.parametrize(
    "header, slots",
    [
        (HEADER, (4, 5, 1)),
        (HEADER.replace("c10::DeviceType device_type,", ""), (4, 5, 0)),
        (HEADER.replace("_deallocation", "_something"), None),
        (HEADER.replace("PyInterpreterVTable", "Another"), None),
        ("", None),
    ],
)
def test_where_the_functions_are(
    tmp_path: Path, header: str, slots: tuple[int, int, int] | None
) -> None:
    path = tmp_path / "include/c10/core/impl/PyInterpreter.h"
    assert tracing_slots(str(tmp_path)) is None
    path.parent.mkdir(parents=True)
    path.write_text(header)
    assert tracing_slots(str(tmp_path)) == slots


def test_cpp_frames_are_recorded_where_they_are_cheap(
    linux: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch = make_torch(tmp_path)
    assert stacks_for("auto", torch) == "all"
    assert stacks_for("python", torch) == "python"
    # Versions before 2.4 ask addr2line, which takes minutes.
    old = make_torch(tmp_path / "old", "std::vector<Frame> symbolize(const std::vector<void*>&);")
    assert stacks_for("auto", old) == "python"
    assert stacks_for("auto", str(tmp_path / "no headers")) == "python"
    assert stacks_for("all", old) == "all"


@pytest.mark.parametrize("system, machine", [("win32", "AMD64"), ("linux", "aarch64")])
def test_other_platforms_cannot_unwind(
    linux: pytest.MonkeyPatch, tmp_path: Path, system: str, machine: str
) -> None:
    linux.setattr(sys, "platform", system)
    linux.setattr(platform, "machine", lambda: machine)
    assert stacks_for("auto", make_torch(tmp_path)) == "python"


@pytest.mark.parametrize(
    "name, value, stacks",
    [
        (SYMBOLIZE, "dladdr", "all"),
        (SYMBOLIZE, "fast", "all"),
        (SYMBOLIZE, "addr2line", "python"),
        (OLD_SYMBOLIZE, "1", "all"),
        (OLD_SYMBOLIZE, "0", "python"),
    ],
)
def test_what_the_user_chose_stays(
    linux: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str, stacks: str
) -> None:
    linux.setenv(name, value)
    assert stacks_for("auto", make_torch(tmp_path)) == stacks
    assert not name_frames_quickly()
    assert os.environ[name] == value


def test_frames_are_named_inside_of_the_process(linux: pytest.MonkeyPatch) -> None:
    assert name_frames_quickly()
    assert os.environ[SYMBOLIZE] == "dladdr"
