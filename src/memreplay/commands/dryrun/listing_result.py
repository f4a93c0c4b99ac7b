"""The result of `memreplay dryrun --list-gpus`."""

from __future__ import annotations

from typing import Literal

from memreplay.render.document import Answer, Document
from memreplay.snapshot.record import Record

Known = Literal["measured", "start_measured", "estimated"]


class ListedGpu(Record, frozen=True):
    """A card that a dry run can imitate, and the memory that isn't PyTorch's."""

    key: str
    """Name for `--gpu`."""
    name: str
    """Name that PyTorch reports."""
    compute_capability: str
    """Such as `9.0`."""
    total_memory_bytes: int
    """Total memory that PyTorch reports."""
    context_bytes: int
    """Memory that CUDA itself takes at the start."""
    training_bytes: int
    """Memory outside PyTorch's allocator in a usual training program: CUDA, kernels, and handles of
    cuBLAS and cuDNN for two threads (forward and backward pass).
    """
    nccl_bytes: int
    """Memory for each NCCL communicator of several ranks: an estimate."""
    known: Known
    """The source of `training_bytes`: `measured` on this card, `start_measured` if the rest is
    estimated from another card, or `estimated` from a similar card.
    """
    source: str
    """Where the card's figures come from."""


class GpuList(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.dryrun-gpus/1"):
    """The result of `memreplay dryrun --list-gpus`."""

    gpus: tuple[ListedGpu, ...]
    """The cards, in the order of their generations."""
    error_bytes: int
    """The largest difference that was seen between `training_bytes` and a real program."""

    def document(self) -> Document:
        from memreplay.commands.dryrun.listing import list_document

        return list_document(self)
