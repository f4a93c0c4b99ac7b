"""Tests of explore/commands_for.py: the command line matches the view, and filters match peak's."""

from __future__ import annotations

import shlex

import pytest
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Filters
from memreplay.errors import UsageError
from memreplay.explore.commands_for import (
    command_line,
    difference_line,
    filter_options,
    filtered,
)
from memreplay.explore.look import Look

LOOK = Look(device=1, event=7, first=0, last=9)


def test_every_view_has_a_command() -> None:
    def line(**changes: object) -> str:
        return command_line("a b.pkl", replace(LOOK, **changes), ("--salvage",), 0.01)

    end = "--device 1 --salvage"
    assert line() == f"memreplay at 'a b.pkl' 7 --tree --tree-share 0.01 --top 0 {end}"
    assert line(view="groups", by="file") == (f"memreplay at 'a b.pkl' 7 --by file --top 0 {end}")
    assert line(view="list", measure="held") == (
        f"memreplay at 'a b.pkl' 7 --list --top 0 --measure held {end}"
    )
    assert line(view="segments", event=-1) == (
        f"memreplay fragmentation 'a b.pkl' --at start --map --top 0 {end}"
    )
    assert line(view="change", begin=3, end=5) == (
        f"memreplay at 'a b.pkl' 3 5 --by stack --top 0 {end}"
    )
    filters = Filters(include=("a b",), min_bytes=512, no_carried_over=True)
    assert line(view="groups", whole=True, filters=filters, pool=(0, 1), stream=3) == (
        "memreplay at 'a b.pkl' 7 --by stack --all-frames --top 0 --only pool=0:1 --only stream=3"
        f" --include 'a b' --only min-bytes=512B --only no-carried-over {end}"
    )


def test_name_is_not_taken_for_an_option() -> None:
    for view in ("tree", "segments"):
        words = command_line("-x.pkl", replace(LOOK, view=view), (), 0.01).split()
        assert words[2] == "./-x.pkl"


def test_typed_filters_are_parsed() -> None:
    found = filtered(
        LOOK, "--include 'a b' --only min-bytes=1MiB --only pool=0:1 --only live-at-end"
    )
    assert found.filters == Filters(include=("a b",), min_bytes=1 << 20, only_live_at_end=True)
    assert (found.pool, found.stream, found.view) == ((0, 1), None, "tree")
    assert filtered(found, "") == LOOK
    assert filtered(LOOK, "attention").filters == Filters(include=("attention",))
    found = filtered(LOOK, "--by file --measure held")
    assert (found.by, found.view, found.measure) == ("file", "groups", "held")
    for size in ("1MiB", "3GiB", "1536KiB", "1025B", "1B"):
        found = filtered(LOOK, f"--only min-bytes={size}")
        assert filter_options(found) == ["--only", f"min-bytes={size}"]
        assert filtered(LOOK, shlex.join(filter_options(found))) == found  # as if edited again
    words = shlex.split(command_line("a.pkl", filtered(LOOK, "--exclude x=y"), (), 0.01))
    assert words[words.index("--exclude") + 1] == "x=y"


@pytest.mark.parametrize(
    "text", ["--include (", "--only min-bytes=x", "--nothing", "'open", "--by what", "--top 3"]
)
def test_invalid_filters_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        filtered(LOOK, text)


def test_salvage_is_passed_for_either_snapshot() -> None:
    from types import SimpleNamespace

    import memreplay as mr
    from memreplay.explore.explored import Explored
    from tests.build import SnapshotBuilder, dump

    explored = Explored(mr.open(dump(SnapshotBuilder().alloc(512, 100).build())))
    look = explored.first_look(0)

    def side(*read: str) -> SimpleNamespace:
        return SimpleNamespace(explored=explored, looked=look, file="a.pkl", read=read)

    for base, new in ((("--salvage",), ()), ((), ("--salvage",)), (("--salvage",),) * 2):
        assert difference_line(side(*base), side(*new), look).split().count("--salvage") == 1
    assert "--salvage" not in difference_line(side(), side(), look)
