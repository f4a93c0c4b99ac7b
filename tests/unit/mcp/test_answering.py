"""Each tool says what the public function of its name finds, and hands on what it was asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import rules_of
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.at.text import at_document
from memreplay.commands.diff.text import diff_document
from memreplay.commands.fragmentation.text import fragmentation_document
from memreplay.commands.leaks.text import leaks_document
from memreplay.commands.oom.text import oom_document
from memreplay.commands.peak.text import peak_document
from memreplay.commands.report.text import report_document
from memreplay.commands.simulate.text import simulate_document
from memreplay.commands.steps.text import steps_document
from memreplay.commands.summary.text import summary_document
from memreplay.errors import UsageError
from memreplay.mcp.asking import Asking, ToldError
from memreplay.mcp.tools import TOOLS, Toolbox
from memreplay.render.compact import compact_lines
from memreplay.render.document import Document
from memreplay.snapshot.model import When
from tests.conftest import ROOT
from tests.unit.mcp.conftest import Asks

RULES = rules_of({}, "")
GPT, DEEPER = "transformer_step.pkl.gz", "transformer_deeper.pkl.gz"
LEAKY, OOM, TWO = "leaky_training.pkl.gz", "serving_oom.pkl.gz", "two_gpus.pkl.gz"


@pytest.fixture
def asking(asks: Asks) -> Asking:
    return asks(ROOT / "examples")


def opened(name: str) -> mr.Snapshot:
    snap = mr.open(ROOT / "examples" / name)
    snap.file = name
    return snap


def call(asking: Asking, tool: str, **given: Any) -> str:
    return Toolbox().call(tool, given, asking)


def words(document: Document) -> str:
    """What a tool says of it: but for commands that are no tools."""
    lines = (line.text for line in compact_lines(document))
    return "\n".join(line for line in lines if not line.startswith("memreplay timeline "))


FILTERS = Filters(include=("model.py",), exclude=("gelu",))


@pytest.mark.parametrize(
    "tool, given, document",
    [
        ("report", {"file": OOM}, lambda: report_document(mr.report(opened(OOM), fold=True))),
        (
            "report",
            {"file": OOM, "device": 0, "total_memory": "900MiB"},
            lambda: report_document(mr.report(opened(OOM), fold=True, total_memory=900 << 20)),
        ),
        ("summary", {"file": TWO}, lambda: summary_document(mr.summary(opened(TWO)))),
        (
            "peak",
            {"file": GPT},
            lambda: peak_document(mr.peak(opened(GPT), top=5, fold=True, rules=RULES)),
        ),
        (
            "peak",
            {"file": TWO, "device": 1, "by": "category,file", "top": 0, "measure": "held"},
            lambda: peak_document(
                mr.peak(opened(TWO), device=1, by="category,file", top=0, measure="held", fold=True)
            ),
        ),
        (
            "peak",
            {"file": GPT, "include": "model.py", "exclude": "gelu"},
            lambda: peak_document(mr.peak(opened(GPT), filters=FILTERS, top=5, fold=True)),
        ),
        (
            "at",
            {"file": GPT, "when": "1200", "by": "file"},
            lambda: at_document(
                mr.at(opened(GPT), When("event", 1200), by="file", top=5, fold=True)
            ),
        ),
        (
            "at",
            {"file": GPT, "when": "ProfilerStep#1:end", "top": 1},
            lambda: at_document(
                mr.at(
                    opened(GPT),
                    When("annotation", name="ProfilerStep#1", edge="end"),
                    top=1,
                    fold=True,
                )
            ),
        ),
        (
            "diff",
            {"base": GPT, "new": DEEPER},
            lambda: diff_document(mr.diff(opened(GPT), opened(DEEPER), top=8)),
        ),
        (
            "diff",
            {"base": GPT, "new": DEEPER, "at": "end", "by": "file", "top": 2},
            lambda: diff_document(
                mr.diff(opened(GPT), opened(DEEPER), at=When("end"), by="file", top=2)
            ),
        ),
        ("leaks", {"file": LEAKY}, lambda: leaks_document(mr.leaks(opened(LEAKY), top=3))),
        (
            "leaks",
            {"file": LEAKY, "windows": 20, "total_memory": "1GiB", "by": "file", "top": 1},
            lambda: leaks_document(
                mr.leaks(opened(LEAKY), windows=20, total_memory=1 << 30, by="file", top=1)
            ),
        ),
        (
            "oom",
            {"file": OOM},
            lambda: oom_document(mr.oom(opened(OOM), most=20, top=3, fold=True)),
        ),
        (
            "oom",
            {"file": OOM, "oom": 2, "total_memory": "850MiB", "top": 1, "by": "file"},
            lambda: oom_document(
                mr.oom(
                    opened(OOM),
                    number=2,
                    most=20,
                    total_memory=850 << 20,
                    top=1,
                    by="file",
                    fold=True,
                )
            ),
        ),
        (
            "fragmentation",
            {"file": OOM},
            lambda: fragmentation_document(mr.fragmentation(opened(OOM), top=5, fold=True)),
        ),
        (
            "fragmentation",
            {"file": OOM, "at": "end", "top": 1},
            lambda: fragmentation_document(
                mr.fragmentation(opened(OOM), at=When("end"), top=1, fold=True)
            ),
        ),
        (
            "simulate",
            {"file": OOM, "set": "expandable_segments:True", "total_memory": "800MiB"},
            lambda: simulate_document(
                mr.simulate(
                    opened(OOM), settings="expandable_segments:True", total_memory=800 << 20
                )
            ),
        ),
        (
            "simulate",
            {"file": OOM, "search": True},
            lambda: simulate_document(mr.simulate(opened(OOM), search=True), top=5),
        ),
        (
            "simulate",
            {"file": GPT, "scale": 0.5, "category": "activations", "include": "model.py"},
            lambda: simulate_document(
                mr.simulate(
                    opened(GPT),
                    change=mr.Change(
                        factor=0.5,
                        filters=Filters(include=("model.py",)),
                        categories=("activations",),
                    ),
                    rules=RULES,
                )
            ),
        ),
        ("steps", {"file": LEAKY}, lambda: steps_document(mr.steps(opened(LEAKY)), top=8)),
        (
            "steps",
            {"file": LEAKY, "period": 100},
            lambda: steps_document(mr.steps(opened(LEAKY), period=100), top=8),
        ),
        (
            "steps",
            {"file": LEAKY, "step_annotation": "ProfilerStep"},
            lambda: steps_document(mr.steps(opened(LEAKY), annotation="ProfilerStep"), top=8),
        ),
    ],
)
def test_answers_are_what_the_library_finds(
    asking: Asking, tool: str, given: dict[str, Any], document: Any
) -> None:
    assert call(asking, tool, **given) == words(document())


def test_sql(asking: Asking) -> None:
    lines = call(asking, "sql", file=LEAKY, query="select count(*) as n from allocations")
    assert lines == "1 row\nn\n7820"


@pytest.mark.parametrize(
    "tool, given, said",
    [
        ("peak", {"by": "color"}, "by: 'color' is not one of stack, "),
        ("at", {"when": "1200x"}, "when: "),
        ("oom", {"total_memory": "much"}, "total_memory: "),
        ("leaks", {"total_memory": "0B"}, "total_memory: '0B' is too small here"),
        ("simulate", {"include": "x"}, "what to do with the chosen allocations? give --scale"),
        ("simulate", {"category": "x"}, "what to do with the chosen allocations? give --scale"),
        ("peak", {"include": "(a|a)*$"}, "include: a group that repeats"),
        ("at", {"when": "end", "exclude": "(a|a)*$"}, "exclude: a group that repeats"),
        ("simulate", {"include": "(a|a)*$", "scale": 2}, "include: a group that repeats"),
        ("peak", {"top": 10**30}, "top: "),
        ("peak", {"include": "["}, "include: '[' is not a regular expression: "),
    ],
)
def test_wrong_values(asking: Asking, tool: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(asking, tool, file=OOM, **given)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "tool, given, said",
    [
        ("peak", {"device": 7}, f"{OOM}: no device 7; this snapshot has: 0"),
        ("at", {"when": "nothing"}, f"{OOM}: "),
        ("oom", {"oom": 9}, f"{OOM}: "),
        ("steps", {}, f"{OOM}: "),
        ("simulate", {"set": "nonsense:1"}, f"{OOM}: "),
        ("simulate", {"scale": 2, "category": "nothing"}, f"{OOM}: "),
    ],
)
def test_what_a_file_has_not(asking: Asking, tool: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ToldError) as caught:
        call(asking, tool, file=OOM, **given)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_a_report_advises_tools_alone(asking: Asking) -> None:
    said = re.findall(r"^memreplay (\S+)", call(asking, "report", file=GPT), re.MULTILINE)
    assert said
    assert {*said} <= {*TOOLS}


def test_a_file_without_a_leak_or_a_failure_is_no_error(asking: Asking) -> None:
    assert "no out-of-memory event in this file" in call(asking, "oom", file=GPT)
    assert "device 0: no leak\n" in call(asking, "leaks", file=OOM)


def test_what_is_cut_off(asks: Asks, tmp_path: Path) -> None:
    whole = mr.open(ROOT / "examples" / LEAKY)
    import gzip

    plain = gzip.decompress((ROOT / "examples" / LEAKY).read_bytes())
    (tmp_path / "cut.pkl").write_bytes(plain[: len(plain) // 2])
    asking = asks(tmp_path)
    with pytest.raises(ToldError, match=r"cut\.pkl: truncated pickle: .*--salvage"):
        call(asking, "summary", file="cut.pkl")
    for tool in ("report", "summary", "peak", "leaks", "oom", "fragmentation", "simulate", "steps"):
        assert call(asking, tool, file="cut.pkl", salvage=True)
    assert call(asking, "at", file="cut.pkl", when="end", salvage=True)
    assert call(asking, "diff", base="cut.pkl", new="cut.pkl", salvage=True)
    query = "select count(*) from events"
    rows = int(call(asking, "sql", file="cut.pkl", salvage=True, query=query).split("\n")[-1])
    assert 0 < rows < whole.native.n_events
