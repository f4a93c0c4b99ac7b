"""Tests of recording/listening.py with a real torch."""

from __future__ import annotations

import os

import torch

from memreplay.recording.listening import shares_and_sequence


def test_programs_hooks_for_saved_tensors_are_not_called() -> None:
    """A recording may begin inside a context that offloads activations."""
    saved: list[object] = []

    def pack(tensor: object) -> object:
        saved.append(tensor)
        return tensor

    folder = os.path.dirname(torch.__file__)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        found = shares_and_sequence(torch, folder)
    assert saved == []
    assert found == shares_and_sequence(torch, folder)
    assert found[1] is not None
