"""Programs for dry runs, and their memory."""

from __future__ import annotations

from tests.unit.dryrun.fake_torch import GIB, MIB

FITS = """
import torch
print("the program's own words")
def step():
    torch.take(5 << 20)
step()
torch.take(1 << 30)
"""
IN_ALL = GIB + 6 * MIB  # in whole pages
