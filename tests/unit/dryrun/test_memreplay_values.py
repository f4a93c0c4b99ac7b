"""The hooks that compute a dry run's values, without torch."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import pytest

from memreplay.programs.inside import memreplay_values


class Stack(threading.Thread):
    """A thread that notes its own stack."""

    frames: tuple[str, ...] = ()

    def run(self) -> None:
        self.frames = tuple(frame.filename for frame in traceback.extract_stack())


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Hook threads; the threads that were hooked."""
    name = "_bootstrap_inner"
    monkeypatch.setattr(threading.Thread, name, vars(threading.Thread)[name])
    found: list[Any] = []
    memreplay_values.in_threads(lambda: found.append(threading.get_ident()))
    return found


def test_threads_are_hooked_without_a_frame_in_their_stacks(entered: list[Any]) -> None:
    thread = Stack()
    thread.start()
    thread.join()
    assert entered == [threading.get_ident(), thread.ident]
    assert __file__ in thread.frames
    assert memreplay_values.__file__ not in thread.frames


def test_programs_may_wrap_what_threads_start_with(
    entered: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that name their threads do so."""
    before, named = threading.Thread._bootstrap_inner, []  # type: ignore[attr-defined]

    def wrapped(thread: threading.Thread) -> None:
        named.append(threading.get_ident())
        before(thread)

    monkeypatch.setattr(threading.Thread, "_bootstrap_inner", wrapped)
    thread = Stack()
    thread.start()
    thread.join()
    assert named == [thread.ident] == entered[1:]
    assert __file__ in thread.frames
