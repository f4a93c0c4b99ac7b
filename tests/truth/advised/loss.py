"""A loss over a large vocabulary; `after` computes it for the tokens in eight chunks."""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

HOW = sys.argv[1]
WORDS, WIDTH, TOKENS = 16_000, 128, 4_096

embedding = nn.Embedding(WORDS, WIDTH).cuda()
body = nn.Linear(WIDTH, WIDTH).cuda()
head = nn.Linear(WIDTH, WORDS).cuda()
optimizer = torch.optim.AdamW(
    [*embedding.parameters(), *body.parameters(), *head.parameters()], fused=True
)


def of_chunk(hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(head(hidden), targets, reduction="sum")


for _ in range(3):
    words = torch.randint(0, WORDS, (TOKENS,), device="cuda")
    targets = torch.randint(0, WORDS, (TOKENS,), device="cuda")
    hidden = body(embedding(words))
    if HOW == "after":
        chunks = zip(hidden.chunk(8), targets.chunk(8), strict=True)
        loss = sum(checkpoint(of_chunk, *chunk, use_reentrant=False) for chunk in chunks) / TOKENS
    else:
        loss = functional.cross_entropy(head(hidden), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated())
