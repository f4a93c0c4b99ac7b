"""Each tool passes all arguments to the public function with its name, and returns the result."""

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
from memreplay.mcp.calls import ReportedError, ToolCall
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
def tool_call(asks: Asks) -> ToolCall:
    return asks(ROOT / "examples")


def opened(name: str) -> mr.Snapshot:
    snap = mr.open(ROOT / "examples" / name)
    snap.file = name
    return snap


def call(tool_call: ToolCall, tool: str, **given: Any) -> str:
    return Toolbox().call(tool, given, tool_call)


def words(document: Document) -> str:
    """Return a tool's version of the text, without commands that aren't tools."""
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
            {"file": LEAKY, "step_windows": 20, "total_memory": "1GiB", "by": "file", "top": 1},
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
                    oom=2,
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
                mr.simulate(opened(OOM), set="expandable_segments:True", total_memory=800 << 20)
            ),
        ),
        (
            "simulate",
            {"file": OOM, "search": "settings"},
            lambda: simulate_document(mr.simulate(opened(OOM), search="settings"), top=5),
        ),
        (
            "simulate",
            {"file": GPT, "scale": 0.5, "only_category": "activations", "include": "model.py"},
            lambda: simulate_document(
                mr.simulate(
                    opened(GPT),
                    scale=0.5,
                    category="activations",
                    include="model.py",
                    rules=RULES,
                )
            ),
        ),
        ("steps", {"file": LEAKY}, lambda: steps_document(mr.steps(opened(LEAKY)), top=8)),
        (
            "steps",
            {"file": LEAKY, "step_period": 100},
            lambda: steps_document(mr.steps(opened(LEAKY), period=100), top=8),
        ),
        (
            "steps",
            {"file": LEAKY, "step_annotation": "ProfilerStep"},
            lambda: steps_document(mr.steps(opened(LEAKY), annotation="ProfilerStep"), top=8),
        ),
    ],
)
def test_answers_match_the_library(
    tool_call: ToolCall, tool: str, given: dict[str, Any], document: Any
) -> None:
    assert call(tool_call, tool, **given) == words(document())


def test_sql_returns_the_rows_of_a_query(tool_call: ToolCall) -> None:
    lines = call(tool_call, "sql", file=LEAKY, query="select count(*) as n from allocations")
    assert lines == "1 row\nn\n7820"


@pytest.mark.parametrize(
    "tool, given, said",
    [
        ("peak", {"by": "color"}, "by: 'color' is not one of stack, "),
        ("at", {"when": "1200x"}, "when: "),
        ("oom", {"total_memory": "much"}, "total_memory: "),
        (
            "leaks",
            {"total_memory": "0B"},
            "total_memory: '0B' is out of range; give a value of at least 1",
        ),
        ("simulate", {"include": "x"}, "say what to do with the chosen allocations: scale"),
        (
            "simulate",
            {"only_category": "x"},
            "say what to do with the chosen allocations: scale",
        ),
        (
            "peak",
            {"include": r"(a)\1"},
            "include: '(a)\\\\1' can't be searched for in bounded time",
        ),
        (
            "at",
            {"when": "end", "exclude": r"(a)\1"},
            "exclude: '(a)\\\\1' can't be searched for in bounded time",
        ),
        (
            "simulate",
            {"include": r"(a)\1", "scale": 2},
            "include: '(a)\\\\1' can't be searched for in bounded time",
        ),
        ("peak", {"top": 10**30}, "top: "),
        ("peak", {"include": "["}, "include: '[' is not a regular expression"),
    ],
)
def test_wrong_value_is_a_one_line_error(
    tool_call: ToolCall, tool: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        call(tool_call, tool, file=OOM, **given)
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
        ("simulate", {"scale": 2, "only_category": "nothing"}, f"{OOM}: "),
    ],
)
def test_missing_data_is_a_one_line_error(
    tool_call: ToolCall, tool: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ReportedError) as caught:
        call(tool_call, tool, file=OOM, **given)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_report_suggests_only_tools(tool_call: ToolCall) -> None:
    said = re.findall(r"^memreplay (\S+)", call(tool_call, "report", file=GPT), re.MULTILINE)
    assert said
    assert {*said} <= {*TOOLS}


def test_file_without_a_leak_or_failure_is_not_an_error(tool_call: ToolCall) -> None:
    assert "no out-of-memory event in this file" in call(tool_call, "oom", file=GPT)
    assert "device 0: no stack grows throughout the recording\n" in call(
        tool_call, "leaks", file=OOM
    )


def test_truncated_file_is_answered_with_salvage(asks: Asks, tmp_path: Path) -> None:
    whole = mr.open(ROOT / "examples" / LEAKY)
    import gzip

    plain = gzip.decompress((ROOT / "examples" / LEAKY).read_bytes())
    (tmp_path / "cut.pkl").write_bytes(plain[: len(plain) // 2])
    tool_call = asks(tmp_path)
    with pytest.raises(ReportedError, match=r"cut\.pkl: truncated pickle: .*--salvage"):
        call(tool_call, "summary", file="cut.pkl")
    for tool in ("report", "summary", "peak", "leaks", "oom", "fragmentation", "simulate", "steps"):
        assert call(tool_call, tool, file="cut.pkl", salvage=True)
    assert call(tool_call, "at", file="cut.pkl", when="end", salvage=True)
    assert call(tool_call, "diff", base="cut.pkl", new="cut.pkl", salvage=True)
    query = "select count(*) from events"
    rows = int(call(tool_call, "sql", file="cut.pkl", salvage=True, query=query).split("\n")[-1])
    assert 0 < rows < whole.native.n_events
