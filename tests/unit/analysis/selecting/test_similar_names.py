"""near: suggesting similar names for a name that no frame matches."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.selecting.similar_names import similar_names
from tests import build
from tests.build import SnapshotBuilder

TORCH = ("call", "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", 5)
EINOPS = ("einsum", "/opt/venv/lib/python3.12/site-packages/einops/einops.py", 907)


def snap(*frames: build.FrameSpec) -> mr.Snapshot:
    return mr.open(build.dump(SnapshotBuilder().alloc(512, 9, frames=list(frames)).build()))


CODE = snap(
    ("forward", "/home/ana/gpt/model.py", 72),
    ("forward", "/home/ana/gpt/model.py", 399),
    ("train", "C:\\gpt\\train.py", 10),
    TORCH,
    EINOPS,
)


@pytest.mark.parametrize(
    "asked, near",
    [
        ("model.py:70", "near it: model.py:72 (forward), model.py:399 (forward)"),
        (r"model\.py:398", "near it: model.py:399 (forward), model.py:72 (forward)"),
        ("modle.py:72", "near it: model.py:72 (forward), model.py:399 (forward)"),
        ("train.py:1", "near it: train.py:10 (train)"),
        ("forwad", "near it: forward"),
        ("einsums", "near it: einsum"),
        ("zzz", "the file has code in model.py, train.py, einops.py"),
        ("module.py:5", "near it: model.py:72 (forward), model.py:399 (forward)"),
        ("(allocated before the recording)", "memory from before the recording has none"),
    ],
)
def test_lines_come_before_names(asked: str, near: str) -> None:
    assert similar_names(CODE, asked).startswith(near)


def test_plumbing_frames_are_not_suggested() -> None:
    assert similar_names(snap(TORCH), "forward") == "the recording has no Python frames"


def test_long_names_from_the_file_are_cut() -> None:
    one = snap(("f" * 500, "/home/ana/" + "m" * 500 + ".py", 1))
    assert len(similar_names(one, "zzz")) < 120
    assert len(similar_names(one, "m" * 500 + ".py:7")) < 220


def test_long_names_and_words_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def close(word: str, names: list[str], *_more: object) -> list[str]:
        lengths.extend(map(len, [word, *names]))
        return []

    monkeypatch.setattr("memreplay.analysis.selecting.similar_names.get_close_matches", close)
    code = snap(("f" * 5000, "/a/" + "g" * 5000 + ".py", 1), ("train", "/a/train.py", 7))
    for asked in ("a" * 100_000, "a" * 5000 + ".py:3", "b.py:3"):
        assert "the file has code in " in similar_names(code, asked)
    assert lengths
    assert max(lengths) <= 200
