"""Requests more than is left; the request succeeds once the cache is freed."""

import os

import torch

kept = torch.empty(300 << 20, dtype=torch.uint8, device="cuda")
for i in range(20):
    # No cached block can serve these sizes.
    live = [
        torch.empty((231 + 4 * i + j) << 20, dtype=torch.uint8, device="cuda") for j in range(6)
    ]
    del live[i % 3 :: 3]
    torch.empty(400 << 20, dtype=torch.uint8, device="cuda")
    del live
    torch.empty((1600 + 4 * i) << 20, dtype=torch.uint8, device="cuda")
# Some settings and larger cards don't need this.
if "PYTORCH_ALLOC_CONF" not in os.environ and torch.cuda.mem_get_info()[1] <= 3 << 30:
    assert torch.cuda.memory_stats()["num_alloc_retries"] > 0
assert torch.cuda.memory_stats()["num_ooms"] == 0
