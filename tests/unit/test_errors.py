"""errors: each is one clear line with position and remedy, and each kind has its exit code."""

from __future__ import annotations

import pickle
import re
from importlib import metadata
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.errors import install_command

SOURCES = Path(mr.__file__).parent


@pytest.mark.parametrize(
    "error, line",
    [
        (mr.SnapshotError("bad"), "bad"),
        (mr.SnapshotError("bad", offset=0), "bad (byte 0)"),
        (mr.SnapshotError("bad", opcode="MARK"), "bad (MARK)"),
        (mr.SnapshotError("bad", hint="mend it"), "bad; mend it"),
        (
            mr.TruncatedError("cut", offset=1048573, opcode="BINUNICODE8", hint="dump again"),
            "cut (byte 1048573, BINUNICODE8); dump again",
        ),
    ],
)
def test_error_is_one_line_with_its_position_and_hint(error: mr.SnapshotError, line: str) -> None:
    assert str(error) == line
    assert error.args == (error.message,)


@pytest.mark.parametrize(
    "kind, parent, code",
    [
        (mr.MemreplayError, Exception, 2),
        (mr.UsageError, mr.MemreplayError, 2),
        (mr.NothingToTellError, mr.UsageError, 5),
        (mr.MissingExtraError, mr.MemreplayError, 2),
        (mr.SnapshotError, mr.MemreplayError, 3),
        (mr.UnsafePickleError, mr.SnapshotError, 3),
        (mr.LimitError, mr.SnapshotError, 3),
        (mr.TruncatedError, mr.SnapshotError, 4),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    kind: type[mr.MemreplayError], parent: type[Exception], code: int
) -> None:
    assert issubclass(kind, parent)
    assert kind.exit_code == code


def test_brief_form_leaves_out_what_to_do() -> None:
    assert mr.UsageError("no such device").brief == "no such device"
    error = mr.UsageError("no steps: 3 are too few; record more", brief="3 \x07 are too few")
    assert (str(error), error.brief) == (
        "no steps: 3 are too few; record more",
        "3 \\x07 are too few",
    )
    assert (
        mr.TruncatedError("it ends early", offset=8, hint="use --salvage").brief == "it ends early"
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.brief) == (str(error), error.brief)


REQUIRES = [
    "numpy>=1.24",
    'duckdb>=1.5; extra == "sql"',
    'pyarrow>=17; extra == "sql"',
    "memreplay[remote]; extra == 's3'",
    "s3fs>=2024.2; python_version > '3.9' and extra == 's3'",
    'fsspec[http]>=2024.2; extra == "remote"',
]


@pytest.mark.parametrize(
    "extra, command",
    [
        ("sql", "pip install 'duckdb>=1.5' 'pyarrow>=17' (the extra 'sql')"),
        ("s3", "pip install 'fsspec[http]>=2024.2' 's3fs>=2024.2' (the extra 's3')"),
    ],
)
def test_install_command_names_the_packages(
    extra: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _name: REQUIRES)
    assert install_command(extra) == command
    assert str(mr.MissingExtraError("it needs more", extra)) == f"it needs more: {command}"


def test_only_the_install_command_names_an_extra_as_on_an_index() -> None:
    """Before the package is on an index, `pip install 'memreplay[sql]'` doesn't work."""
    sources = SOURCES.rglob("*.py")
    named = [one.name for one in sources if "memreplay[" in one.read_text(encoding="utf-8")]
    assert named == ["errors.py"]


def test_uninstalled_package_has_an_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(_name: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", requires)
    assert install_command("sql") == "pip install 'memreplay[sql]' (the extra 'sql')"


def test_extras_in_errors_exist() -> None:
    named = {
        extra
        for path in SOURCES.rglob("*.py")
        for pair in re.findall(
            r"""MissingExtraError\([^)]*, "(\w+)"\)|\(the extra '(\w+)'\)""",
            path.read_text("utf-8"),
        )
        for extra in filter(None, pair)
    }
    known = set(metadata.metadata("memreplay").get_all("Provides-Extra") or ())
    assert named <= known
    assert {"sql", "parquet", "plot", "explore", "mcp", "fleet", "zst", "remote"} <= named
