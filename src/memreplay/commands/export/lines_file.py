"""Export everything that was read, line by line, as txt or ndjson."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from memreplay.commands.export.messages import say_written
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import byte_output, check_output
from memreplay.commands.shared.source import opened
from memreplay.export.naming import check_one_file
from memreplay.io.packing import by_name, packed

if TYPE_CHECKING:
    from memreplay.commands.export.lines import Format
    from memreplay.commands.export.options import Export
    from memreplay.snapshot.snapshot import Snapshot


def export(asked: Export) -> int:
    """Write the lines. Return the exit code. Raises UsageError, OSError."""
    check_one_file(asked.files, asked.output, asked.fmt)
    _, packing = by_name(asked.output or "")
    file = asked.files[0]
    check_output(asked.output, force=asked.force, read=[file], binary=packing is not None)

    def work() -> Snapshot:
        with opened(file, asked.reading) as snapshot:
            return snapshot

    snapshot, exit_code = attempt(file, work)
    if snapshot is None:
        return exit_code
    from memreplay.commands.export.lines import render_dump  # imported late: loads the native core

    with byte_output(asked.output) as out, packed(out, packing) as plain:
        for piece in render_dump(snapshot, cast("Format", asked.fmt)):
            plain.write(piece)
    say_written(asked, "every row")
    return exit_code
