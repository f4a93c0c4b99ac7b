"""Has enough free memory, in blocks that are too small."""

import torch

FAILS = "fragmentation"
big = torch.empty(torch.cuda.mem_get_info()[0] - (300 << 20), dtype=torch.uint8, device="cuda")
blocks = [torch.empty(4 << 20, dtype=torch.uint8, device="cuda") for _ in range(70)]
del blocks[::2]
torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
