"""Has enough memory, but some of it is waiting for another stream when the request fails."""

import torch

FAILS = "pending_frees"
size = torch.cuda.mem_get_info()[0] - (100 << 20)
kept = torch.empty(18 << 20, dtype=torch.uint8, device="cuda")
x = torch.empty(size, dtype=torch.uint8, device="cuda")
guard = x[:1]
side = torch.cuda.Stream()
x.record_stream(side)
first = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    del x, guard
    torch.empty(size, dtype=torch.uint8, device="cuda")
