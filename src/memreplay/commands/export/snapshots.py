"""Export a snapshot, or a part of it, in the same or another format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

from memreplay.commands.export.cut_text import lines
from memreplay.commands.export.messages import say_written
from memreplay.commands.shared.errors import attempt, say
from memreplay.commands.shared.output import byte_output, check_output
from memreplay.commands.shared.progress import reading_progress
from memreplay.commands.shared.source import opened
from memreplay.errors import UsageError
from memreplay.export.naming import check_one_file
from memreplay.io.packing import Format, by_name, packed

if TYPE_CHECKING:
    from memreplay.commands.export.options import Export
    from memreplay.export.snapshots.records import Sliced
    from memreplay.snapshot.snapshot import Snapshot


class _CannotWriteError(Exception):
    """Writing failed, which isn't the input's fault."""


class _NotConvertedError(Exception):
    """The output is unusable. The reason was already reported."""


def export(asked: Export) -> int:
    """Write the snapshot. Return the exit code. Raises UsageError, OSError."""
    check_one_file(asked.files, asked.output, asked.fmt)
    if asked.options.host:
        _check_host(asked)
    by_name(asked.output or "")  # reject .zip now, before doing the work
    file = asked.files[0]
    cuts, exit_code = attempt(file, lambda: _cuts(asked))
    if cuts is None:
        return exit_code
    # The output can be the input itself if nothing gets lost.
    check_output(asked.output, force=asked.force, read=[file] if cuts else (), binary=True)
    return _cut(asked, file) if cuts else _convert(asked, file)


def _check_host(asked: Export) -> None:
    reading = asked.reading
    if any(one is not None for one in (reading.device, reading.start, reading.stop)):
        raise UsageError(
            "--host writes all of the host's memory, without --device, --from and --to; cut the"
            " file that it writes"
        )
    if asked.files[0] == "-":
        raise UsageError("--host reads the file twice, so it can't be standard input")


def _cuts(asked: Export) -> bool:
    """Return whether only a part is to be exported, which requires building a new snapshot."""
    from memreplay.io.dataset_files import find_dataset

    reading, options = asked.reading, asked.options
    parts = (reading.device, reading.start, reading.stop, reading.pick, options.strip_frames)
    if any(one is not None for one in parts) or reading.salvage or asked.selection.filters:
        return True
    if options.host:
        return True
    file = asked.files[0]
    return file != "-" and (find_dataset(file) is not None or _is_profile(asked, file))


def _is_profile(asked: Export, file: str) -> bool:
    """Return whether the input is a torch.profiler trace, which is converted to a snapshot."""
    from memreplay.io.container import open_stream
    from memreplay.io.foreign import is_profile
    from memreplay.io.limits import Limits

    stream = open_stream(file, Limits(**dict(asked.reading.limits)).decompression_ratio)
    try:
        return is_profile(stream.head)
    finally:
        stream.close()


def _cut(asked: Export, file: str) -> int:
    """Write the selected events as a new snapshot."""
    options, filters, fmt = asked.options, asked.selection.filters, cast("Format", asked.fmt)

    def work() -> tuple[Sliced, Iterator[bytes]]:
        # Imported late: these load the native core, which --help doesn't need.
        from memreplay.export.snapshots.cutting import cut
        from memreplay.export.snapshots.unknown import Source, unknown_of
        from memreplay.io.limits import Limits

        source = Source(file, Limits(**dict(asked.reading.limits)), asked.reading.pick or 0)
        with opened(file, asked.reading) as snapshot:
            stripped = options.strip_frames is not None
            unknown = None
            if options.host:
                from memreplay.export.snapshots.host import host_of  # imported late: rarely needed

                snapshot = host_of(snapshot, source)
            else:
                unknown = unknown_of(snapshot, source, stripped=stripped, fmt=fmt)
            small = 0 if filters is None else filters.min_bytes
            return cut(snapshot, min_bytes=small, strip=options.strip_frames, unknown=unknown)

    made, exit_code = attempt(file, work)
    if made is None:
        return exit_code
    sliced, pieces = made
    with byte_output(asked.output) as out, packed(out, by_name(asked.output or "")[1]) as plain:
        for piece in _in_form(pieces, fmt, options.protocol):
            plain.write(piece)
    say_written(asked, "a snapshot")
    for line in lines(sliced):
        say(line)
    return exit_code


def _in_form(pieces: Iterable[bytes], fmt: Format, protocol: str | None) -> Iterable[bytes]:
    """Convert a pickle of protocol 4 to the requested format."""
    if fmt == "json":
        from memreplay.snapshot.conversion import as_json

        return as_json(b"".join(pieces))
    if protocol in (None, "4"):
        return pieces
    from memreplay.engine.write import _converting

    return map(_converting.Transcoder(int(protocol or 4)).feed, pieces)


def _convert(asked: Export, file: str) -> int:
    """Write the whole file in another format."""
    try:
        with byte_output(asked.output) as out, packed(out, by_name(asked.output or "")[1]) as plain:
            done, exit_code = attempt(file, lambda: _converted(asked, file, plain.write))
            if done is None:
                raise _NotConvertedError
    except _NotConvertedError:
        return exit_code
    except _CannotWriteError as error:
        raise error.__cause__ or error from None
    say_written(asked, "the whole snapshot")
    return exit_code


def _converted(asked: Export, file: str, write: Callable[[bytes], object]) -> Snapshot:
    # Imported late: these load the native core.
    from memreplay.io.limits import Limits
    from memreplay.snapshot.conversion import convert

    def checked(data: bytes) -> None:
        try:
            write(data)
        except OSError as error:
            raise _CannotWriteError from error

    protocol = asked.options.protocol
    with reading_progress(file) as progress:
        return convert(
            sys.stdin.buffer if file == "-" else file,
            checked,
            fmt=cast("Format", asked.fmt),
            protocol=None if protocol is None else int(protocol),
            limits=Limits(**dict(asked.reading.limits)),
            progress=progress,
        )
