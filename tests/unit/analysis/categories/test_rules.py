"""categories: the order of rules, their conditions, and errors in invalid rules."""

from __future__ import annotations

import re

import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import (
    CONDITIONS,
    DEFAULT_RULES,
    MAX_RULES,
    MERGED_RULES,
    UNKNOWN,
    Rule,
    RuleSet,
    parse_rules,
    rule_set,
)
from memreplay.errors import UsageError
from tests import build
from tests.build import SnapshotBuilder

SITE = "/v/lib/python3.12/site-packages/torch"


def category(*frames: tuple[str, str]) -> str:
    """Return the default rules' category of a stack of (file, function), innermost first."""
    spelled = [(function, file, 1) for file, function in frames]
    snap = mr.open(build.dump(SnapshotBuilder().alloc(512, 1, frames=spelled).build()))
    rules = RuleSet(DEFAULT_RULES)
    anywhere, own = rules.of_frames(snap)
    assert not any(own)
    met = rules.of_text("compile_context", None)
    assert met == rules.always("compile_context")
    found = 0
    for frame in snap.native.stack(1):
        found |= anywhere[frame]
    return rules.name((found & -found).bit_length() - 1 if found else MAX_RULES)


@pytest.mark.parametrize(
    "name, frames",
    [
        ("activations", [("/home/a/model.py", "forward"), ("/home/a/train.py", "main")]),
        ("activations", [("??", "at::add"), ("/home/a/model.py", "Block.forward")]),
        (
            "activations",
            [(f"{SITE}/nn/functional.py", "gelu"), (f"{SITE}/nn/modules/module.py", "_call_impl")],
        ),
        ("attention", [("/home/a/attention.py", "forward"), ("/home/a/model.py", "forward")]),
        ("attention", [(f"{SITE}/nn/functional.py", "scaled_dot_product_attention")]),
        ("KV cache", [("/v/transformers/cache_utils.py", "update"), ("/m.py", "forward")]),
        ("KV cache", [("/r/models/cache_utils_V2.py", "update_new"), ("/m.py", "forward")]),
        # DataParallel's forward() copies the model and the batch.
        (
            "parameters",
            [
                (f"{SITE}/nn/parallel/_functions.py", "forward"),
                (f"{SITE}/nn/parallel/replicate.py", "replicate"),
                (f"{SITE}/nn/parallel/data_parallel.py", "forward"),
            ],
        ),
        (
            "data loading",
            [
                (f"{SITE}/nn/parallel/_functions.py", "forward"),
                (f"{SITE}/nn/parallel/scatter_gather.py", "scatter_map"),
                (f"{SITE}/nn/parallel/data_parallel.py", "forward"),
            ],
        ),
        ("backward", [("??", "torch::autograd::generated::MmBackward0::apply(int)")]),
        ("backward", [("??", "at::x"), (f"{SITE}/_tensor.py", "backward"), ("/t.py", "main")]),
        (
            "backward",
            [("??", "at::x"), (f"{SITE}/autograd/__init__.py", "grad"), ("/t.py", "main")],
        ),
        (
            "backward",
            [("/bnb/_functions.py", "backward"), (f"{SITE}/autograd/function.py", "apply")],
        ),
        # A forward pass calls an autograd function in the same file.
        (
            "activations",
            [
                ("/bnb/_functions.py", "forward"),
                (f"{SITE}/autograd/function.py", "apply"),
                ("/m.py", "main"),
            ],
        ),
        ("optimizer state", [(f"{SITE}/optim/adamw.py", "_init_group"), ("/t.py", "main")]),
        ("optimizer state", [("/home/a/optimizers.py", "step"), ("/t.py", "train")]),
        ("parameters", [(f"{SITE}/nn/modules/linear.py", "__init__"), ("/m.py", "__init__")]),
        ("parameters", [(f"{SITE}/nn/modules/module.py", "to"), ("/t.py", "main")]),
        ("buffers", [("/m.py", "register_buffer"), ("/m.py", "__init__")]),
        ("FSDP/DDP", [(f"{SITE}/distributed/fsdp/_flat_param.py", "_alloc_storage")]),
        ("FSDP/DDP", [(f"{SITE}/nn/parallel/distributed.py", "_ddp_init_helper")]),
        ("FSDP/DDP", [(f"{SITE}/distributed/fsdp/_fully_shard/_fsdp_state.py", "_pre_forward")]),
        ("FSDP/DDP", [("??", "c10d::Reducer::initialize_buckets(std::vector<long>)")]),
        (
            "activations",
            [
                (f"{SITE}/nn/modules/linear.py", "forward"),
                (f"{SITE}/nn/parallel/distributed.py", "_run_ddp_forward"),
                (f"{SITE}/nn/parallel/distributed.py", "DistributedDataParallel.forward"),
            ],
        ),
        (
            "activations",
            [
                ("/m.py", "forward"),
                (f"{SITE}/distributed/fsdp/fully_sharded_data_parallel.py", "forward"),
            ],
        ),
        (
            "activations",
            [
                ("/m.py", "forward"),
                (
                    f"{SITE}/distributed/fsdp/fully_sharded_data_parallel.py",
                    "FullyShardedDataParallel.forward",
                ),
            ],
        ),
        (
            "activations",
            [
                ("/m.py", "forward"),
                (f"{SITE}/utils/checkpoint.py", "_checkpoint_without_reentrant.recompute_fn"),
                (f"{SITE}/_tensor.py", "backward"),
            ],
        ),
        ("activations", [(f"{SITE}/nn/functional.py", "cross_entropy"), ("/t.py", "main")]),
        ("activations", [("/home/a/losses.py", "cross_entropy_loss"), ("/t.py", "main")]),
        ("activations", [("/home/a/losses.py", "compute_loss"), ("/t.py", "main")]),
        (
            "parameters",
            [("/home/a/backend.py", "allocate"), ("/home/a/opt.py", "init_weight_list")],
        ),
        ("NCCL", [("??", "c10d::ProcessGroupNCCL::allreduce(int)"), ("/t.py", "backward")]),
        ("compiled code", [("/tmp/torchinductor_a/xy/cxyz.py", "call"), ("/m.py", "forward")]),
        ("data loading", [(f"{SITE}/utils/data/_utils/pin_memory.py", "pin_memory")]),
        ("data loading", [("/home/a/data.py", "get_batch"), ("/t.py", "main")]),
        (
            "parameters",  # a copy for a moving average isn't optimizer state
            [
                (f"{SITE}/nn/parameter.py", "__deepcopy__"),
                ("/lib/copy.py", "deepcopy"),
                (f"{SITE}/optim/swa_utils.py", "__init__"),
            ],
        ),
        (UNKNOWN, [("/home/a/train.py", "main")]),
        (UNKNOWN, [("/home/a/forwarding.py", "step_forward_all")]),
    ],
)
def test_default_rules_give_the_expected_category(name: str, frames: list[tuple[str, str]]) -> None:
    assert category(*frames) == name


def test_default_rules_have_a_fixed_order() -> None:
    assert [rule.name for rule in DEFAULT_RULES] == [
        "weights (cast)",
        "weights or activations (cast)",
        "NCCL",
        "FSDP/DDP",
        "optimizer temporaries",
        "optimizer state",
        "activations",
        "backward",
        "backward",
        "KV cache",
        "attention",
        "compiled code",
        "compiled code",
        "data loading",
        "buffers",
        "parameters",
        "activations",
        "parameters (likely)",
        "optimizer state (likely)",
        "gradients (likely)",
        "activations or inputs (likely)",
        "before the recording: parameters, optimizer state, buffers",
    ]
    for rule in DEFAULT_RULES:
        for key in CONDITIONS:
            re.compile(getattr(rule, key) or "")


def test_rules_match_annotations_and_contexts() -> None:
    rules = RuleSet(
        [
            Rule("eval", annotation="^eval"),
            Rule("both", frames="model", compile_context="[0-9]/0"),
            Rule("rest", frames=""),
        ]
    )
    assert [rules.asks(key) for key in CONDITIONS] == [True, True, True, False, False, False]
    assert rules.always("frames") == 0b001
    assert rules.of_text("annotation", "evaluate") == 0b111
    assert rules.of_text("annotation", "train") == rules.of_text("annotation", None) == 0b110
    assert rules.of_text("compile_context", "7/0") == 0b111
    assert rules.name(1) == "both"
    assert rules.name(64) == UNKNOWN


def test_frames_are_searched_once_for_the_same_expressions() -> None:
    frames = [("forward", "/home/ana/model.py", 1), ("step", f"{SITE}/optim/adam.py", 2)]
    snap = mr.open(build.dump(SnapshotBuilder().alloc(512, 1, frames=frames).build()))
    found = rule_set(DEFAULT_RULES).of_frames(snap)
    assert rule_set(DEFAULT_RULES) is rule_set(DEFAULT_RULES)
    assert RuleSet(MERGED_RULES).of_frames(snap) is found
    assert RuleSet(DEFAULT_RULES[::-1]).of_frames(snap) != found
    own = RuleSet([Rule("a", frames="model", where="own")]).of_frames(snap)
    anywhere = RuleSet([Rule("a", frames="model")]).of_frames(snap)
    assert sum(own[1]) == sum(anywhere[0]) == 1
    assert sum(own[0]) == sum(anywhere[1]) == 0


def test_rules_are_read_from_a_file() -> None:
    given = [
        {"name": "mine", "frames": "model\\.py:", "where": "own"},
        {"name": "eval", "annotation": "^eval"},
    ]
    assert parse_rules(given, "memreplay.toml") == (
        Rule("mine", "model\\.py:", "own"),
        Rule("eval", annotation="^eval"),
    )


@pytest.mark.parametrize(
    "given, words",
    [
        ({}, "t.toml: `category` must be a list"),
        (["x"], "t.toml: category rule 1 is not a table"),
        ([{"frames": "x"}], "category rule 1 has no name"),
        ([{"name": "a", "frames": "x"}, {"name": "b"}], r"rule 2 \('b'\) has no condition"),
        ([{"name": "b", "frame": "x"}], r"rule 1 \('b'\): unknown key 'frame'; known keys: name"),
        ([{"name": " ", "frames": "x"}], r"category rule 1 \(' '\) has no name"),
        (
            [{"name": "unknown", "frames": "x"}],
            "unknown is the name for allocations that no rule matches; choose another",
        ),
        (
            [{"name": "b", "frames": "a{99999999999}"}],
            r"\('b'\): frames is not a usable regular expression",
        ),
        ([{"name": "b", "frames": 3}], "frames must be a string"),
        (
            [{"name": "b", "frames": "("}],
            r"\('b'\): frames is not a regular expression: missing",
        ),
        ([{"name": "b", "frames": "x", "where": "top"}], ": `where` must be any or own, not 'top'"),
        ([{"name": "b", "frames": "x"}] * 65, "65 category rules, but at most 64 are allowed"),
    ],
)
def test_error_says_which_rule_is_invalid(given: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_rules(given, "t.toml")
