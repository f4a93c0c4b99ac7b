"""Tests of commands/shared/config.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from memreplay.analysis.categories.rules import DEFAULT_RULES
from memreplay.commands.shared.config import MAX_BYTES, Config, ConfigChoice
from memreplay.errors import UsageError

RULE = '[[category]]\nname = "mine"\nframes = "mine"\n'


def written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, two below the one that is torn down."""
    found = tmp_path / "one" / "two"
    found.mkdir(parents=True)
    monkeypatch.chdir(found)
    return found


def test_none_is_no_error(folder: Path) -> None:
    assert ConfigChoice().load() == Config()
    assert ConfigChoice().rules() == DEFAULT_RULES


@pytest.mark.parametrize("above", [0, 1, 2])
def test_the_nearest_folder_that_has_one(folder: Path, above: int) -> None:
    at = [folder, *folder.parents][above]
    path = written(at / "memreplay.toml", "category_defaults = false")
    written(folder.parents[1] / "pyproject.toml", "[tool.memreplay]\ncategory_defaults = true")
    assert ConfigChoice().load() == Config({"category_defaults": False}, path)


def test_a_pyproject_counts_where_it_speaks_of_memreplay(folder: Path) -> None:
    written(folder / "pyproject.toml", "[tool.other]\nx = 1")
    path = written(folder.parent / "pyproject.toml", "[[tool.memreplay.gate]]\nx = 1")
    assert ConfigChoice().load() == Config({"gate": [{"x": 1}]}, path)


def test_the_own_file_goes_before_pyproject(folder: Path) -> None:
    written(folder / "pyproject.toml", "[tool.memreplay]\ncategory_defaults = true")
    path = written(folder / "memreplay.toml", "")
    assert ConfigChoice().load() == Config({}, path)


def test_a_file_that_is_named(folder: Path) -> None:
    written(folder / "memreplay.toml", "this is no TOML")
    path = written(folder / "other.toml", RULE)
    rules = ConfigChoice(path).rules()
    assert rules[0].name == "mine"
    assert rules[1:] == DEFAULT_RULES
    assert ConfigChoice(no_config=True).load() == Config()


def test_defaults_may_be_dropped(folder: Path) -> None:
    written(folder / "memreplay.toml", "category_defaults = false\n" + RULE)
    (rule,) = ConfigChoice().rules()
    assert rule.name == "mine"


@pytest.mark.parametrize(
    "text, words",
    [
        ("x", "not valid TOML"),
        ("x = 1", "unknown key 'x'; there are: category, category_defaults, gate"),
        ("category_defaults = 1", "category_defaults must be true or false"),
        ("category = 1", "`category` must be a list of tables"),
        ("[[category]]\nname = 'a'", "category rule 1 ('a') has no condition"),
        ("[[category]]\nname = 'a'\nframes = '('", "is not a regular expression"),
        ("x = " + "9" * 5000, "not valid TOML"),
        ("x = " + "[" * 100_000, "not valid TOML"),
        pytest.param("#" * (MAX_BYTES + 1), "too long for a configuration", id="too long"),
        (60 * RULE, f"60 category rules and {len(DEFAULT_RULES)} defaults; 64 at most"),
        (65 * RULE, "65 category rules; 64 at most"),
    ],
)
def test_what_is_wrong_names_the_file(folder: Path, text: str, words: str) -> None:
    path = written(folder / "memreplay.toml", text)
    with pytest.raises(UsageError) as caught:
        ConfigChoice().rules()
    assert str(caught.value).startswith(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml: cannot read the configuration: no such"):
        ConfigChoice("nowhere.toml").load()
    (folder / "memreplay.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not valid TOML"):
        ConfigChoice().load()
    path = written(folder / "pyproject.toml", "[project]\nname = 'x'")
    with pytest.raises(UsageError, match=r"there is no \[tool.memreplay\] in it"):
        ConfigChoice(path).load()
    written(folder / "pyproject.toml", "[tool]\nmemreplay = 1")
    with pytest.raises(UsageError, match=r"tool\.memreplay must be a table"):
        ConfigChoice(path).load()


def test_a_mark_of_utf_8_is_no_mistake(folder: Path) -> None:
    written(folder / "memreplay.toml", "\ufeffcategory_defaults = false")
    assert ConfigChoice().rules() == ()
