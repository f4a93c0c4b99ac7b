"""What everyday programs read from integers, booleans and small floats on the card.

Each function takes a device and returns what the program would read, as Python's own values. They
only use operators whose results are the same on a real card.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

TOKENS = torch.tensor([[5, 6, 7, 2, 0, 0], [8, 2, 0, 0, 0, 0], [4, 3, 9, 9, 1, 2]])
LENGTHS = torch.tensor([4, 2, 6])
MANY = (torch.arange(100_000) * 7919) % 1009
PAD, END = 0, 2


def tokens(device: str) -> torch.Tensor:
    return TOKENS.to(device)


def padding_mask(device: str) -> Any:
    mask = tokens(device) != PAD
    return mask.tolist(), mask.sum(-1).tolist(), mask.all().item()


def mask_of_lengths(device: str) -> Any:
    lengths = LENGTHS.to(device)
    mask = torch.arange(int(lengths.max()), device=device)[None] < lengths[:, None]
    return mask.tolist(), mask.shape


def positions_from_mask(device: str) -> Any:
    mask = (tokens(device) != PAD).long()
    return (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1).tolist()


def labels_that_count(device: str) -> Any:
    labels = tokens(device).clone()
    labels[labels == PAD] = -100
    shifted = functional.pad(labels, (0, 1), value=-100)[..., 1:]
    return shifted.tolist(), (shifted != -100).sum().item()


def selected_by_mask(device: str) -> Any:
    all_tokens = tokens(device)
    return all_tokens[all_tokens > 4].tolist(), all_tokens.masked_select(all_tokens < 3).shape


def selected_by_rows_and_mask(device: str) -> Any:
    all_tokens = tokens(device)
    return all_tokens[all_tokens[:, 0] > 4].tolist(), all_tokens[1, all_tokens[0] > 4].tolist()


def selected_of_unknown_values(device: str) -> Any:
    hidden = torch.empty(3, 6, 16, device=device)
    mask = tokens(device) != PAD
    hidden[~mask] = 0
    return hidden[mask].shape


def selected_of_large_unknown_values(device: str) -> Any:
    hidden = torch.empty(3, 6, 4096, device=device)
    mask = tokens(device) != PAD
    hidden[~mask] = 0
    hidden[mask] = torch.zeros(int(mask.sum()), 4096, device=device)
    return hidden[mask].shape, hidden.masked_select(mask[..., None]).shape


def selected_in_compiled_code(device: str) -> Any:
    def selected(them: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return them[them > 4], (them > 2).cumsum(-1)

    chosen, counts = torch.compile(selected, backend="eager")(tokens(device))
    return chosen.tolist(), counts.tolist()


def beside_a_model_without_memory(device: str) -> Any:
    mask = tokens(device) != PAD
    torch.empty(100, device="meta").normal_()
    return mask.nonzero().tolist()


def found(device: str) -> Any:
    rows, columns = torch.where(tokens(device) == END)
    return rows.tolist(), columns.tolist(), tokens(device).nonzero().tolist()


def unique(device: str) -> Any:
    values, inverse, counts = torch.unique(tokens(device), return_inverse=True, return_counts=True)
    return values.tolist(), inverse.tolist(), counts.tolist()


def unique_consecutive(device: str) -> Any:
    return torch.unique_consecutive(tokens(device)[1]).tolist()


def unique_rows(device: str) -> Any:
    return torch.unique(tokens(device)[:, 3:], dim=0).tolist()


def counted(device: str) -> Any:
    flat = tokens(device).flatten()
    return torch.bincount(flat).tolist(), torch.bincount(flat, minlength=16).shape


def degrees(device: str) -> Any:
    edges = torch.tensor([[0, 1, 2, 2, 3], [1, 2, 0, 3, 3]]).to(device)
    degree = torch.zeros(4, dtype=torch.long, device=device)
    degree.scatter_add_(0, edges[1], torch.ones_like(edges[1]))
    return degree.tolist(), int(edges.max()) + 1, (edges[0] != edges[1]).nonzero().shape


def repeated(device: str) -> Any:
    lengths = LENGTHS.to(device)
    return torch.repeat_interleave(torch.arange(3, device=device), lengths).tolist()


def one_hot(device: str) -> Any:
    made = functional.one_hot(tokens(device))
    return made.shape, made.sum((0, 1)).tolist()


def packed_boundaries(device: str) -> Any:
    boundaries = functional.pad(LENGTHS.to(device).cumsum(0), (1, 0))
    return boundaries.tolist(), boundaries[-1].item(), int(boundaries.diff().max())


def split_by_lengths(device: str) -> Any:
    flat = torch.arange(12, device=device)
    return [part.sum().item() for part in flat.split(LENGTHS.to(device).tolist())]


def stopping(device: str) -> Any:
    unfinished = torch.ones(3, dtype=torch.long, device=device)
    for column in tokens(device).T:
        unfinished = unfinished.mul(column.ne(END).long())
        if unfinished.max() == 0:
            break
    return column.tolist(), unfinished.tolist()


def growing(device: str) -> Any:
    ids = tokens(device)[:, :2]
    for step in range(3):
        ids = torch.cat([ids, ids[:, -1:] + step], dim=-1)
    return ids.tolist()


def count_in_place(device: str) -> Any:
    count = torch.zeros((), dtype=torch.long, device=device)
    for i in range(5):
        count += i
    return count.item()


def written_through_views(device: str) -> Any:
    made = torch.zeros(3, 4, dtype=torch.int32, device=device)
    made[1].add_(2)
    made[:, 2] = 7
    made.t()[0] = 1
    return made.tolist(), made.t().contiguous().tolist()


def written_by_mask(device: str) -> Any:
    made = tokens(device).clone()
    made[made == PAD] = -1
    made[0, 1:3] = torch.tensor([11, 12], device=device)
    made.masked_fill_(made == END, 99)
    return made.tolist()


def written_to_output(device: str) -> Any:
    out = torch.empty(3, 6, dtype=torch.bool, device=device)
    torch.gt(tokens(device), 3, out=out)
    total = torch.empty(3, dtype=torch.long, device=device)
    torch.sum(tokens(device), 1, out=total)
    return out.tolist(), total.tolist()


def booleans(device: str) -> Any:
    one = tokens(device) > 3
    two = one.clone()
    two |= tokens(device) == END
    two &= ~one
    return two.tolist(), (one ^ two).any(0).tolist(), one.logical_not().tolist()


def causal(device: str) -> Any:
    mask = torch.ones(4, 4, dtype=torch.bool, device=device).tril()
    return mask.tolist(), torch.full((3, 3), 7, device=device).triu(1).tolist()


def sorted_(device: str) -> Any:
    values, order = LENGTHS.to(device).sort(descending=True)
    return values.tolist(), order.tolist(), torch.argsort(order).tolist()


def largest(device: str) -> Any:
    return tokens(device).topk(2).values.tolist(), tokens(device).max(1).values.tolist()


def gathered(device: str) -> Any:
    last = LENGTHS.to(device) - 1
    rows = torch.arange(3, device=device)
    return tokens(device)[rows, last].tolist(), tokens(device).gather(1, last[:, None]).tolist()


def index_selected(device: str) -> Any:
    return tokens(device).index_select(0, torch.tensor([2, 0], device=device)).tolist()


def added_by_index(device: str) -> Any:
    made = torch.zeros(10, dtype=torch.long, device=device)
    one = torch.ones(6, dtype=torch.long, device=device)
    made.index_put_((tokens(device)[2],), one, accumulate=True)
    made.index_add_(0, tokens(device)[0], one)
    return made.tolist()


def buckets(device: str) -> Any:
    edges = torch.tensor([1, 4, 8]).to(device)
    return torch.bucketize(tokens(device), edges).tolist(), torch.searchsorted(edges, 5).item()


def relative_positions(device: str) -> Any:
    at = torch.arange(5, device=device)
    apart = (at[None] - at[:, None]).clamp(-2, 2) + 2
    return apart.tolist(), apart.abs().max().item()


def divided(device: str) -> Any:
    flat = tokens(device).flatten()
    return (flat // 3 % 2).tolist(), torch.div(flat, 2, rounding_mode="floor").tolist()


def small_floats(device: str) -> Any:
    rate = torch.tensor([0.5, 0.25], device=device) * 4
    return rate.tolist(), rate.sum().item(), (torch.arange(4, device=device) / 2).tolist()


def finite(device: str) -> Any:
    scale = torch.full((1,), 65536.0, device=device)
    return scale.isfinite().all().item(), (scale * 0.5).item(), scale.isnan().any().item()


def equal(device: str) -> Any:
    return torch.equal(tokens(device), tokens(device)), torch.equal(
        tokens(device), LENGTHS.to(device)
    )


def padded(device: str) -> Any:
    rows = [row[:n] for row, n in zip(tokens(device), LENGTHS.tolist(), strict=True)]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1).tolist()


def rolled(device: str) -> Any:
    return tokens(device).roll(1, 1).tolist(), tokens(device).flip(0).tolist()


def stacked(device: str) -> Any:
    made = torch.stack([LENGTHS.to(device), LENGTHS.to(device) * 2])
    return made.repeat(1, 2).tolist(), made.expand(2, 2, 3).clone().tolist()


def large(device: str) -> Any:
    many = MANY.to(device)
    return many.unique().numel(), (many[::3] > 500).sum().item(), many[many < 10].shape


def copied_back(device: str) -> Any:
    made = torch.empty(3, 6, dtype=torch.int32, device=device).copy_(TOKENS)
    return made.cpu().tolist(), MANY.to(device).cpu().sum().item()


def products(device: str) -> Any:
    lengths = LENGTHS.to(device)
    return lengths.prod().item(), lengths.cumprod(0).tolist(), lengths.cummax(0).values.tolist()


def reshaped(device: str) -> Any:
    patches = torch.arange(16, device=device).view(4, 2, 2).permute(1, 0, 2).reshape(2, 8)
    return patches.tolist(), patches.unfold(1, 2, 2).sum(-1).tolist()


def in_thread(device: str) -> Any:
    import threading

    read: list[Any] = []

    def work() -> None:
        made = torch.arange(10, device=device)
        made += 5
        read.append((made > 9).sum().item())
        read.append(made[made > 9].tolist())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return read


def in_modes(device: str) -> Any:
    with torch.inference_mode():
        first = (tokens(device) == END).sum().item()
    with torch.autocast(device if device == "cuda" else "cpu", dtype=torch.bfloat16):
        return first, (tokens(device) + 1).max().item(), torch.ones(2, device=device).sum().item()


def under_device(device: str) -> Any:
    with torch.device(device):
        made = torch.arange(4)
        return made.tolist(), torch.tensor([True, False]).logical_not().tolist()


def in_backward(device: str) -> Any:
    weight = torch.ones(10, 4, device=device, requires_grad=True)
    used = tokens(device)
    functional.embedding(used, weight).sum().backward()
    return used.unique().numel()


def buffer_filled_in_part(device: str) -> Any:
    buffer = torch.empty(3, 10, dtype=torch.long, device=device)
    buffer[:, :6] = tokens(device)
    buffer[:, 8].fill_(4)
    wide = torch.empty(3000, 100, dtype=torch.long, device=device)
    wide[:, :99] = 1
    return buffer[:, 1:5].tolist(), buffer[:, 8].sum().item(), LENGTHS.to(device).tolist()


def made_into_outputs(device: str) -> Any:
    made, total = (torch.empty(0, dtype=torch.long, device=device) for _ in range(2))
    torch.arange(7, out=made)
    torch.add(made, 1, out=total)
    return made.tolist(), total.tolist()


class Marked(torch.Tensor):
    """A tensor that only has another name."""


def subclass(device: str) -> Any:
    marked = tokens(device).clone().as_subclass(Marked)
    marked += 1
    return (marked > 3).sum().item(), type(marked).__name__


PROGRAMS: dict[str, Callable[[str], Any]] = {
    name: made
    for name, made in list(globals().items())
    if callable(made)
    and getattr(made, "__module__", "") == __name__
    and name not in ("tokens", "Marked")
}
