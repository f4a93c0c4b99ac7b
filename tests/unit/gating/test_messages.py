"""Tests of gating/messages.py: the one-line result."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from memreplay.gating.messages import cause_text, finding_text, limit_text
from memreplay.gating.reporting import gate_report
from memreplay.gating.result import Cause, Finding, GateReport
from tests.unit.gating.gates import (
    FRAGMENTATION,
    GIB,
    GREW,
    GROWTH,
    GROWTH_BYTES,
    HOSTILE,
    KEPT,
    LEAK,
    NASTY_CAUSE,
    NOT_JUDGED,
    OOM,
    PEAK,
    RESERVED,
    SKIPPED,
    SPREAD,
    TRUST,
    TRUSTED,
    UNREADABLE,
    WHOLE,
    gated,
    report,
)


def headline(found: GateReport) -> str:
    return found.headline


def test_failing_line_names_the_limit_and_the_cause() -> None:
    assert headline(report(PEAK)) == (
        "FAIL peak held 41.2 GiB > 38 GiB"
        " (+3.4 GiB since base; +3.1 GiB in Attention.forward model.py:212)"
    )
    assert headline(report(KEPT, PEAK, TRUSTED, LEAK)).endswith("model.py:212); 1 more failed")


def test_passing_line_names_the_closest_limit() -> None:
    assert headline(report(KEPT)) == "PASS peak held 41.2 GiB <= 50 GiB (+3.4 GiB since base)"
    # The message names the limit that was closest to being exceeded.
    far = replace(KEPT, limit_bytes=90 * GIB)
    assert headline(report(far, KEPT, TRUSTED)) == (
        "PASS peak held 41.2 GiB <= 50 GiB (+3.4 GiB since base); 1 more passed"
    )
    fine = replace(OOM, outcome="passed", causes=(), count=0, actual_bytes=0)
    assert headline(report(fine, TRUSTED)) == "PASS no out-of-memory event"
    assert headline(report(SKIPPED)) == "PASS nothing to check; 1 not judged"
    assert headline(report(KEPT, SKIPPED)).endswith("since base); 1 not judged")


def test_unjudged_file_fails() -> None:
    words = "forbid-leaks couldn't be checked: 1 step is too few to distinguish a leak from warm-up"
    assert headline(report(NOT_JUDGED)) == f"FAIL {words}"
    assert headline(report(KEPT, NOT_JUDGED)) == f"FAIL {words}"
    # Exceeded limits come first in the message.
    assert headline(report(NOT_JUDGED, LEAK, OOM)).endswith(
        "1 more failed; 1 more couldn't be checked"
    )
    assert headline(report(NOT_JUDGED, replace(NOT_JUDGED, device=1))) == (
        f"FAIL {words}; 1 more couldn't be checked"
    )


def test_untrustworthy_file_comes_first() -> None:
    line = headline(report(PEAK, TRUST))
    assert line.startswith("FAIL held bytes can't be trusted: unmatched_frees (blocks were freed")
    assert line.endswith("; --allow-untrusted checks it anyway; 1 more failed")


def test_several_files_are_named() -> None:
    two = gate_report([gated("a/x.pkl", None, (KEPT,)), gated("b/y.pkl", None, (PEAK,))])
    assert headline(two).startswith("FAIL y.pkl: peak held 41.2 GiB > 38 GiB (")
    assert headline(gate_report(two.files[:1] * 2)).startswith("PASS x.pkl: peak held")
    assert headline(gate_report((*two.files, UNREADABLE))) == (
        "FAIL a b/rank1.pkl: no such file; 1 more failed"
    )


def test_worst_file_comes_first() -> None:
    worse = replace(PEAK, actual_bytes=(PEAK.actual_bytes or 0) + GIB)
    other = replace(LEAK, actual_bytes=900 * GIB)
    files = [gated(f"r{i}.pkl", None, (one, other)) for i, one in enumerate((PEAK, worse))]
    line = headline(gate_report(files))
    assert line.startswith("FAIL r1.pkl: peak held 42.2 GiB > 38 GiB (")
    assert line.endswith("; 3 more failed")
    # Within one measure, they are ordered by how far each is above its own limit.
    part = replace(worse, category="activations")
    files = [gated(f"r{i}.pkl", None, (one,)) for i, one in enumerate((PEAK, part))]
    assert headline(gate_report(files)).startswith("FAIL r0.pkl: ")


def test_limit_of_0_bytes_is_a_limit() -> None:
    assert limit_text(replace(PEAK, limit_bytes=0)) == "0 B"
    assert limit_text(OOM) == limit_text(LEAK) == "none"


@pytest.mark.parametrize(
    "finding, words",
    [
        (
            GROWTH,
            (
                "peak held of attention in ProfilerStep grew by 3.4 GiB (9.0%), more than the limit"
                " of 2% (37.8 GiB -> 41.2 GiB; +3.1 GiB in Attention.forward model.py:212)"
            ),
        ),
        (
            GROWTH_BYTES,
            (
                "peak held grew by 3.4 GiB (9.0%), more than the limit of 256 MiB"
                " (37.8 GiB -> 41.2 GiB; +3.1 GiB in Attention.forward model.py:212)"
            ),
        ),
        (RESERVED, "peak reserved 41.2 GiB > 38 GiB"),
        (
            FRAGMENTATION,
            (
                "fragmentation on device 1 12.5% > 10% (peak reserved 40.0 GiB is 5.0 GiB above"
                " peak active)"
            ),
        ),
        (LEAK, "leak 64.0 KiB a step over 40 steps (64.0 KiB in Attention.forward model.py:212)"),
        (
            OOM,
            (
                "out of memory: 2 requests failed, the first of 192.0 MiB in Attention.forward"
                " model.py:212"
            ),
        ),
        (replace(OOM, count=1), "out of memory: 1 request failed, of 192.0 MiB in Attention"),
        (replace(LEAK, outcome="passed"), "no leaks over 40 steps"),
        (
            replace(LEAK, causes=()),
            "leak 64.0 KiB a step over 40 steps (no single stack grows throughout",
        ),
        (replace(PEAK, device=3), "peak held on device 3 41.2 GiB > 38 GiB"),
        (TRUSTED, "held bytes can be trusted"),
        (
            replace(TRUST, outcome="skipped"),
            "held bytes can't be trusted, but are checked anyway: ",
        ),
        (replace(TRUST, of_base=True), "base: held bytes can't be trusted"),
        (replace(PEAK, causes=GREW[1:]), "+256.0 MiB (allocated before the recording))"),
        (
            replace(PEAK, causes=GREW[::-1]),
            "+256.0 MiB (allocated before the recording); +3.1 GiB in Attention.forward model",
        ),
        (
            replace(PEAK, base_bytes=None, causes=(replace(GREW[0], change_bytes=None),)),
            "peak held 41.2 GiB > 38 GiB (largest: 9.0 GiB in Attention.forward model.py:212)",
        ),
        (
            replace(
                PEAK, base_bytes=None, causes=(replace(GREW[0], bytes=21 * GIB, change_bytes=None),)
            ),
            "peak held 41.2 GiB > 38 GiB (most of it: 21.0 GiB in Attention.forward model.py:212)",
        ),
        (
            replace(PEAK, causes=tuple(replace(one, change_bytes=None) for one in reversed(GREW))),
            "; largest: 2.0 GiB (allocated before the recording); 9.0 GiB in Attention.forward mod",
        ),
        # The values differ by less than the displayed digits show.
        (
            replace(PEAK, actual_bytes=38 * GIB + 1, causes=()),
            "peak held 40,802,189,313 B > 40,802,189,312 B (+204.8 MiB since base)",
        ),
        (
            replace(GROWTH_BYTES, actual_bytes=(GROWTH_BYTES.limit_bytes or 0) + 1, causes=()),
            "grew by 268,435,457 B (0.7%), more than the limit of 268,435,456 B (37.8 GiB -> 38.1",
        ),
        (
            replace(GROWTH, base_bytes=0, limit_bytes=0, actual_bytes=512, causes=()),
            "ProfilerStep grew by 512 B, more than the limit of 2% (0 B -> 512 B)",
        ),
    ],
)
def test_every_kind_of_finding_is_worded(finding: Finding, words: str) -> None:
    assert words in finding_text(finding)


def test_name_of_a_budget_is_shown() -> None:
    assert headline(report(GROWTH)).endswith("model.py:212) [attention grows]")


def test_snapshot_names_stay_on_one_line() -> None:
    lines = [headline(HOSTILE), cause_text(NASTY_CAUSE)]
    lines += [finding_text(one, file) for file in HOSTILE.files for one in file.findings]
    assert all(line.isprintable() for line in lines)
    long = Cause("x" * 10_000, 1, 1, "f" * 10_000, "/" + "y" * 10_000, 3)
    assert len(headline(report(replace(PEAK, causes=(long,))))) < 400
    assert all(finding_text(one, file) for file in WHOLE.files for one in file.findings)


@pytest.mark.parametrize(
    "function, words",
    [
        (
            "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)",
            "BmmBackward0 (autograd)",
        ),
        ("at::_ops::sum::redispatch(c10::DispatchKeySet)", "aten::sum (PyTorch's own)"),
        (
            "at::native::structured_sum_out::impl(at::Tensor)",
            "at::native::structured_sum_out::impl libtorch_cpu.so",
        ),
        # An offset into a library isn't a line.
        ("forward", "forward libtorch_cpu.so"),
    ],
)
def test_pytorch_code_has_its_short_name(function: str, words: str) -> None:
    cause = Cause(function, 7, 7, function, "/v/torch/lib/libtorch_cpu.so", 34082790)
    assert cause_text(cause) == words


def test_highest_of_several_files_is_compared_with_the_median() -> None:
    assert finding_text(SPREAD) == (
        "peak held +37.3% over the median of 8 files > +20% (30.0 GiB -> 41.2 GiB; +3.1 GiB in"
        " Attention.forward model.py:212)"
    )
    near = replace(SPREAD, median_bytes=100, actual_bytes=121, limit_bytes=120, causes=())
    assert finding_text(near).startswith("peak held +21.0% over the median of 8 files > +20%")
    same = replace(near, median_bytes=10**6, actual_bytes=1_200_001, limit_bytes=1_200_000)
    assert finding_text(same).startswith(
        "peak held +200,001 B over the median of 8 files > +200,000 B"
    )
    none = replace(near, median_bytes=0, limit_bytes=0)
    assert finding_text(none).startswith("peak held +121 B over the median of 8 files > +20%")
