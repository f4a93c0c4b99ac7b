"""Small made-up results with every kind of row that a report shows."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.commands.peak.result import DevicePeak, PeakReport
from memreplay.commands.summary.result import (
    DeviceSummary,
    MeasureSummary,
    SnapshotSummary,
    StateBytes,
)
from memreplay.snapshot.model import Frame, Group, Part, PeakPoint

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
START_US = 1_783_874_422_000_000
SITE = "/opt/venv/lib/python3.12/site-packages"

_MALLOC = Frame("torch::unwind::unwind()", "??", 0)
_LINEAR = Frame("at::_ops::linear::call(at::Tensor const&, at::Tensor const&)", "??", 0)
_CALL = Frame("_call_impl", f"{SITE}/torch/nn/modules/module.py", 1_787)
_ATTENTION = Frame(
    "scaled_dot_product_attention", f"{SITE}/transformers/models/llama/modeling_llama.py", 215
)
_LAYER = Frame("forward", "/home/ada/run/src/model/layers.py", 88)
_MODEL = Frame("forward", "/home/ada/run/src/model/transformer.py", 141)
_STEP = Frame("train_step", "/home/ada/run/train.py", 63)
_MAIN = Frame("<module>", "/home/ada/run/train.py", 120)
_BACKWARD = Frame("torch::autograd::generated::MulBackward0::apply(std::vector<>&&)", "??", 0)
_MUL = Frame("at::_ops::mul_Tensor::call(at::Tensor const&)", "??", 0)

ATTENTION = Group(
    label="scaled_dot_product_attention modeling_llama.py:215",
    bytes=5 * GIB,
    count=96,
    share=0.5,
    frames=(_MALLOC, _LINEAR, _CALL, _ATTENTION, _LAYER, _CALL, _MODEL, _STEP, _MAIN),
    user=(3, 4, 6, 7, 8),
)
AUTOGRAD = Group(
    label="torch::unwind::unwind()",
    bytes=3 * GIB,
    count=1_024,
    share=0.3,
    frames=(_MALLOC, _MUL, _BACKWARD),
)
NO_STACK = Group(label="(no stack recorded)", bytes=GIB + 512 * MIB, count=7, share=0.15)

DEVICE_PEAK = DevicePeak(
    device=0,
    measure="requested",
    exactness="exact",
    peak_bytes=10 * GIB,
    peak_event=3_737,
    peak_us=START_US + 412_345,
    start_us=START_US,
    carried_over_bytes=2 * GIB,
    carried_over_at_peak_bytes=GIB,
    end_bytes=4 * GIB,
    first_event=0,
    events=22_331,
    trace_events=22_331,
    live_count=1_200,
    annotation=None,
    step=None,
    categories_source="guessed",
    categories=(),
    groups=(ATTENTION, AUTOGRAD, NO_STACK),
    groups_total=15,
    rest_bytes=512 * MIB,
    rest_count=73,
    trusted=True,
    reasons=(),
)
PEAK = PeakReport(file="snap.pkl", measure="requested", by="stack", devices=(DEVICE_PEAK,))


def peak_of(**changes: object) -> PeakReport:
    """Return the peak report with changes to its only device."""
    return replace(PEAK, devices=(replace(DEVICE_PEAK, **changes),))


PEAKS = (
    PeakPoint(10 * GIB, 3_737, START_US + 412_345),
    PeakPoint(2 * GIB, -1, START_US),
)
DEFAULT_POOL = Part(
    pool=(0, 0),
    bytes=9 * GIB,
    count=1_000,
    start_bytes=2 * GIB,
    peak_bytes=9 * GIB + 512 * MIB,
    peak_event=3_001,
    end_bytes=4 * GIB,
    reserved_bytes=11 * GIB,
    reserved_peak_bytes=12 * GIB,
    reserved_peak_event=4_000,
    reserved_end_bytes=11 * GIB,
)
GRAPH_POOL = replace(DEFAULT_POOL, pool=(3, 0), bytes=GIB, count=200, peak_event=9)
EMPTY_POOL = replace(DEFAULT_POOL, pool=None, bytes=0, count=0, peak_event=-1)
BY_POOL = replace(
    peak_of(
        groups=(
            Group(label="default pool", bytes=9 * GIB, count=1_000, share=0.9),
            Group(label="graph pool 3:0", bytes=GIB, count=200, share=0.1),
        ),
        groups_total=2,
        rest_bytes=0,
        rest_count=0,
        pools=(DEFAULT_POOL, GRAPH_POOL, EMPTY_POOL),
    ),
    by="pool",
)

NO_EVENTS_PEAK = peak_of(
    peak_bytes=GIB,
    peak_event=-1,
    peak_us=None,
    start_us=None,
    carried_over_bytes=GIB,
    carried_over_at_peak_bytes=GIB,
    end_bytes=GIB,
    events=0,
    trace_events=0,
    live_count=7,
    groups=(replace(NO_STACK, bytes=GIB, share=1.0),),
    groups_total=1,
    rest_bytes=0,
    rest_count=0,
    trusted=False,
    reasons=("no_events",),
)

_REQUESTED = MeasureSummary(
    measure="requested",
    exactness="exact",
    reasons=(),
    start_bytes=2 * GIB,
    peak_bytes=10 * GIB,
    peak_event=3_737,
    peak_us=START_US + 412_345,
    lowest_bytes=GIB,
    mean_bytes=3 * GIB,
    end_bytes=4 * GIB,
    reconciliation_bytes=0,
)
_RESERVED = replace(
    _REQUESTED,
    measure="reserved",
    start_bytes=12 * GIB,
    peak_bytes=12 * GIB,
    peak_event=-1,
    mean_bytes=12 * GIB,
    end_bytes=12 * GIB,
)

DEVICE_SUMMARY = DeviceSummary(
    device=0,
    first_event=0,
    events=22_331,
    trace_events=22_331,
    actions={"free_completed": 7_000, "alloc": 8_000, "free_requested": 7_331, "oom": 0},
    start_us=START_US,
    end_us=START_US + 83_500_000,
    events_with_stack=20_000,
    segments=123,
    reserved_bytes=12 * GIB,
    active_bytes=4 * GIB + 10 * MIB,
    requested_bytes=4 * GIB,
    states=(
        StateBytes("active_allocated", 900, 4 * GIB + 10 * MIB, 4 * GIB),
        StateBytes("inactive", 40, 7 * GIB, 0),
    ),
    carried_over_bytes=2 * GIB,
    peak_bytes=10 * GIB,
    end_bytes=4 * GIB,
    unmatched_frees=0,
    double_allocs=0,
    unknown_actions=0,
    reconciliation_bytes=0,
    measures=(
        _REQUESTED,
        replace(_REQUESTED, measure="held"),
        replace(_REQUESTED, measure="active"),
        replace(_REQUESTED, measure="allocated"),
        _RESERVED,
    ),
    pool_count=1,
    stream_count=1,
    blocks_proven=7_900,
    overflow="no",
    overflow_signs=(),
    dropped_events=0,
    blocks_assumed=0,
    pending_frees=0,
    synthetic_events=0,
    trusted=True,
    reasons=(),
)
SUMMARY = SnapshotSummary(
    file="/data/run 7/rank0.pkl",
    file_bytes=150 * MIB,
    stream_bytes=150 * MIB,
    container="pickle",
    protocol=4,
    generation="PyTorch 2.5 or later",
    has_times=True,
    has_stacks=True,
    annotation_count=12,
    stack_count=2_048,
    frame_count=5_120,
    overflowed=False,
    allocator_settings={"expandable_segments": True, "max_split_size": -1},
    settings_changed={"expandable_segments": True},
    devices=(DEVICE_SUMMARY,),
)


def summary_of(**changes: object) -> SnapshotSummary:
    """Return the summary with changes to its only device."""
    device = replace(DEVICE_SUMMARY, **changes)
    return replace(SUMMARY, devices=(device,))


ODD_SUMMARY = replace(
    summary_of(
        start_us=None,
        end_us=None,
        events_with_stack=0,
        unmatched_frees=3,
        unknown_actions=1,
        reconciliation_bytes=-512,
        measures=(
            replace(
                _REQUESTED,
                exactness="estimated",
                reasons=("unmatched_frees",),
                peak_us=None,
                mean_bytes=None,
                reconciliation_bytes=-512,
            ),
            _RESERVED,
        ),
        pool_count=3,
        stream_count=2,
        overflow="yes",
        overflow_signs=(),
        dropped_events=0,
        blocks_assumed=13,
        trusted=False,
        reasons=("ring_overflow", "unmatched_frees", "made_up_later"),
    ),
    container="gzip",
    file_bytes=9 * MIB,
    has_times=False,
    has_stacks=False,
    overflowed=True,
    settings_changed={},
)
