"""Substrings that a text must contain to match a default rule's regular expression.

In the order of DEFAULT_RULES, which have one condition each. They were computed by
`needles.needles`, which would take too long for small files; a test checks that they're up to date.
"""

from __future__ import annotations

NEEDLES: tuple[tuple[str, ...] | None, ...] = (
    ("autocast's cast of a weight",),  # weights (cast)
    ("autocast's cast of a weight or an activation",),  # weights or activations (cast)
    ("c10d", "distributed_c10d.py:", "nccl", "processgroupnccl"),  # NCCL
    (
        "/torch/distributed/",
        "/torch/nn/parallel/distributed.py:",
        "c10d::reducer",
        "flatparam",
        "harded",
    ),  # FSDP/DDP
    ("in the optimizer's step",),  # optimizer temporaries
    ("/optim", "/torch/optim/", "optim"),  # optimizer state
    ("/torch/utils/checkpoint.py:",),  # activations
    ("/torch/_tensor.py:backward", "/torch/autograd/", "backward", "torch::autograd::"),  # backward
    ("thread without python",),  # backward
    ("attention", "cache", "cache_utils", "value"),  # KV cache
    (
        "attention",
        "flash",
        "mem",
        "multi",
        "scaled_dot_product",
        "self",
        "ttention.forward",
        "xformers",
    ),  # attention
    (
        "/torch/_functorch/",
        "/torch/_inductor/",
        "/torchinductor_",
        "cudagraph_trees",
    ),  # compiled code
    None,  # compiled code
    (
        "/torch/nn/parallel/scatter_gather.py:scatter",
        "/torch/utils/data/",
        "/torch_geometric/data/",
        "_loader",
        "collate",
        "get_batch",
        "loader",
        "pin_memory",
    ),  # data loading
    ("register_buffer",),  # buffers
    (
        "/torch/nn/modules/",
        "/torch/nn/modules/module.py:",
        "/torch/nn/parallel/replicate.py:",
        "/torch/nn/parameter.py:",
        "_load_from_state_dict",
        "_weight",
        "from_pretrained",
        "load_state_dict",
        "reset_parameters",
    ),  # parameters
    (
        "/torch/nn/functional.py:",
        "/torch/nn/modules/module.py:_",
        "cross_entropy",
        "forward",
        "oss",
    ),  # activations
    ("before the recording, likely a parameter",),  # parameters (likely)
    ("before the recording, likely optimizer state",),  # optimizer state (likely)
    ("before the recording, likely a gradient",),  # gradients (likely)
    ("before the recording, likely an activation or input",),  # activations or inputs (likely)
    ("before the recording",),  # before the recording: parameters, optimizer state, buffers
)
