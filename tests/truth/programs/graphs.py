"""Captures CUDA graphs that share a pool, replays them, and deletes one."""

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
pool, graphs, inputs, outputs = torch.cuda.graph_pool_handle(), [], [], []
with torch.no_grad():
    for rows in (256, 64, 16):
        x = torch.zeros(rows, 512, device="cuda")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            y = model(x)
        graphs.append(graph)
        inputs.append(x)
        outputs.append(y)
    for i in range(30):
        inputs[i % 3].copy_(torch.ones(1, 512, device="cuda"))
        graphs[i % 3].replay()
        torch.empty(100_000 * (i + 1), device="cuda")
    alone = torch.cuda.CUDAGraph()
    with torch.cuda.graph(alone):
        z = model(inputs[0])
    del graphs[1], inputs[1], outputs[1], y, graph, alone, z
    torch.cuda.empty_cache()
    torch.empty(5_000_000, device="cuda")
