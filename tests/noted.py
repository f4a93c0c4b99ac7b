"""Add the recorder's notes to test snapshots, as the recorder writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from memreplay.engine.record._tracker import CATEGORIES, PHASES
from memreplay.snapshot.recorded import packed
from tests import oracle
from tests.build import Snapshot
from tests.strategies import ADDRESSES, traces

Kind = tuple[str, str, str]  # category, phase, module

# Module names: some contain each other, some are similar, some are deeply nested, some consist only
# of dots.
MODULES = ("", "GPT", "GPT.h", "GPT.h.0", "GPT.h.0.up", "GPT.h.1", "GPT.head", "Net", "a..b", ".")


def with_notes(
    snapshot: Snapshot,
    events: Sequence[Sequence[Kind | None]],
    before: Mapping[int, Kind] | None = None,
) -> Snapshot:
    """Add a kind for each event of each device (None: nothing was noted). `before` has the kinds of
    carried-over blocks by address.
    """
    before = before or {}
    of_all = [kind for column in events for kind in column if kind is not None]
    kinds = list(dict.fromkeys([*of_all, *before.values()]))
    modules = list(dict.fromkeys(["", *(module for _, _, module in kinds)]))
    number = {kind: i + 1 for i, kind in enumerate(kinds)}
    triples = [
        (CATEGORIES.index(category), PHASES.index(phase), modules.index(module))
        for category, phase, module in kinds
    ]

    def column(numbers: Sequence[int], dtype: str = "<u4") -> str:
        return packed(np.array(numbers, dtype=dtype).data)

    noted = {
        "categories": list(CATEGORIES),
        "phases": list(PHASES),
        "modules": modules,
        "kinds": column([one for triple in triples for one in triple]),
        "events": [column([number[k] if k else 0 for k in one]) for one in events],
        "before": {
            "addresses": column(list(before), "<u8"),
            "kinds": column([number[kind] for kind in before.values()]),
        },
    }
    return {**snapshot, "memreplay": {"version": 1, "recorder": "record", "allocations": noted}}


def noted_of(snapshot: Any, device: int) -> tuple[list[Kind | None], dict[int, Kind]]:
    """Read back the arguments of `with_notes`, with slow code: the kinds of a device's events and,
    by address, of its carried-over blocks.
    """
    import base64
    import struct
    import zlib

    noted = snapshot["memreplay"]["allocations"]

    def numbers(text: str, form: str) -> list[int]:
        data = zlib.decompress(base64.b64decode(text))
        return [one for (one,) in struct.iter_unpack(form, data)]

    flat = numbers(noted["kinds"], "<I")
    kinds: list[Kind | None] = [None]
    for at in range(0, len(flat), 3):
        category, phase, module = flat[at : at + 3]
        kinds.append(
            (noted["categories"][category], noted["phases"][phase], noted["modules"][module])
        )
    addresses = numbers(noted["before"]["addresses"], "<Q")
    theirs = [kinds[i] for i in numbers(noted["before"]["kinds"], "<I")]
    before = {a: kind for a, kind in zip(addresses, theirs, strict=True) if kind}
    there = device < len(noted["events"])
    return [kinds[i] for i in numbers(noted["events"][device], "<I")] if there else [], before


@st.composite
def noted_traces(draw: st.DrawFn, max_devices: int = 2, max_events: int = 25) -> Snapshot:
    """Draw snapshots from `traces`, with notes on most allocations."""
    snapshot = draw(traces(max_devices=max_devices, max_events=max_events))
    kinds = st.tuples(
        st.sampled_from(CATEGORIES), st.sampled_from(PHASES), st.sampled_from(MODULES)
    )
    few: list[Kind] = draw(st.lists(kinds, min_size=1, max_size=6))
    one = st.sampled_from([None, *few])
    events = [
        [draw(one) if event.get("action") == "alloc" else None for event in trace]
        for trace in snapshot["device_traces"]
    ]
    # The recorder notes at most one kind per block.
    most = sum(len(segment["blocks"]) for segment in snapshot["segments"])
    most += sum(kind is None for column in events for kind in column)
    addresses = st.sampled_from([oracle.unsigned(one) for one in ADDRESSES])
    before = draw(st.dictionaries(addresses, st.sampled_from(few), max_size=min(most, 5)))
    return with_notes(snapshot, events, before)
