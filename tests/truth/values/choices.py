"""Programs that choose by unknown values: tokens, beams, experts. On the host, the values are such
that the choices are as even as a dry run assumes, and no sentence ends before its limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

END = 0
WORDS = 3000


def activations(device: str, rows: int, columns: int) -> torch.Tensor:
    """Return values that are unknown on a card. On the host, each row's largest ones come next to
    those of the row before, and none is in the first columns.
    """
    if device == "cuda":
        return torch.empty(rows, columns, device=device).sin()
    at = torch.arange(rows)[:, None] * 2 + columns // 2
    made = torch.zeros(rows, columns)
    return made.scatter_(1, (at + torch.arange(2)) % columns, torch.tensor([[2.0, 1.0]] * rows))


def experts(device: str) -> Any:
    tokens = torch.zeros(64, 4, device=device)
    chosen = activations(device, 64, 8).topk(2, dim=-1).indices
    mask = functional.one_hot(chosen, num_classes=8).permute(2, 1, 0)
    sizes = []
    for expert in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
        _, index = torch.where(mask[expert[0]])
        sizes.append(list(tokens[index].shape))
    return sizes


def sorted_by_expert(device: str) -> Any:
    chosen = activations(device, 64, 8).topk(2, dim=-1).indices.flatten()
    counts = torch.bincount(chosen, minlength=8)
    return counts.tolist(), chosen.argsort().shape, counts.cumsum(0)[-1].item()


def greedy(device: str) -> Any:
    done = torch.zeros(3, dtype=torch.bool, device=device)
    sentences = torch.full((3, 1), 7, device=device)
    while not done.all() and sentences.shape[1] < 9:
        words = activations(device, 3, WORDS).argmax(-1)
        words = torch.where(done, END, words)
        sentences = torch.cat((sentences, words[:, None]), 1)
        done |= words == END
    return sentences.shape


def sampled(device: str) -> Any:
    words = torch.multinomial(activations(device, 3, WORDS).softmax(-1), 2)
    return words.shape, words.eq(END).any().item()


def beams(device: str) -> Any:
    scores = torch.zeros(2, 4, device=device)
    scores[:, 1:] = -1e9
    best = torch.full((2, 4), -1e9, device=device)
    length = 0
    while length < 6 and bool((scores[:, :1] > best.min(1, keepdim=True).values).any()):
        logits = activations(device, 8, WORDS).log_softmax(-1)
        all_scores = (logits.view(2, 4, WORDS) + scores[:, :, None]).view(2, -1)
        values, indices = all_scores.topk(8)
        ends = (indices % WORDS) == END
        scores = (values + ends.float() * -1e9).topk(4).values
        ended = torch.where(ends, values / (length + 1), -1e9)
        best = torch.cat((best, ended), 1).topk(4).values
        length += 1
    return length


def largest_of_rows(device: str) -> Any:
    values = activations(device, 4, 8)
    return values.max(0).indices.shape, values.max(1, keepdim=True).indices.shape


PROGRAMS: dict[str, Callable[[str], Any]] = {
    name: made
    for name, made in list(globals().items())
    if callable(made) and getattr(made, "__module__", "") == __name__ and name != "activations"
}
