"""Synthetic rows for ranks."""

from __future__ import annotations

from typing import Any

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.fleet.tasks import unread
from memreplay.fleets.find import FleetQuery, fleet_report
from memreplay.fleets.outliers import Explained, Pair
from memreplay.fleets.result import FleetDevice, FleetRank, FleetReport, Holder

MIB = 1 << 20


def device(held: dict[str, int], **others: Any) -> FleetDevice:
    """Return a device whose peak is held by this code, in MiB."""
    peak = sum(held.values()) * MIB
    known: dict[str, Any] = {
        "device": 0,
        "exactness": "exact",
        "peak_bytes": peak,
        "peak_event": 9,
        "peak_us": 1_000_009,
        "start_us": 1_000_000,
        "step": None,
        "reserved_peak_bytes": peak + 2 * MIB,
        "unused_bytes": 2 * MIB,
        "total_memory_bytes": None,
        "headroom_bytes": None,
        "end_bytes": peak // 2,
        "oom_count": 0,
        "leak_bytes_per_step": None,
        "categories_source": "guessed",
        "categories": (),
        "holders": tuple(Holder(name, n * MIB, 1) for name, n in held.items()),
        "curve_by": "events",
        "curve_bytes": (peak,),
        "cards": (),
        "trusted": True,
        "reasons": (),
    }
    return FleetDevice(**(known | others))


def rank(number: int | None, held: dict[str, int], **others: Any) -> FleetRank:
    return FleetRank(
        rank=number,
        file=f"rank{number}.pkl",
        status="ok",
        error=None,
        truncated=False,
        host=None,
        devices=(device(held, **others),),
    )


def broken(number: int | None, words: str = "not a pickle") -> FleetRank:
    made = unread(f"rank{number}.pkl", "unreadable", words)
    return FleetRank(
        **{name: getattr(made, name) for name in made.__struct_fields__} | {"rank": number}
    )


def report(*rows: FleetRank, explained: Explained | None = None, top: int = 20) -> FleetReport:
    """Return the report on these rows; pairs are compared with the given function, if any."""

    def explain(pairs: Any) -> list[Explained]:
        return [explained or Explained() for _ in pairs]

    return fleet_report(rows, FleetQuery("run/", Selection(top=top), "names"), explain)


def pairs_of(*rows: FleetRank) -> list[Pair]:
    """Return the pairs of files that are compared."""
    asked: list[Pair] = []

    def explain(pairs: Any) -> list[Explained]:
        asked.extend(pairs)
        return [Explained()] * len(pairs)

    fleet_report(rows, FleetQuery("run/", Selection(), "names"), explain)
    return asked
