"""A dry run computes integers, booleans and small floats as the host does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.integration.dry import PYTHON, dryrun, marks

pytestmark = marks

PROGRAMS = 200
LARGE = """
import resource, torch
torch.zeros(1, device="cuda")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kept = [torch.zeros(4_000_000, dtype=torch.long, device="cuda") for _ in range(100)]
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
UNHOOKED = """
import torch
torch._C._dispatch_tls_set_dispatch_key_included("TESTING_ONLY_GenericMode", False)
print(torch.arange(4, device="cuda").sum().item())
"""
NAMES = (
    "add,subtract,compare,divide,clamp,where,sum,cumsum,select,nonzero,unique,bincount,repeat"
    ",gather,scatter,sort,concatenate,roll,fill,shift,positions,transpose,write"
    ",write by mask,one hot"
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(NAMES.split(",")),
        st.tuples(st.integers(0, 30), st.integers(0, 30)),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=12,
)


def both(
    folder: Path, *arguments: str, options: tuple[str, ...] = ()
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return what each program reads on the host and on the card, and the dry run's report."""
    out = folder / "read.json"
    program = (PYTHON, "-m", "tests.truth.values", str(out), *arguments)
    every = ("--json", "--force", *options, "--", *program)
    done = dryrun(folder, *every, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text()), json.loads(done.stdout)


def test_everyday_values_are_those_of_the_host(tmp_path: Path) -> None:
    read, report = both(tmp_path)
    assert len(read) > 40
    assert {name: on_card for name, (_, on_card) in read.items()} == {
        name: on_host for name, (on_host, _) in read.items()
    }
    assert report["reads"] == []


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    read, report = both(tmp_path, "uncertain")
    said = {place["function"] for place in report["reads"]}
    assert len(read) > 5
    assert [name for name, (on_host, on_card) in read.items() if on_host != on_card] == [
        name for name, (on_host, on_card) in read.items() if on_host != on_card and name in said
    ]


def test_values_on_other_cards_and_in_other_processes(tmp_path: Path) -> None:
    read, report = both(tmp_path, "places", options=("--gpus", "2"))
    assert len(read) == 6
    assert {name: on_card for name, (_, on_card) in read.items()} == {
        name: on_host for name, (on_host, _) in read.items()
    }
    assert report["reads"] == []


def test_choices_are_even_and_said_to_be_assumed(tmp_path: Path) -> None:
    read, report = both(tmp_path, "choices")
    assert len(read) > 5
    assert {name: on_card for name, (_, on_card) in read.items()} == {
        name: on_host for name, (on_host, _) in read.items()
    }
    said = {place["function"] for place in report["reads"] if place["chosen"]}
    assert said >= {"experts", "sorted_by_expert", "greedy"}
    assert not report["exact"]
    sizes = {place["function"] for place in report["reads"] if place["makes_sizes"]}
    assert sizes >= {"experts"}


def test_all_choices_can_be_the_same(tmp_path: Path) -> None:
    read, report = both(tmp_path, "choices", options=("--routing", "same"))
    assert sorted(read["sorted_by_expert"][1][0]) == [0, 0, 0, 0, 0, 0, 64, 64]
    assert read["experts"][1] == [[64, 4]] * 2
    assert report["routing"] == "same"


def test_hooks_that_are_not_called_are_said(tmp_path: Path) -> None:
    program = tmp_path / "unhooked.py"
    program.write_text(UNHOOKED)
    done = dryrun(tmp_path, "--json", "--", PYTHON, str(program))
    report = json.loads(done.stdout)
    assert "0" in done.stderr.splitlines()
    assert report["no_values"] == "this PyTorch doesn't call its operators' hooks"
    assert [place["operator"] for place in report["reads"]] == ["item"]


def test_large_integers_do_not_fill_the_host(tmp_path: Path) -> None:
    program = tmp_path / "large.py"
    program.write_text(LARGE)
    done = dryrun(tmp_path, "--", PYTHON, str(program))
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) < 2048


def test_generated_values_are_those_of_the_host(tmp_path: Path) -> None:
    programs: list[Any] = []

    # Starting PyTorch takes seconds, so all programs run in one process.
    # Making them only takes long on a machine that's busy.
    busy = [HealthCheck.too_slow]

    @settings(max_examples=PROGRAMS, database=None, deadline=None, suppress_health_check=busy)
    @given(STEPS)
    def collect(steps: Any) -> None:
        programs.append(steps)

    collect()
    path = tmp_path / "programs.json"
    path.write_text(json.dumps(programs))
    read, report = both(tmp_path, str(path))
    for name, (on_host, on_card) in read.items():
        assert on_card == on_host, programs[int(name)]
    assert len(read) >= PROGRAMS // 2
    assert report["reads"] == []
