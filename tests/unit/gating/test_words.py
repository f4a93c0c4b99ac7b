"""Tests of gating/words.py: the one line that says it all."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from memreplay.gating.result import Cause, Finding, GateReport
from memreplay.gating.telling import gate_report
from memreplay.gating.words import cause_words, finding_words, limit_words
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


def test_the_line_that_fails() -> None:
    assert headline(report(PEAK)) == (
        "FAIL peak held 41.2 GiB > 38 GiB"
        " (+3.4 GiB since base; +3.1 GiB in Attention.forward model.py:212)"
    )
    assert headline(report(KEPT, PEAK, TRUSTED, LEAK)).endswith("model.py:212); 1 more failed")


def test_the_line_that_passes() -> None:
    assert headline(report(KEPT)) == "PASS peak held 41.2 GiB <= 50 GiB (+3.4 GiB since base)"
    # Of several the one that came closest.
    far = replace(KEPT, limit_bytes=90 * GIB)
    assert headline(report(far, KEPT, TRUSTED)) == (
        "PASS peak held 41.2 GiB <= 50 GiB (+3.4 GiB since base); 1 more kept"
    )
    fine = replace(OOM, outcome="passed", causes=(), count=0, actual_bytes=0)
    assert headline(report(fine, TRUSTED)) == "PASS no out-of-memory event"
    assert headline(report(SKIPPED)) == "PASS nothing to judge; 1 not judged"
    assert headline(report(KEPT, SKIPPED)).endswith("since base); 1 not judged")


def test_what_could_not_be_judged_fails() -> None:
    words = "no-leaks could not be judged: 1 step is too few to tell a leak from a start-up"
    assert headline(report(NOT_JUDGED)) == f"FAIL {words}"
    assert headline(report(KEPT, NOT_JUDGED)) == f"FAIL {words}"
    # What is broken goes first.
    assert headline(report(NOT_JUDGED, LEAK, OOM)).endswith(
        "1 more failed; 1 more could not be judged"
    )
    assert headline(report(NOT_JUDGED, replace(NOT_JUDGED, device=1))) == (
        f"FAIL {words}; 1 more could not be judged"
    )


def test_what_cannot_be_trusted_goes_first() -> None:
    line = headline(report(PEAK, TRUST))
    assert line.startswith("FAIL held bytes cannot be trusted: unmatched_frees (blocks were freed")
    assert line.endswith("; --allow-untrusted judges it anyway; 1 more failed")


def test_several_files_are_named() -> None:
    two = gate_report([gated("a/x.pkl", None, (KEPT,)), gated("b/y.pkl", None, (PEAK,))])
    assert headline(two).startswith("FAIL y.pkl: peak held 41.2 GiB > 38 GiB (")
    assert headline(gate_report(two.files[:1] * 2)).startswith("PASS x.pkl: peak held")
    assert headline(gate_report((*two.files, UNREADABLE))) == (
        "FAIL a b/rank1.pkl: there is no such file; 1 more failed"
    )


def test_the_worst_of_several_goes_first() -> None:
    worse = replace(PEAK, actual_bytes=(PEAK.actual_bytes or 0) + GIB)
    other = replace(LEAK, actual_bytes=900 * GIB)
    files = [gated(f"r{i}.pkl", None, (one, other)) for i, one in enumerate((PEAK, worse))]
    line = headline(gate_report(files))
    assert line.startswith("FAIL r1.pkl: peak held 42.2 GiB > 38 GiB (")
    assert line.endswith("; 3 more failed")
    # By how far it is above its own limit, and of the same part of memory.
    part = replace(worse, category="activations")
    files = [gated(f"r{i}.pkl", None, (one,)) for i, one in enumerate((PEAK, part))]
    assert headline(gate_report(files)).startswith("FAIL r0.pkl: ")


def test_a_limit_of_0_bytes_is_a_limit() -> None:
    assert limit_words(replace(PEAK, limit_bytes=0)) == "0 B"
    assert limit_words(OOM) == limit_words(LEAK) == "none"


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
            "fragmentation on device 1 12.5% > 10% (5.0 GiB of 40.0 GiB never in use)",
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
        (replace(LEAK, causes=()), "leak 64.0 KiB a step over 40 steps (no single stack grows"),
        (replace(PEAK, device=3), "peak held on device 3 41.2 GiB > 38 GiB"),
        (TRUSTED, "held bytes can be trusted"),
        (replace(TRUST, outcome="skipped"), "held bytes cannot be trusted, but counts anyway"),
        (replace(TRUST, of_base=True), "base: held bytes cannot be trusted"),
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
        # Apart by less than is shown.
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
def test_each_kind(finding: Finding, words: str) -> None:
    assert words in finding_words(finding)


def test_the_name_of_a_budget_is_told() -> None:
    assert headline(report(GROWTH)).endswith("model.py:212) [attention grows]")


def test_names_of_a_snapshot_stay_on_their_line() -> None:
    lines = [headline(HOSTILE), cause_words(NASTY_CAUSE)]
    lines += [finding_words(one, file) for file in HOSTILE.files for one in file.findings]
    assert all(line.isprintable() for line in lines)
    long = Cause("x" * 10_000, 1, 1, "f" * 10_000, "/" + "y" * 10_000, 3)
    assert len(headline(report(replace(PEAK, causes=(long,))))) < 400
    assert all(finding_words(one, file) for file in WHOLE.files for one in file.findings)


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
        # How far into a library it is, is no line.
        ("forward", "forward libtorch_cpu.so"),
    ],
)
def test_code_of_pytorch_has_its_short_name(function: str, words: str) -> None:
    cause = Cause(function, 7, 7, function, "/v/torch/lib/libtorch_cpu.so", 34082790)
    assert cause_words(cause) == words


def test_the_highest_of_several() -> None:
    assert finding_words(SPREAD) == (
        "peak held +37.3% over the median of 8 files > +20% (30.0 GiB -> 41.2 GiB; +3.1 GiB in"
        " Attention.forward model.py:212)"
    )
    near = replace(SPREAD, median_bytes=100, actual_bytes=121, limit_bytes=120, causes=())
    assert finding_words(near).startswith("peak held +21.0% over the median of 8 files > +20%")
    same = replace(near, median_bytes=10**6, actual_bytes=1_200_001, limit_bytes=1_200_000)
    assert finding_words(same).startswith(
        "peak held +200,001 B over the median of 8 files > +200,000 B"
    )
    none = replace(near, median_bytes=0, limit_bytes=0)
    assert finding_words(none).startswith("peak held +121 B over the median of 8 files > +20%")
