"""Tests of integrations/process.py and autostart.py: a process is recorded from its first use of a
device.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from memreplay.integrations import process
from tests.unit.integrations.conftest import Program


@pytest.fixture
def queue(program: Program, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What torch.cuda calls when it's initialized."""
    found: list[Any] = []
    program.torch.cuda._queued_calls = found
    program.torch.cuda.is_initialized = lambda: False
    monkeypatch.setattr(process, "_recording", [])
    monkeypatch.setenv("MEMREPLAY_OPTIONS", "path=run.pickle")
    return found


def test_recording_begins_with_the_first_use_of_a_device(
    program: Program, queue: list[Any]
) -> None:
    import_module("memreplay.integrations.autostart")
    process.start()  # once per process
    program.forward()
    ((begin, arguments),) = queue
    begin(*arguments)
    program.forward()
    process._recording[0].end()
    assert program.files == {"run.pickle": 1}


def test_process_that_uses_a_device_already_is_recorded_at_once(
    program: Program, queue: list[Any]
) -> None:
    program.torch.cuda.is_initialized = lambda: True
    process.start(path="own.pickle")
    program.forward()
    process._recording[0].end()
    assert program.files == {"own.pickle": 1}
    assert not queue


def test_process_without_a_device_is_not_recorded(
    program: Program, queue: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    process.start()
    assert not queue
    assert not process._recording
