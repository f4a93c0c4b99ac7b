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
    """Change to a new folder two levels below the temporary one, and return it."""
    found = tmp_path / "one" / "two"
    found.mkdir(parents=True)
    monkeypatch.chdir(found)
    return found


def test_missing_configuration_is_fine(folder: Path) -> None:
    assert ConfigChoice().load() == Config()
    assert ConfigChoice().rules() == DEFAULT_RULES


@pytest.mark.parametrize("above", [0, 1, 2])
def test_configuration_of_the_nearest_folder_is_used(folder: Path, above: int) -> None:
    at = [folder, *folder.parents][above]
    path = written(at / "memreplay.toml", "category_defaults = false")
    written(folder.parents[1] / "pyproject.toml", "[tool.memreplay]\ncategory_defaults = true")
    assert ConfigChoice().load() == Config({"category_defaults": False}, path)


def test_pyproject_is_used_if_it_has_our_table(folder: Path) -> None:
    written(folder / "pyproject.toml", "[tool.other]\nx = 1")
    path = written(folder.parent / "pyproject.toml", "[[tool.memreplay.gate]]\nx = 1")
    assert ConfigChoice().load() == Config({"gate": [{"x": 1}]}, path)


def test_own_file_takes_precedence_over_pyproject(folder: Path) -> None:
    written(folder / "pyproject.toml", "[tool.memreplay]\ncategory_defaults = true")
    path = written(folder / "memreplay.toml", "")
    assert ConfigChoice().load() == Config({}, path)


def test_given_file_is_used(folder: Path) -> None:
    written(folder / "memreplay.toml", "this is no TOML")
    path = written(folder / "other.toml", RULE)
    rules = ConfigChoice(path).rules()
    assert rules[0].name == "mine"
    assert rules[1:] == DEFAULT_RULES
    assert ConfigChoice("none").load() == Config()


def test_defaults_can_be_dropped(folder: Path) -> None:
    written(folder / "memreplay.toml", "category_defaults = false\n" + RULE)
    (rule,) = ConfigChoice().rules()
    assert rule.name == "mine"


@pytest.mark.parametrize(
    "text, words",
    [
        ("x", "not valid TOML"),
        ("x = 1", "unknown key 'x'; known keys: category, category_defaults, gate"),
        ("category_defaults = 1", "category_defaults must be true or false"),
        ("category = 1", "`category` must be a list of tables"),
        ("[[category]]\nname = 'a'", "category rule 1 ('a') has no condition"),
        ("[[category]]\nname = 'a'\nframes = '('", "is not a regular expression"),
        ("x = " + "9" * 5000, "not valid TOML"),
        ("x = " + "[" * 100_000, "not valid TOML"),
        pytest.param("#" * (MAX_BYTES + 1), "too long for a configuration", id="too long"),
        (
            60 * RULE,
            f"60 category rules and {len(DEFAULT_RULES)} defaults, but at most 64 are allowed",
        ),
        (65 * RULE, "65 category rules, but at most 64 are allowed"),
    ],
)
def test_errors_name_the_file(folder: Path, text: str, words: str) -> None:
    path = written(folder / "memreplay.toml", text)
    with pytest.raises(UsageError) as caught:
        ConfigChoice().rules()
    assert str(caught.value).startswith(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_an_error(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml: can't read the configuration: no such"):
        ConfigChoice("nowhere.toml").load()
    (folder / "memreplay.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not valid TOML"):
        ConfigChoice().load()
    path = written(folder / "pyproject.toml", "[project]\nname = 'x'")
    with pytest.raises(UsageError, match=r"it has no \[tool.memreplay\] table"):
        ConfigChoice(path).load()
    written(folder / "pyproject.toml", "[tool]\nmemreplay = 1")
    with pytest.raises(UsageError, match=r"tool\.memreplay must be a table"):
        ConfigChoice(path).load()


def test_utf_8_byte_order_mark_is_accepted(folder: Path) -> None:
    written(folder / "memreplay.toml", "\ufeffcategory_defaults = false")
    assert ConfigChoice().rules() == ()


def test_found_configuration_is_announced_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(folder.parent / "memreplay.toml", RULE)
    choice = ConfigChoice()
    choice.load()
    choice.rules()
    said = f"memreplay: configuration: {path} (--config none ignores it)\n"
    assert capsys.readouterr() == ("", said)
    for named in (path, "none"):
        ConfigChoice(named).load()
    assert capsys.readouterr() == ("", "")


def test_found_configuration_can_be_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ConfigChoice().only_named().load() == Config()
    assert capsys.readouterr() == ("", "")
    path = written(folder.parent / "memreplay.toml", RULE)
    assert ConfigChoice().only_named().load() == Config()
    said = f"memreplay: not using {path}: a gate needs --config ../memreplay.toml for that\n"
    assert capsys.readouterr() == ("", said)
    assert ConfigChoice(path).only_named().load().name == path
    Path(path).write_text("not toml", encoding="utf-8")
    assert ConfigChoice().only_named().load() == Config()
