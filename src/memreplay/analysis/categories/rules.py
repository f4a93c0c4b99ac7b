"""Category rules: an ordered list in which the first match decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.categories.ends import IN_STEP
from memreplay.analysis.categories.moved import buffer_frames
from memreplay.analysis.categories.origins import (
    BEFORE,
    EITHER_CAST,
    LIKELY_ACTIVATION,
    LIKELY_GRADIENT,
    LIKELY_PARAMETER,
    LIKELY_STATE,
    NO_PYTHON,
    WEIGHT_CAST,
)
from memreplay.analysis.code.patterns import Patterns, compiled
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.code.linear import Linear
    from memreplay.snapshot.snapshot import Snapshot

MAX_RULES = 64  # because each rule has its own bit in a 64-bit number
UNKNOWN = "unknown"
WHERE = ("any", "own")
CONDITIONS = ("frames", "annotation", "compile_context", "user_metadata", "origin", "ends")
_KEYS = ("name", "where", *CONDITIONS)


class Rule(Struct, frozen=True):
    """A rule: a category, and regular expressions that must all match."""

    name: str
    """The category."""
    frames: str | None = None
    """Searched in `file:function` of the stack's frames."""
    where: str = "any"
    """Which frames to search: "any", or "own", the one that the stack is attributed to."""
    annotation: str | None = None
    """Searched in the name of the innermost annotation open at the allocation."""
    compile_context: str | None = None
    """Searched in the event's compile context."""
    user_metadata: str | None = None
    """Searched in the event's user metadata."""
    origin: str | None = None
    """Searched in the description of the allocation's origin, such as `before the recording`."""
    ends: str | None = None
    """Searched in the description of where the allocation is freed. The only description is `in the
    optimizer's step`: the step that freed it also allocated it.
    """


# Names in PyTorch and common libraries. The most specific rules come first, because optimizers and
# backward passes also run code that other rules match. Repetitions are bounded so that hostile
# names can't make matching slower than linear.
DEFAULT_RULES = (
    Rule("weights (cast)", origin=f"^{WEIGHT_CAST}$"),
    Rule("weights or activations (cast)", origin=f"^{EITHER_CAST}$"),
    Rule(
        "NCCL",
        r"ProcessGroupNCCL|\bnccl|(?:^|[/:])c10d(?:::(?!Reducer|Logger)|/)|distributed_c10d\.py:",
    ),
    # Excludes wrappers' forward(), because the code that it calls belongs to the wrapped model.
    Rule(
        "FSDP/DDP",
        r"/torch/distributed/(?:fsdp|_composable|tensor)/(?!.{0,512}\bforward$)"
        r"|/torch/nn/parallel/distributed\.py:(?!(?:\w{1,64}\.)?(?:_run_ddp_)?forward$)"
        r"|c10d::Reducer|FlatParam|[Ff]ully_?[Ss]harded(?!.{0,512}\bforward$)",
    ),
    # Memory that a step both allocates and frees isn't state, even if its stack looks like that of
    # state.
    Rule("optimizer temporaries", ends=f"^{IN_STEP}$"),
    Rule(
        "optimizer state",
        r"/torch/optim/(?!swa_utils)|/(?:bitsandbytes|apex)/optim|(?i:optim\w{0,64}\.py):(?:\w+\.)?"
        r"(?:step|_init_group|init_state|_\w{0,64}tensor_\w{1,64})$",
    ),
    # Recomputed during the backward pass.
    Rule("activations", r"/torch/utils/checkpoint\.py:(?:\S{1,64}\.)?recompute_fn$"),
    Rule(
        "backward",
        r"Backward\d*(?:::apply\b|$)|torch::autograd::(?:Engine|AccumulateGrad|InputBuffer)"
        # Excludes function.py, because forward passes also call Function.apply. A backward() has a
        # frame of its own.
        r"|/torch/autograd/(?:__init__|graph)\.py:|/torch/_tensor\.py:backward$"
        r"|:(?:\w+\.)?backward$",
    ),
    # With Python-only stacks, autograd's threads have no frames.
    Rule("backward", origin=f"^{NO_PYTHON}$"),
    Rule("KV cache", r"(?i:kv_?cache|past_?key_?values?|cache_utils\w{0,16}\.py|paged_?attention)"),
    Rule(
        "attention",
        r"(?i:scaled_dot_product|flash_?att|mem_?eff\w{0,64}_?att|xformers|self_?att(?:n|ention)"
        r"|multi_?head|attention\w{0,64}(?:\.py)?:)|(?:^|[:.])\w{0,64}[Aa]ttention\.forward$",
    ),
    Rule("compiled code", r"/torchinductor_|/torch/_inductor/|/torch/_functorch/|cudagraph_trees"),
    Rule("compiled code", compile_context=r"."),
    Rule(
        "data loading",
        # DataParallel's copies of a batch.
        r"/torch/nn/parallel/scatter_gather\.py:scatter|/torch_geometric/data/"
        r"|/torch/utils/data/|(?i:dataloader|data_loader)|:(?:\w{0,64}collate\w{0,64}|pin_memory|get_batch)$",
    ),
    # Also covers the buffers that `Module._apply` moves, which of_frames finds by line.
    Rule("buffers", r":(?:\w+\.)?register_buffer$"),
    Rule(
        "parameters",
        # DataParallel's copies of the model.
        r"/torch/nn/parallel/replicate\.py:"
        r"|/torch/nn/parameter\.py:|:(?:\w+\.)?(?:reset_parameters|load_state_dict|from_pretrained"
        r"|_load_from_state_dict|(?:init|load)_weights?\w{0,64})$|/torch/nn/modules/module\.py:(?:\w+\.)?(?:to|cuda|half|float"
        r"|bfloat16|_apply)$|/torch/nn/modules/\w+\.py:__init__$",
    ),
    Rule(
        "activations",
        r":(?:\w+\.)?forward$|/torch/nn/modules/module\.py:_(?:wrapped_)?call_impl$"
        r"|/torch/nn/functional\.py:|:(?:\w+\.)?\w{0,64}(?:[Ll]oss|cross_entropy)\w{0,16}$",
    ),
    # Carried-over blocks that the trace identifies.
    Rule("parameters (likely)", origin=f"^{LIKELY_PARAMETER}$"),
    Rule("optimizer state (likely)", origin=f"^{LIKELY_STATE}$"),
    Rule("gradients (likely)", origin=f"^{LIKELY_GRADIENT}$"),
    Rule("activations or inputs (likely)", origin=f"^{LIKELY_ACTIVATION}$"),
    Rule("before the recording: parameters, optimizer state, buffers", origin=f"^{BEFORE}$"),
)
# The optimizer step rule's bit in the results of matching frames against DEFAULT_RULES.
OPTIMIZER = 1 << next(
    bit for bit, rule in enumerate(DEFAULT_RULES) if rule.name == "optimizer state"
)
_OF_OPTIMIZERS = {
    (rule.frames, rule.ends)
    for rule in DEFAULT_RULES
    if rule.name in ("optimizer state", "optimizer temporaries")
}
_BUFFERS = tuple(rule for rule in DEFAULT_RULES if rule.name == "buffers")
# Carried-over blocks that can't be classified.
NOT_TOLD_APART = next(rule.name for rule in DEFAULT_RULES if rule.origin == f"^{BEFORE}$")
# Maps likely categories to the category that the blocks would have if recording had begun with the
# program, so that a late recording compares equal to a full one. Gradients belong to `backward`.
MERGED = {
    "parameters (likely)": "parameters",
    "optimizer state (likely)": "optimizer state",
    "gradients (likely)": "backward",
    "activations or inputs (likely)": "activations",
}
MERGED_RULES = tuple(
    replace(rule, name=MERGED[rule.name]) if rule.name in MERGED else rule for rule in DEFAULT_RULES
)
_LIKELY = frozenset(
    merged for rule, merged in zip(DEFAULT_RULES, MERGED_RULES, strict=True) if merged is not rule
)
# The default rules' regular expressions.
_OWN = frozenset(
    pattern
    for rule in DEFAULT_RULES
    for key in CONDITIONS
    if (pattern := getattr(rule, key)) is not None
)


def merged_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return rules that merge likely categories into the corresponding certain ones, for
    comparisons.
    """
    merged = dict(zip(DEFAULT_RULES, MERGED_RULES, strict=True))
    return tuple(merged.get(rule, rule) for rule in rules)


def parse_rules(given: object, source: str) -> tuple[Rule, ...]:
    """Parse rules from a list of tables in the configuration. `source`: the file's name.

    Raises UsageError naming the invalid rule.
    """
    if not isinstance(given, list):
        raise UsageError(f"{source}: `category` must be a list of tables ([[category]])")
    rules = [_parsed(one, number, source) for number, one in enumerate(given, 1)]
    if len(rules) > MAX_RULES:
        raise UsageError(
            f"{source}: {len(rules)} category rules, but at most {MAX_RULES} are allowed"
        )
    return tuple(rules)


def rules_of(config: Mapping[str, object], source: str) -> tuple[Rule, ...]:
    """Return a configuration's rules, then the defaults unless `category_defaults` is false.

    Raises UsageError like `parse_rules`.
    """
    defaults = config.get("category_defaults", True)
    if not isinstance(defaults, bool):
        raise UsageError(f"{source}: category_defaults must be true or false")
    own = parse_rules(config.get("category", []), source)
    rules = (*own, *DEFAULT_RULES) if defaults else own
    if len(rules) > MAX_RULES:
        raise UsageError(
            f"{source}: {len(own)} category rules and {len(DEFAULT_RULES)} defaults, but"
            f" at most {MAX_RULES} are allowed (category_defaults = false drops those)"
        )
    return rules


def _parsed(given: object, number: int, source: str) -> Rule:
    name = given.get("name") if isinstance(given, Mapping) else None
    where = f"{source}: category rule {number}" + (f" ({name!r})" if name else "")
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} is not a table")
    for key, value in given.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}; known keys: {', '.join(_KEYS)}")
        if not isinstance(value, str):
            raise UsageError(f"{where}: {key} must be a string")
    if not name or not name.strip():
        raise UsageError(f"{where} has no name")
    if name == UNKNOWN:
        raise UsageError(
            f"{where}: {UNKNOWN} is the name for allocations that no rule matches; choose another"
        )
    if given.get("where", "any") not in WHERE:
        raise UsageError(f"{where}: `where` must be any or own, not {given['where']!r}")
    if not any(key in given for key in CONDITIONS):
        raise UsageError(f"{where} has no condition: give one of {', '.join(CONDITIONS)}")
    rule = Rule(**given)
    for key in CONDITIONS:
        pattern = getattr(rule, key)
        if pattern is not None:
            compiled(pattern, f"{where}: {key}")
    return rule


def _patterns(rules: Sequence[Rule], key: str) -> Patterns:
    """Prepare the rules' conditions of one kind, one bit per rule."""
    own: list[tuple[int, str]] = []
    given: list[tuple[int, Linear]] = []
    for bit, rule in enumerate(rules):
        pattern = getattr(rule, key)
        if pattern in _OWN:
            own.append((1 << bit, pattern))
        elif pattern is not None:
            given.append((1 << bit, compiled(pattern, f"category rule {rule.name!r}: {key}")))
    return Patterns(own, given)


class RuleSet:
    """Rules prepared for matching: finds the rules that a frame or text matches, one bit per
    rule.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        if len(rules) > MAX_RULES:
            raise UsageError(f"{len(rules)} category rules, but at most {MAX_RULES} are allowed")
        self.rules = tuple(rules)
        self._bits = {
            key: sum(1 << bit for bit, rule in enumerate(rules) if getattr(rule, key) is not None)
            for key in CONDITIONS
        }
        self._patterns = {key: _patterns(rules, key) for key in CONDITIONS}
        self._own = sum(1 << bit for bit, rule in enumerate(rules) if rule.where == "own")

    def asks(self, key: str) -> bool:
        """Return whether any rule has the condition `key`, one of CONDITIONS."""
        return bool(self._bits[key])

    def always(self, key: str) -> int:
        """Return the rules without the condition `key`, as bits."""
        return (1 << len(self.rules)) - 1 & ~self._bits[key]

    def of_text(self, key: str, text: str | None) -> int:
        """Return the rules whose condition a text matches or that don't have the condition. `text`
        is None if the allocation has no such text.
        """
        return self.always(key) | (0 if text is None else self._patterns[key].search(text))

    def of_frames(self, snap: Snapshot) -> tuple[list[int], list[int]]:
        """Return for each frame the rules that it matches anywhere in a stack, and the rules that
        it matches if the stack is attributed to it.
        """
        # Names don't matter, so the default rules and the merged ones are searched once.
        searched = tuple((rule.frames, rule.where, rule in _BUFFERS) for rule in self.rules)
        found: tuple[list[int], list[int]] = snap.code.classified.get(
            searched, lambda: self._of_frames(snap)
        )
        return found

    def _of_frames(self, snap: Snapshot) -> tuple[list[int], list[int]]:
        met = self._patterns["frames"].of_frames(snap)
        buffers = sum(1 << bit for bit, rule in enumerate(self.rules) if rule in _BUFFERS)
        for frame in buffer_frames(snap.code) if buffers else ():
            met[frame] |= buffers
        if not self._own:
            return met, [0] * len(met)
        return [bits & ~self._own for bits in met], [bits & self._own for bits in met]

    def first_of_name(self) -> list[int]:
        """Return for each rule the first rule with the same category."""
        first: dict[str, int] = {}
        return [first.setdefault(rule.name, number) for number, rule in enumerate(self.rules)]

    @property
    def own(self) -> tuple[Rule, ...]:
        """Rules that aren't defaults."""
        return tuple(
            rule for rule in self.rules if rule not in DEFAULT_RULES and rule not in _LIKELY
        )

    @property
    def likely(self) -> tuple[int, ...]:
        """Numbers of the merged rules. Their categories include guesses."""
        return tuple(number for number, rule in enumerate(self.rules) if rule in _LIKELY)

    @property
    def of_optimizers(self) -> int:
        """Bits of the default rules for optimizer steps."""
        return sum(
            1 << bit
            for bit, rule in enumerate(self.rules)
            if (rule.frames, rule.ends) in _OF_OPTIMIZERS
        )

    def name(self, number: int) -> str:
        """Return a rule's category; UNKNOWN for the number that means no rule."""
        return self.rules[number].name if number < len(self.rules) else UNKNOWN


@lru_cache(maxsize=8)
def rule_set(rules: tuple[Rule, ...]) -> RuleSet:
    """Return these rules prepared for matching. Nearly all reports use the default rules, several
    times.
    """
    return RuleSet(rules)
