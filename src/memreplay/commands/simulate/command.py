"""`memreplay simulate`: run the recorded program with other allocator settings or on other
cards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import Force, byte_output, check_output, write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.progress import working
from memreplay.commands.shared.showing import ShownRows, text_of
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.simulate.find import (
    SimulateOptions,
    report_of,
    simulate_report,
    simulations,
)
from memreplay.commands.simulate.result import SimulateReport
from memreplay.commands.simulate.text import simulate_document
from memreplay.declared import Opt, Options
from memreplay.errors import NothingToTellError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot

DOES_NOT_FIT = 1


class Saving(Options, frozen=True):
    """Options for saving the simulation as a snapshot."""

    output: Annotated[
        str | None,
        Opt(
            "Write the simulated run as a snapshot (compressed if the name ends in .gz, .zst, .xz"
            " or .bz2).",
            "OUT",
            short="-o",
            path="file",
            brief="Write the simulated run as a snapshot.",
        ),
    ] = None
    force: Force = False

    def check(self, file: str) -> None:
        """Raise UsageError if the snapshot shouldn't be written."""
        if self.output == "-":
            raise UsageError("the report goes to stdout; give --output a file name")
        if self.output is not None:
            check_output(self.output, force=self.force, read=[file], binary=True)


class ShownSimulation(ShownRows, frozen=True):
    """Output options: text or JSON, and saving the simulation as a snapshot."""

    saving: Saving = Saving()


@as_command(
    "simulate",
    examples=(
        "memreplay simulate snap.pkl --set expandable_segments:True",
        "memreplay simulate snap.pkl --total-memory 40GiB,24GiB",
        "memreplay simulate snap.pkl --search settings",
        "memreplay simulate snap.pkl --search card --json | jq '.devices[].need'",
        "memreplay simulate snap.pkl --scale 0.5 --only category=activations --total-memory 24GiB",
        "memreplay simulate snap.pkl --set expandable_segments:True -o new.pkl",
    ),
    exits={1: "does not fit (--total-memory)", 5: "no events to simulate"},
    answers=simulate_report,
    words={"top": "With --search settings: show the N best; 0 for all."},
    rules=True,
)
def command(
    file: File,
    options: SimulateOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownSimulation,
) -> int:
    """Replay FILE through a model of PyTorch's allocator and compare the result with the recording:
    memory reserved, the first request to fail, and the cards it fits on. --scale and --checkpoint
    change the program first: the allocations that --only, --include and --exclude choose. Only
    --scale, with a factor above 0, can do without a choice: it then changes all allocations.
    """
    saving = shown.saving
    saving.check(file)
    options.changing.change(selection.filters)  # fail before reading the file
    saved: list[Iterator[bytes]] = []

    def work() -> SimulateReport:
        with opened(file, reading) as snapshot, working("simulating"):
            tried = simulations(snapshot, selection, options)
            if saving.output is not None:
                saved.append(pickled(snapshot, {at: some[0] for at, some in tried.items()}))
            return report_of(snapshot, tried, selection, options)

    report, exit_code = attempt(file, work)
    if report is None:
        return exit_code
    for pieces in saved:
        save(saving.output or "", pieces)
    write(text_of(report, shown, simulate_document, top=shown.top))
    if not any(device.events for device in report.devices):
        return NothingToTellError.exit_code
    untrusted = trust_code(report, selection.strict)
    return untrusted or (0 if all(device.fits for device in report.devices) else DOES_NOT_FIT)


def pickled(snap: Snapshot, found: Mapping[int, Simulated]) -> Iterator[bytes]:
    """Yield the chunks of the snapshot that these simulations, one per device, would produce."""
    from memreplay.export.snapshots.cutting import cut  # imported late: rarely used
    from memreplay.snapshot.retold import retold

    return cut(retold(snap, found))[1]


def save(path: str, pieces: Iterator[bytes]) -> None:
    """Write the simulations to a file atomically."""
    from memreplay.io.packing import by_name, packed  # imported late: rarely used

    named, packing = by_name(path)
    if named == "json":
        from memreplay.snapshot.conversion import as_json

        pieces = as_json(b"".join(pieces))
    with byte_output(path) as out, packed(out, packing) as plain:
        for piece in pieces:
            plain.write(piece)
