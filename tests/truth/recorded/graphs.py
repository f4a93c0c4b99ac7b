"""Captures a training step and single layers in graphs, and replays them."""

import torch
from torch import nn

from tests.truth import stock


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).cuda()


with stock.recorded():
    model = layers()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    x = torch.randn(32, 256).cuda()

    def take() -> None:
        stock.take(model, optimizers=optimizer)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            model(x).sum().backward()
            take()
            optimizer.step()
            take()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        y = model(x).sum()
        y.backward()
        optimizer.step()
    for _ in range(3):
        x.copy_(torch.randn(32, 256))
        graph.replay()
    take()

    other = layers()
    graphed = torch.cuda.make_graphed_callables(other, (torch.randn(32, 256).cuda(),))
    optimizers = optimizer, torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        graphed(torch.randn(32, 256).cuda()).sum().backward()
        stock.take(model, other, optimizers=optimizers)
        held = stock.held(p.grad for one in (model, other) for p in one.parameters())
        optimizers[1].step()
        stock.take(model, other, optimizers=optimizers)
        optimizers[1].zero_grad()
        # The memory that the graph writes gradients to stays in its pool.
        stock.take(model, other, optimizers=optimizers, gradients=held)
