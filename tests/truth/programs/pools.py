"""Allocates in its own pools, next to the default one."""

import torch

pools = [torch.cuda.MemPool() for _ in range(3)]
kept = []
for i in range(60):
    with torch.cuda.use_mem_pool(pools[i % 3]):
        kept.append(torch.empty(200_000 * (1 + i % 7), device="cuda"))
        torch.empty(1000, device="cuda")
    kept.append(torch.empty(50_000 * (1 + i % 5), device="cuda"))
    if i % 4 == 3:
        del kept[i % len(kept)], kept[0]
kept.clear()
del pools[1]
torch.cuda.empty_cache()
torch.empty(3_000_000, device="cuda")
