"""Say what helps if a program failed because it lacks something that a dry run doesn't need."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.dryrun.launch import Ended

_HINTS = {
    "hub": (
        "it needs files from the Hugging Face Hub. A dry run needs neither weights nor a tokenizer:"
        " make the model with AutoModelForCausalLM.from_config(), and token ids with"
        " torch.randint(). If the files are in the cache, set HF_HUB_OFFLINE=1"
    ),
    "torch.hub": (
        "it downloads weights. A dry run needs none: pass weights=None (pretrained=False)"
    ),
    "network": (
        "it needs something from the network. A dry run needs no real data: use tensors of the same"
        " shapes, such as torch.rand() or torchvision.datasets.FakeData"
    ),
    "folder": (
        "the folder of {name} isn't here. Make it if the program writes there. A dry run needs no"
        " real data or weights: use tensors of the same shapes"
    ),
    "file": (
        "it needs {name}, which isn't here. A dry run needs no real data or weights: use tensors of"
        " the same shapes, or copy the file"
    ),
}


def hint_of(ended: Ended) -> str | None:
    """Return what helps if the program failed because something is missing; None otherwise."""
    if not ended.status or not ended.missing:
        return None
    kind, name = ended.missing[0]
    words = _HINTS.get(kind, "")
    return words.format(name=name or "a file") or None
