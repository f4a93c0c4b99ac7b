"""Tests of explore/look.py: the window holds the cursor, and never leaves the recording."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memreplay.explore.look import Look, moved, panned, zoomed

MOVES = st.lists(
    st.tuples(st.sampled_from(["move", "zoom", "pan"]), st.integers(-3000, 3000)), max_size=30
)


@given(st.integers(-1, 50), st.integers(0, 2000), MOVES)
def test_cursor_stays_in_the_window_and_window_in_the_recording(
    low: int, events: int, moves: list[tuple[str, int]]
) -> None:
    high = low + events
    look = Look(device=0, event=low, first=low, last=high)
    for kind, number in moves:
        if kind == "move":
            look = moved(look, number, low, high)
            assert look.event == min(max(number, low), high)
        elif kind == "zoom":
            look = zoomed(look, 0.5 if number < 0 else 2, low, high)
        else:
            before = look
            look = panned(look, number / 1000, low, high)
            assert look.last - look.first == before.last - before.first
        assert low <= look.first <= look.event <= look.last <= high


def test_zooming_keeps_the_cursor() -> None:
    look = Look(device=0, event=700, first=-1, last=999)
    inside = zoomed(look, 0.5, -1, 999)
    assert (inside.event, inside.last - inside.first) == (700, 500)
    assert zoomed(inside, 2, -1, 999) == look
    for _ in range(20):
        inside = zoomed(inside, 0.5, -1, 999)
    assert inside.last - inside.first == 16


def test_range_ends_are_ordered() -> None:
    look = Look(device=0, event=0, first=0, last=9)
    assert look.span is None
    assert Look(device=0, event=0, first=0, last=9, begin=7, end=3).span == (3, 7)
    assert Look(device=0, event=0, first=0, last=9, begin=7, end=7).span is None
