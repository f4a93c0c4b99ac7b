"""Exports tables: one into a file or to stdout, all of them into a folder, or into a dataset."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from memreplay.cli.export_writing import check_unmixed, read, say_cut_off, write_all, writer_of
from memreplay.cli.folder import folder_output
from memreplay.cli.output import byte_output, check_not_read, check_output
from memreplay.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from memreplay.analysis.categories import Rule
    from memreplay.cli.export import Export

BINARY = ("parquet", "arrow")


def export(asked: Export) -> int:
    """Writes what was asked for; the exit code. Raises UsageError, MissingExtraError, OSError."""
    from memreplay.tables.schema import TABLES, tables_named

    _check_extra()
    named = None if asked.tables is None else tables_named(asked.tables)
    rules = asked.config.rules()
    if asked.partition is not None:
        from memreplay.cli.export_dataset import export_dataset

        return export_dataset(asked, named or tuple(TABLES), rules)
    if len(asked.files) > 1:
        raise UsageError("several snapshots go into one dataset: give --partition rank and -o DIR/")
    if _is_folder(asked.output, named):
        return _into_folder(asked, named or tuple(TABLES), rules)
    return _into_file(asked, named or (_named_by(asked.output),), rules)


def _check_extra() -> None:
    """Raises MissingExtraError without pyarrow: before the work, as that may take a while."""
    from memreplay.tables.schema import NEEDS_PYARROW

    try:
        there = find_spec("pyarrow") is not None
    except ValueError:
        there = False
    if not there:
        raise MissingExtraError(NEEDS_PYARROW)


def _is_folder(output: str | None, named: tuple[str, ...] | None) -> bool:
    if output is None or output == "-":
        return False
    if output.endswith(("/", os.sep)) or os.path.isdir(output):
        return True
    if os.path.exists(output):  # a file to replace, or a pipe of the shell's (/dev/fd/63)
        return False
    # A name without an ending, for all tables or several, is that of a folder.
    return (named is None or len(named) > 1) and not os.path.splitext(output)[1]


def _named_by(output: str | None) -> str:
    """The table that the name of a file means: that of its own name, else the allocations."""
    from memreplay.tables.schema import TABLES

    stem = os.path.basename(output or "").split(".")[0]
    return stem if stem in TABLES else "allocations"


def _into_file(asked: Export, named: tuple[str, ...], rules: tuple[Rule, ...]) -> int:
    if len(named) > 1:
        raise UsageError("several tables go into a folder, a file each: give -o DIR/")
    binary = asked.fmt in BINARY
    check_output(asked.output, force=asked.force, binary=binary, read=asked.files)
    snapshot, exit_code = read(asked, asked.files[0])
    if snapshot is not None:
        from memreplay.tables import table

        with byte_output(asked.output) as out:
            writer_of(asked.fmt)(table(snapshot, named[0], rules=rules), out)
        say_cut_off(snapshot)
    return exit_code


def _into_folder(asked: Export, named: tuple[str, ...], rules: tuple[Rule, ...]) -> int:
    from memreplay.tables.schema import TABLES

    assert asked.output is not None
    check_unmixed(asked.output, ranks=False)
    names = [f"{name}.{asked.fmt}" for name in named]
    for name in names:
        check_not_read(os.path.join(asked.output, name), asked.files)
    others = [f"{name}.{asked.fmt}" for name in TABLES if name not in named]
    with folder_output(asked.output, names, others, force=asked.force) as create:
        snapshot, exit_code = read(asked, asked.files[0])
        if snapshot is None:
            create.give_up()
            return exit_code
        write_all(snapshot, {name: f"{name}.{asked.fmt}" for name in named}, create, asked, rules)
    say_cut_off(snapshot)
    return exit_code
