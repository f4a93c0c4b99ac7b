"""A graph network with attention, over one graph whose edges are known."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn import functional

NODES, EDGES, WIDTH, HEADS, LAYERS, CLASSES = 20_000, 160_000, 128, 4, 4, 16


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = import_module("torch_geometric.nn")
        self.conv = layers.GATConv(WIDTH, WIDTH // HEADS, heads=HEADS, dropout=0.1)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Any, edges: Any) -> Any:
        return x + functional.elu(self.norm(self.conv(x, edge_index=edges)))


class Gnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, x: Any, edges: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x, edges=edges)
        return self.last(x)


def main() -> None:
    model = Gnn().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    torch.manual_seed(0)
    edges = torch.randint(NODES, (2, EDGES)).cuda()
    x, classes = torch.randn(NODES, WIDTH).cuda(), torch.randint(CLASSES, (NODES,)).cuda()
    for _ in range(3):
        functional.cross_entropy(model(x, edges), classes).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
