"""Uses views, storages that grow and shrink in place, and tensors that change their storage."""

import torch

base = torch.empty(4_000_000, device="cuda")
views = [base[i * 1000 :].view(-1) for i in range(50)]
del base
for i in range(40):
    one = torch.empty(1000 + 100 * i, device="cuda")
    one.resize_(5_000 * (i + 1))
    one.untyped_storage().resize_(0)
    one.untyped_storage().resize_(4 * 700_000)
    one.set_(views[i].untyped_storage())
    views[i] = torch.empty(i, device="cuda")  # the first size is 0 bytes
    one.data = torch.empty(30_000 * i, dtype=torch.uint8, device="cuda")
views.clear()
