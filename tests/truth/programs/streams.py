"""Copies the first stream's tensors on a second stream, so their frees wait for the copies."""

import random

import torch

chance, live = random.Random(5), []
side, third = torch.cuda.Stream(), torch.cuda.Stream()
for i in range(150):
    x = torch.empty(chance.randrange(1, 3_000_000), device="cuda")
    with torch.cuda.stream(side if i % 3 else third):
        y = x * 2
        x.record_stream(torch.cuda.current_stream())
        if i % 5 == 0:
            y.record_stream(torch.cuda.default_stream())
            y.record_stream(third)
    live.append(y)
    if len(live) > 8:
        live.pop(chance.randrange(len(live)))
    if i % 60 == 59:
        torch.cuda.synchronize()
    if i % 70 == 69:
        torch.cuda.empty_cache()
