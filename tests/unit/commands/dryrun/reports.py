"""Dry-run reports for testing their text, with all outcomes and arbitrary names."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from memreplay.commands.dryrun.find import _verdict
from memreplay.commands.dryrun.result import (
    DryCard,
    DryDevice,
    DryOutside,
    DryProcess,
    DryrunReport,
    Estimate,
    EstimateName,
    Outcome,
    Unknown,
    ValueRead,
)
from memreplay.dryrun.cards import CARDS

GIB = 1 << 30
# Names of programs, files and errors, which can be any text.
NAMES = st.one_of(
    st.sampled_from(("\x1b[31mred", "two\nlines", "\u202eleft", "\udc80", "\r", "a\x00b")),
    st.text(max_size=20),
)
COUNTS = st.integers(1, 10**7)
BYTES = st.integers(0, 200 * GIB)
DEVICES = st.builds(
    DryDevice,
    device=st.integers(0, 7),
    outside=st.builds(DryOutside, *[st.integers(0, GIB)] * 6),
    reserved_peak_bytes=BYTES,
    allocated_peak_bytes=BYTES,
    requested_peak_bytes=BYTES,
    recorded_peak_bytes=BYTES,
    oom_count=st.integers(0, 3),
    retries=st.integers(0, 3),
)
PROCESSES = st.builds(
    DryProcess,
    pid=COUNTS,
    rank=st.none() | st.integers(0, 7),
    file=st.none() | NAMES,
    last_call=st.none() | NAMES,
    not_written=st.none() | NAMES,
    replaced=st.booleans(),
    recorded_by_itself=st.booleans(),
    dumped=st.lists(NAMES, max_size=2).map(tuple),
    devices=st.lists(DEVICES, max_size=2).map(tuple),
)
READS = st.builds(
    ValueRead,
    operator=st.sampled_from(("item", "nonzero")),
    file=NAMES,
    line=COUNTS,
    function=NAMES,
    through=NAMES,
    count=COUNTS,
    makes_sizes=st.booleans(),
    random=st.booleans(),
)
ESTIMATES = st.builds(
    Estimate,
    name=st.sampled_from(get_args(EstimateName)),
    count=COUNTS,
    peak_bytes=BYTES,
    error_bytes=BYTES,
)
UNKNOWN = st.lists(st.builds(Unknown, name=NAMES, count=COUNTS), max_size=5).map(tuple)


@st.composite
def reports(draw: st.DrawFn) -> DryrunReport:
    """Build a report. Its verdict follows from how the program ended, as in find.py."""
    card = draw(st.sampled_from(CARDS))
    total = draw(st.just(card.bytes) | st.integers(card.context_bytes + 1, 1 << 40))
    outcome: Outcome = draw(st.sampled_from(get_args(Outcome)))
    peak = draw(BYTES)
    outside = draw(st.integers(card.context_bytes, 2 * GIB))
    spare = total - outside - peak
    broken = draw(st.booleans())
    statuses = {
        "ended": st.just(0),
        "failed": st.integers(1, 255),
        "killed": st.integers(-64, -1),
    }
    reads, workspaces, unanswered, estimates = (
        draw(st.lists(READS, max_size=8).map(tuple)),
        draw(UNKNOWN),
        draw(UNKNOWN),
        draw(st.lists(ESTIMATES, max_size=4).map(tuple)),
    )
    return DryrunReport(
        command=tuple(draw(st.lists(NAMES, min_size=1, max_size=3))),
        card=DryCard(
            card.key,
            card.name,
            total,
            card.context_bytes,
            card.is_outside_measured,
            draw(st.integers(1, 8)),
        ),
        settings=draw(st.none() | NAMES),
        torch=draw(NAMES),
        outcome=outcome,
        exit_code=draw(statuses.get(outcome, st.integers(-64, 255))),
        seconds=draw(st.floats(0, 1e6)),
        error=draw(st.none() | NAMES),
        hint=draw(st.none() | NAMES),
        cards_asked=draw(st.integers(0, 9)),
        verdict=_verdict(outcome, spare >= 0, broken=broken, all_known=draw(st.booleans())),
        peak_bytes=peak,
        outside_bytes=outside,
        spare_bytes=spare,
        shared=draw(st.booleans()),
        budget=draw(NAMES) if broken else draw(st.none() | NAMES),
        exact=not (reads or workspaces or unanswered or estimates),
        reads=reads,
        workspaces=workspaces,
        estimates=estimates,
        workspaces_source=draw(st.none() | NAMES),
        unanswered=unanswered,
        no_values=draw(NAMES | st.just("")),
        processes=tuple(draw(st.lists(PROCESSES, max_size=20))),
        shown=None,
        peaks=(),
        ooms=(),
        replaced=draw(st.booleans()),
        stopped_by=draw(st.sampled_from((0, 1, 15))),
        older=tuple(draw(st.lists(NAMES, max_size=3))),
    )


def outside(cuda_bytes: int = GIB // 2, cublas_bytes: int = GIB // 2) -> DryOutside:
    """Return memory outside the allocator, 1 GiB by default."""
    return DryOutside(cuda_bytes, cublas_bytes, 0, 0, 0, 0)


def one_process(pid: int, *devices: DryDevice, **changes: Any) -> DryProcess:
    """Return a process that wrote its snapshot, with these fields changed."""
    usual: dict[str, Any] = {
        "pid": pid,
        "rank": None,
        "file": f"{pid}.pickle",
        "last_call": None,
        "not_written": None,
        "replaced": False,
        "recorded_by_itself": False,
        "dumped": (),
        "devices": devices,
    }
    return DryProcess(**{**usual, **changes})


def report(**changes: Any) -> DryrunReport:
    """Return the report of a program that fits, with these fields changed."""
    device = DryDevice(0, outside(), 3 * GIB, 2 * GIB, GIB, GIB, 0, 0)
    fits: dict[str, Any] = {
        "command": ("python", "my train.py"),
        "card": DryCard("T4", "Tesla T4", 16 * GIB, GIB // 2, False, 1),
        "settings": None,
        "torch": "9.9",
        "outcome": "ended",
        "exit_code": 0,
        "seconds": 3.25,
        "error": None,
        "hint": None,
        "cards_asked": 1,
        "verdict": "fits",
        "peak_bytes": 3 * GIB,
        "outside_bytes": GIB,
        "spare_bytes": 12 * GIB,
        "shared": False,
        "budget": None,
        "exact": True,
        "reads": (),
        "workspaces": (),
        "estimates": (),
        "workspaces_source": None,
        "unanswered": (),
        "no_values": "",
        "processes": (one_process(7, device, file="dryrun.pickle"),),
        "shown": None,
        "peaks": (),
        "ooms": (),
    }
    return DryrunReport(**{**fits, **changes})
