"""Tests of the archives of saved inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guided import corpus


def test_saved_corpus_reads_back_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "KEPT", tmp_path / "kept")
    assert corpus.kept("read") == []
    corpus.keep("read", [b"one", b"two", b"one"])
    archive = (tmp_path / "kept/read.zip").read_bytes()
    assert sorted(corpus.kept("read")) == [b"one", b"two"]
    corpus.keep("read", [b"two", b"one"])
    assert (tmp_path / "kept/read.zip").read_bytes() == archive


def test_json_seeds_lack_their_opening_bracket() -> None:
    """The fuzz target adds the opening bracket."""
    assert all(not data.startswith(b"{{") for data in corpus.beginning("text"))
    assert any(data.lstrip().startswith(b'"segments"') for data in corpus.beginning("text"))


def test_spread_writes_each_input_once(tmp_path: Path) -> None:
    corpus.spread([b"one", b"two", b"one"], tmp_path / "read")
    assert sorted(path.read_bytes() for path in (tmp_path / "read").iterdir()) == [b"one", b"two"]
