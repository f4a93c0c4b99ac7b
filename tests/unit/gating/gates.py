"""A gate's results, for testing its output formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from memreplay.gating.reporting import gate_report
from memreplay.gating.result import Cause, Finding, GatedFile, GateReport

GIB = 1 << 30
MIB = 1 << 20
GREW = (
    Cause(
        "Attention.forward /job/gpt/model.py:212",
        9 * GIB,
        31 * GIB // 10,
        "Attention.forward",
        "/job/gpt/model.py",
        212,
    ),
    Cause("(allocated before the recording)", 2 * GIB, GIB // 4),
)
PEAK = Finding(
    rule="max-peak",
    kind="max_peak",
    outcome="failed",
    device=0,
    measure="held",
    limit_bytes=38 * GIB,
    actual_bytes=412 * GIB // 10,
    base_bytes=378 * GIB // 10,
    event_index=12,
    causes=GREW,
)
KEPT = replace(PEAK, outcome="passed", limit_bytes=50 * GIB, causes=())
GROWTH = replace(
    PEAK,
    rule="attention grows",
    kind="max_growth",
    category="attention",
    annotation="ProfilerStep",
    limit_bytes=378 * GIB // 10 * 102 // 100,
    limit_share=0.02,
)
GROWTH_BYTES = replace(
    PEAK, rule="max-growth-bytes", kind="max_growth_bytes", limit_bytes=378 * GIB // 10 + 256 * MIB
)
RESERVED = replace(
    PEAK, rule="max-reserved", kind="max_reserved", measure="reserved", causes=(), base_bytes=None
)
FRAGMENTATION = Finding(
    rule="max-fragmentation",
    kind="max_fragmentation",
    outcome="failed",
    device=1,
    measure="reserved",
    limit_bytes=4 * GIB,
    limit_share=0.1,
    actual_bytes=5 * GIB,
    reserved_bytes=40 * GIB,
)
SPREAD = replace(
    PEAK,
    rule="max-spread",
    kind="max_spread",
    limit_bytes=36 * GIB,
    limit_share=0.2,
    base_bytes=None,
    median_bytes=30 * GIB,
    count=8,
)
LEAK = Finding(
    rule="forbid-leaks",
    kind="forbid_leaks",
    outcome="failed",
    device=0,
    measure="held",
    limit_bytes=0,
    actual_bytes=64 << 10,
    count=40,
    causes=(replace(GREW[0], bytes=64 << 10, change_bytes=None),),
)
OOM = Finding(
    rule="forbid-oom",
    kind="forbid_oom",
    outcome="failed",
    device=0,
    measure="held",
    limit_bytes=0,
    actual_bytes=192 * MIB,
    count=2,
    event_index=99,
    causes=(replace(GREW[0], bytes=192 * MIB, change_bytes=None),),
)
TRUST = Finding(
    rule="trust",
    kind="trust",
    outcome="failed",
    device=0,
    measure="held",
    reasons=("unmatched_frees", "segments_disagree"),
)
TRUSTED = replace(TRUST, outcome="passed", reasons=())
SKIPPED = replace(
    LEAK, outcome="skipped", causes=(), actual_bytes=None, detail="no steps were found"
)

NOT_JUDGED = replace(
    SKIPPED,
    outcome="not_judged",
    detail="1 step is too few to distinguish a leak from warm-up",
)


def report(
    *findings: Finding, file: str = "snap.pkl", base: str | None = "base.json"
) -> GateReport:
    """Return a report on one file."""
    return gate_report([gated(file, base, findings)])


def gated(
    file: str, base: str | None = None, findings: tuple[Finding, ...] = (), **more: Any
) -> GatedFile:
    """Return the results for a file that was checked."""
    passed = not any(one.failed for one in findings)
    return GatedFile(file=file, base_file=base, passed=passed, findings=findings, **more)


def unreadable(file: str, error: str) -> GatedFile:
    """Return the results for a file that couldn't be checked."""
    return GatedFile(file=file, error=error, exit_code=3)


EVERY = (
    PEAK,
    KEPT,
    GROWTH,
    GROWTH_BYTES,
    RESERVED,
    FRAGMENTATION,
    SPREAD,
    LEAK,
    OOM,
    TRUST,
    replace(TRUST, of_base=True),
    TRUSTED,
    SKIPPED,
    replace(TRUST, outcome="skipped"),
    NOT_JUDGED,
)
UNREADABLE = unreadable("a b/rank1.pkl", "no such file")
WHOLE = gate_report(
    (
        gated("rank0.pkl", "base.json", EVERY, overflowed_devices=(0, 1), rules_changed=True),
        UNREADABLE,
    )
)
PASSED = report(KEPT, TRUSTED)
NASTY = "x\n::error::pwned\r,:%41\x1b[31m<b>|`*_[a](b)@all]]>&\"'\ud800\uffff --> -- ${{ x }} $(y)"
NASTY_CAUSE = Cause(NASTY, 9, 5, f"f{NASTY}", f"/job/{NASTY}.py", 7)
HOSTILE = gate_report(
    (
        gated(
            NASTY,
            NASTY,
            (
                replace(PEAK, rule=NASTY, category=NASTY, annotation=NASTY, causes=(NASTY_CAUSE,)),
                replace(SKIPPED, detail=NASTY, rule=NASTY),
                replace(TRUST, reasons=(NASTY,)),
            ),
        ),
        unreadable(NASTY, NASTY),
    )
)


def in_repository(path: str) -> str | None:
    """Map every file into the repository by dropping its first folder."""
    return path.removeprefix("/job/")


def told(found: GateReport, where: Callable[[str], str | None] = in_repository) -> GateReport:
    """Return the same results, with files in the repository."""
    return gate_report(found.files, where)
