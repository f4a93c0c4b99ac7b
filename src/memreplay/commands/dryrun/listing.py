"""List the cards that a dry run can imitate, and the memory that isn't PyTorch's."""

from __future__ import annotations

from memreplay.commands.dryrun.listing_result import GpuList, Known, ListedGpu
from memreplay.render.document import Document, Note, Row, Table
from memreplay.render.units import size
from memreplay.snapshot.cards import CARDS, OF_ANOTHER, OUTSIDE_ERROR, Card

_WORDS: dict[Known, str] = {
    "measured": "measured",
    "start_measured": "start measured",
    "estimated": "estimated",
}


def listed_gpus() -> GpuList:
    """Return all cards."""
    gpus = tuple(
        ListedGpu(
            key=card.key,
            name=card.name,
            compute_capability=f"{card.major}.{card.minor}",
            total_memory_bytes=card.bytes,
            context_bytes=card.context_bytes,
            training_bytes=card.training_bytes,
            nccl_bytes=card.outside.nccl,
            known=_known(card),
            source=card.source,
        )
        for card in CARDS
    )
    return GpuList(gpus=gpus, error_bytes=OUTSIDE_ERROR)


def _known(card: Card) -> Known:
    if card.is_outside_measured:
        return "measured"
    return "estimated" if card.context_exact == OF_ANOTHER else "start_measured"


def list_document(found: GpuList) -> Document:
    """Build a table with a row per card, and explain its columns."""
    rows = tuple(
        Row(
            (
                one.key,
                size(one.total_memory_bytes),
                size(one.context_bytes),
                size(one.training_bytes),
                size(one.nccl_bytes),
                _WORDS[one.known],
            )
        )
        for one in found.gpus
    )
    titles = ("--gpu", "memory", "at start", "training", "NCCL", "outside PyTorch is")
    table = Table(titles, ("left", "right", "right", "right", "right", "left"), rows)
    notes = (
        Note(
            "at start: what CUDA itself takes. training: what a usual training program takes"
            " outside PyTorch's allocator, with cuBLAS and cuDNN. Real programs were within"
            f" {size(found.error_bytes)} of this. NCCL: add about this for each communicator."
        ),
        Note(
            "measured: on this card. start measured: the rest is estimated from the H200 and the"
            " size of cuBLAS's workspace. estimated: from a similar card. --json has the sources."
        ),
    )
    return (table, *notes)
