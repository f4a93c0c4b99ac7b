"""Tests of commands/gate/runner.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from memreplay.commands.gate.runner import append_summary, repository_paths


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "work" / "gpt"
    for name in ("model.py", "src/model.py", "src/gpt/layers.py", "a b/ü.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(root))
    return root


def test_paths_are_relative_to_the_repository(repository: Path) -> None:
    find = repository_paths()
    assert find(f"{repository}/src/model.py") == "src/model.py"
    assert find("/home/ana/elsewhere/src/model.py") == "src/model.py"
    assert find("/home/ana/elsewhere/model.py") == "model.py"
    assert find("model.py") == "model.py"
    assert find("./src/model.py") == "src/model.py"
    assert find("C:\\work\\src\\gpt\\layers.py") == "src/gpt/layers.py"
    assert find("/x/a b/ü.py") == "a b/ü.py"
    assert find("/x/layers.py") is None
    assert find(f"{repository}/gone.py") is None


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "..",
        "/x/../../etc/passwd",
        "src/../model.py",
        "model.py\0",
        "\ud800/x.py",
        "x" * 10_000,
        "a/" * 100 + "model.py",
        "/src",
        "??",
        "<frozen x>",
    ],
)
def test_files_outside_the_repository_have_no_path(repository: Path, path: str) -> None:
    assert repository_paths()(path) is None


def test_working_folder_is_the_repository_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").touch()
    assert repository_paths()("/a/b/x.py") == "x.py"


def test_summary_is_appended_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    append_summary(lambda: "nowhere")
    path = tmp_path / "summary"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    append_summary(lambda: "one")
    append_summary(lambda: "two")
    assert path.read_text(encoding="utf-8") == "one\ntwo\n"
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "such"))
    append_summary(lambda: "three")
    assert "cannot write the summary" in capsys.readouterr().err


def test_summary_is_cut_to_the_runners_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    line = "\n".join(["| ü |"] * 1000)
    long = "### failed\n\n" + "\n\n".join([line] * 500)
    for before in (b"", b"x" * 5000, b"x" * ((1 << 20) - 10), b"x" * (3 << 20)):
        path.write_bytes(before)
        append_summary(lambda: long)
        whole = path.read_bytes()
        assert len(whole) <= max(1 << 20, len(before))
        assert whole.startswith(before)
        added = whole[len(before) :].decode()
        if len(before) < 1 << 19:
            assert added.startswith("### failed\n\n| ü |\n")
            assert added.endswith("| ü |\n\nThe rest is too long for a step summary.\n")
        else:
            assert not added
