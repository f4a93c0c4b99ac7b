"""`memreplay peak`: the peak, when it was reached, and what held the memory."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.peak.find import PeakOptions, peak_report
from memreplay.commands.peak.result import PeakReport
from memreplay.commands.peak.text import headlines, peak_document
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.showing import ShownFrames, folded, present
from memreplay.commands.shared.source import Reading, opened


@as_command(
    "peak",
    examples=(
        "memreplay peak snap.pkl",
        "memreplay peak snap.pkl.gz --by file --top 10",
        "memreplay peak snap.pkl --from step:3 --to step:3",
        "memreplay peak snap.pkl --device 0 --all-frames | less",
        "memreplay peak snap.pkl --measure reserved --by pool",
        "memreplay peak snap.pkl --measure held --peaks 5 --strict",
        "memreplay peak snap.pkl --by category --rules --config memreplay.toml",
        "memreplay peak snap.pkl --top 0 --json > peak.json",
    ),
    screen=True,
    rules=True,
)
def command(
    file: File,
    options: PeakOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownFrames,
) -> int:
    """Replay the allocations of each device in FILE ('-' for standard input). Show when the most
    memory was requested (or held, active, allocated or reserved: see --measure), and which code
    held it, largest first.
    """

    def work() -> PeakReport:
        with opened(file, reading) as snapshot:
            return peak_report(
                snapshot,
                folded(selection, shown),
                replace(options, whole_stacks=shown.all_frames),
            )

    return present(file, work, shown, peak_document, last=headlines, strict=selection.strict)
