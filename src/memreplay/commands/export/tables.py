"""Export tables: a single one to a file or stdout, or several to a folder or dataset."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from memreplay.commands.export.messages import say_file, say_folder
from memreplay.commands.export.writing import (
    check_unmixed,
    flat_form,
    read,
    say_cut_off,
    write_all,
    writer_of,
)
from memreplay.commands.shared.folder import folder_output
from memreplay.commands.shared.output import byte_output, check_not_read, check_output
from memreplay.commands.shared.screen import screened
from memreplay.errors import MissingExtraError, UsageError
from memreplay.export.naming import check_not_packed, is_folder, table_of

if TYPE_CHECKING:
    from memreplay.commands.export.options import Export

BINARY = ("parquet", "arrow")


def export(asked: Export) -> int:
    """Write the tables. Return the exit code. Raises UsageError, MissingExtraError, OSError."""
    from memreplay.export.tables.schema import TABLES, tables_named

    check_not_packed(asked.output)
    check_extra()
    options = asked.options
    named = None if options.tables is None else tables_named(options.tables)
    if options.flat and named is not None and "allocations" not in named:
        raise UsageError(f"--flat is for the table allocations, but --tables is {options.tables}")
    if len(asked.files) > 1:
        from memreplay.commands.export.dataset import export_dataset

        return export_dataset(asked, named or tuple(TABLES))
    if _is_folder(asked.output, named):
        return _into_folder(asked, named or tuple(TABLES))
    return _into_file(asked, named)


def check_extra() -> None:
    """Raise MissingExtraError if pyarrow is missing. Called before the work, which can take a
    while.
    """
    from memreplay.snapshot.arrow_columns import NEEDS_PYARROW

    try:
        there = find_spec("pyarrow") is not None
    except ValueError:
        there = False
    if not there:
        raise MissingExtraError(NEEDS_PYARROW, "parquet")


def _is_folder(output: str | None, named: tuple[str, ...] | None) -> bool:
    if output is None or output == "-":
        return False
    if is_folder(output):
        return True
    if os.path.exists(output):  # an existing file, or a pipe from the shell (/dev/fd/63)
        return False
    # If several tables are written, a name without a suffix means a folder.
    return (named is None or len(named) > 1) and not os.path.splitext(output)[1]


def _into_file(asked: Export, named: tuple[str, ...] | None) -> int:
    from memreplay.export.tables.schema import TABLES

    if named is not None and len(named) > 1:
        raise UsageError("several tables need a folder, with a file each; give -o DIR/")
    by_name = ("allocations", True) if asked.options.flat else table_of(asked.output, tuple(TABLES))
    name, is_said = (named[0], True) if named else by_name
    binary = asked.fmt in BINARY
    check_output(asked.output, force=asked.force, binary=binary, read=asked.files)
    snapshot, exit_code = read(asked, asked.files[0])
    if snapshot is not None:
        from memreplay.export.tables import table

        rules = asked.reading.config.rules()
        made = table(snapshot, name, rules=rules, flat=flat_form(asked, name))
        with byte_output(asked.output) as out:
            shown = asked.fmt == "csv" and asked.output in (None, "-")
            writer_of(asked.fmt)(made, screened(out) if shown else out)
        say_file(asked, f"the table {name}", made.rows, "row", None if is_said else tuple(TABLES))
        say_cut_off(snapshot)
    return exit_code


def _into_folder(asked: Export, named: tuple[str, ...]) -> int:
    from memreplay.export.tables.schema import TABLES

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
        rows = write_all(snapshot, {name: f"{name}.{asked.fmt}" for name in named}, create, asked)
    say_folder(asked.output, asked.fmt, rows, names)
    say_cut_off(snapshot)
    return exit_code
