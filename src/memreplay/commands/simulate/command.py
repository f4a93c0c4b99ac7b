"""`memreplay simulate`: the same program under other allocator settings, or on other cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import Force, byte_output, check_output, write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.showing import Shown, text_of
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.simulate.changing import Changing
from memreplay.commands.simulate.find import SimulateOptions, report_of, simulations
from memreplay.commands.simulate.result import SimulateReport
from memreplay.commands.simulate.text import simulate_document
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot

DOES_NOT_FIT = 1


class Saving(Options, frozen=True):
    """The simulation as a snapshot."""

    output: Annotated[
        str | None,
        Opt(
            "Write what a recording of the simulation would have been, as a snapshot (compressed if"
            " its name ends in .gz, .zst, .xz or .bz2).",
            "OUT",
            short="-o",
            path="file",
            brief="Write the simulated recording as a snapshot.",
        ),
    ] = None
    force: Force = False

    def check(self, file: str) -> None:
        """Raise UsageError where the snapshot should not be written."""
        if self.output == "-":
            raise UsageError("stdout has the report: give --output a file's name")
        if self.output is not None:
            check_output(self.output, force=self.force, read=[file], binary=True)


@as_command(
    "simulate",
    examples=(
        "memreplay simulate snap.pkl --set expandable_segments:True",
        "memreplay simulate snap.pkl --total-memory 40GiB,24GiB",
        "memreplay simulate snap.pkl --search",
        "memreplay simulate snap.pkl --smallest --json | jq '.devices[0].need.total_bytes'",
        "memreplay simulate snap.pkl --scale 0.5 --category activations --total-memory 24GiB",
        "memreplay simulate snap.pkl --set expandable_segments:True -o new.pkl",
    ),
    exits={1: "does not fit (--total-memory)", 5: "no events to tell that by"},
    without=("measure", "by", "pool", "stream"),
    words={"top": "Show the N best settings of --search; 0 for all."},
    rules=True,
)
def command(
    file: File,
    options: SimulateOptions,
    changing: Changing,
    saving: Saving,
    selection: Selection,
    reading: Reading,
    shown: Shown,
) -> int:
    """Replays FILE on a model of PyTorch's allocator: what it reserves, which request fails first,
    and which cards it fits on, beside what was recorded. --scale, --leave-out and --checkpoint
    change the program first, all of it or what --category and filters choose.
    """
    saving.check(file)
    change = changing.change(selection.filters)
    options = replace(options, change=change)
    saved: list[Iterator[bytes]] = []

    def work() -> SimulateReport:
        with opened(file, reading) as snapshot:
            tried = simulations(snapshot, selection, options)
            if saving.output is not None:
                saved.append(pickled(snapshot, {at: some[0] for at, some in tried.items()}))
            return report_of(snapshot, tried, selection, options)

    report, exit_code = attempt(file, work)
    if report is None:
        return exit_code
    for pieces in saved:
        save(saving.output or "", pieces)
    write(text_of(report, shown, simulate_document, top=selection.top))
    untrusted = trust_code(report, selection.strict)
    return untrusted or (0 if all(device.fits for device in report.devices) else DOES_NOT_FIT)


def pickled(snap: Snapshot, found: Mapping[int, Simulated]) -> Iterator[bytes]:
    """What a recording of these simulations would have been, a device each."""
    from memreplay.export.snapshots.cutting import cut  # late: few save one
    from memreplay.snapshot.retold import retold

    return cut(retold(snap, found))[1]


def save(path: str, pieces: Iterator[bytes]) -> None:
    """Write them to a file, which is never left half-written."""
    from memreplay.io.packing import by_name, packed  # late, likewise

    named, packing = by_name(path)
    if named == "json":
        from memreplay.snapshot.conversion import as_json

        pieces = as_json(b"".join(pieces))
    with byte_output(path) as out, packed(out, packing) as plain:
        for piece in pieces:
            plain.write(piece)
