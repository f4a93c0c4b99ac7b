"""The interactive page of a fleet: a heat map of ranks over time, a table, and the report."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.commands.fleet.links import links_of
from memreplay.commands.shared.errors import say
from memreplay.commands.shared.output import byte_output
from memreplay.export.page.fleet import Texts, fleet_page
from memreplay.export.page.fleet_records import FleetPage, PageAlike, PageRank
from memreplay.export.page.html import page_html
from memreplay.fleets.text import TOP, fleet_document, headline, noun_of
from memreplay.io.version import __version__
from memreplay.render.blocks import blocks_of
from memreplay.render.ranks import rank_list_text
from memreplay.render.trust import trust_label
from memreplay.render.units import counted, signed_size, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memreplay.export.page.coding import Coded
    from memreplay.fleets.result import FleetRank, FleetReport, RankGroup

HOLDERS = 8  # per rank
DOUBT = "some files weren't read or aren't trustworthy: see the report"


def page_of_fleet(
    report: FleetReport, top: int = TOP, links: Mapping[str, str] = MappingProxyType({})
) -> tuple[FleetPage, list[bytes]]:
    """Return the page's records and columns. `links`: the URLs of the files' own pages.

    Raises LimitError for values that a browser can't represent exactly.
    """
    texts = Texts()
    groups: dict[int | None, int] = {
        rank: at for at, group in enumerate(report.groups) for rank in group.rank_numbers
    }
    typical: dict[int | None, int] = {odd.rank: odd.typical_rank for odd in report.outliers}
    devices = sorted(one.devices[0].device for one in report.ranks if one.devices)
    ranks = []
    for one in report.ranks:
        made = _rank(one, report, texts, groups.get(one.rank))
        page = links.get(one.file)
        if page is not None and noun_of(report) == "device" and one.devices:
            page += f"#device={devices.index(one.devices[0].device)}"
        ranks.append(replace(made, typical=typical.get(one.rank), page=page))
    curves = [_curve(one, report) for one in report.ranks]

    def whole(coded: Coded, n_bytes: int) -> FleetPage:
        return FleetPage(
            version=__version__,
            title=clean(report.input),
            headline=clean(", ".join(headline(report))),
            doubt="" if report.trusted else DOUBT,
            measure=report.measure,
            noun=noun_of(report),
            curve_by=report.curve_by or "events",
            texts=texts.all,
            ranks=tuple(ranks),
            groups=tuple(_group(one, noun_of(report)) for one in report.groups),
            curves=coded,
            bytes=n_bytes,
            report=blocks_of(fleet_document(report, top)),
        )

    return fleet_page(ranks, curves, whole)


def write_fleet_page(report: FleetReport, output: str, top: int) -> None:
    """Write the page atomically, and print that it was written. Raises OSError, LimitError."""
    links = links_of((one.file for one in report.ranks), output)
    page, columns = page_of_fleet(report, top, links)
    with byte_output(output) as out:
        for piece in page_html(page, columns, "fleet"):
            out.write(piece)
    if output != "-":
        told = f"{size(os.path.getsize(output))}, {counted(len(page.ranks), page.noun)}"
        say(f"wrote {output}: {told}; open it in a browser")


def _rank(one: FleetRank, report: FleetReport, texts: Texts, group: int | None) -> PageRank:
    rank = PageRank(
        rank=one.rank,
        file=clean(one.file),
        status=one.status,
        error=None if one.error is None else clean(one.error),
        host=None if one.host is None else clean(one.host),
        group=group,
        typical=None,
    )
    if not one.devices:
        return rank
    own = one.devices[0]
    return replace(
        rank,
        device=own.device,
        peak_bytes=own.peak_bytes,
        reserved_bytes=own.reserved_peak_bytes,
        headroom_bytes=own.headroom_bytes,
        step=None if own.step is None else own.step.number,
        ooms=own.oom_count,
        leak_bytes_per_step=own.leak_bytes_per_step,
        trust=trust_label(own),
        categories=texts.shares((clean(part.category), part.bytes) for part in own.categories),
        holders=texts.shares((clean(part.label), part.bytes) for part in own.holders[:HOLDERS]),
        moments=len(_curve(one, report)),
    )


def _curve(one: FleetRank, report: FleetReport) -> tuple[int, ...]:
    """Return a rank's curve if it uses the unit that most ranks have."""
    if not one.devices or one.devices[0].curve_by != report.curve_by:
        return ()
    return one.devices[0].curve_bytes


def _group(group: RankGroup, noun: str) -> PageAlike:
    return PageAlike(
        rank_list_text(group.rank_numbers, noun),
        tuple(
            clean(f"{signed_size(change.new_bytes - change.base_bytes)} {change.label}")
            for change in group.differs
        ),
    )
