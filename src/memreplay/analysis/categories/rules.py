"""Categories of memory by rules: ordered, and the first rule that holds decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.categories.default_needles import NEEDLES
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
from memreplay.analysis.code.late import Late
from memreplay.analysis.code.patterns import bits_of_frames, compiled
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot

MAX_RULES = 64  # a bit each
UNKNOWN = "unknown"
WHERE = ("any", "own")
CONDITIONS = ("frames", "annotation", "compile_context", "user_metadata", "origin", "ends")
_KEYS = ("name", "where", *CONDITIONS)


class Rule(Struct, frozen=True):
    """One rule: what it is called, and regular expressions that must all be found."""

    name: str
    """The category."""
    frames: str | None = None
    """Searched in `file:function` of a stack's frames."""
    where: str = "any"
    """In which frames: "any" of them, or "own", the one that the stack is put down to."""
    annotation: str | None = None
    """Searched in the name of the innermost annotation that was open at the allocation."""
    compile_context: str | None = None
    """Searched in what the event carries under this name."""
    user_metadata: str | None = None
    """Searched in what the event carries under this name."""
    origin: str | None = None
    """Searched in the words for where it comes from, such as `before the recording`."""
    ends: str | None = None
    """Searched in the words for where it ends: `in the optimizer's step`, which allocated it."""


# What PyTorch, and most code on top of it, calls things. The most telling come first: an optimizer
# or a backward pass runs code that looks like anything else. Repetitions have bounds where a name
# could make a search take more than linear time: names are hostile.
DEFAULT_RULES = (
    Rule("weights (cast)", origin=f"^{WEIGHT_CAST}$"),
    Rule("weights or activations (cast)", origin=f"^{EITHER_CAST}$"),
    Rule(
        "NCCL",
        r"ProcessGroupNCCL|\bnccl|(?:^|[/:])c10d(?:::(?!Reducer|Logger)|/)|distributed_c10d\.py:",
    ),
    # Not the forward of a model that is wrapped: what it calls is the model's own.
    Rule(
        "FSDP/DDP",
        r"/torch/distributed/(?:fsdp|_composable|tensor)/(?!.{0,512}\bforward$)"
        r"|/torch/nn/parallel/distributed\.py:(?!(?:\w{1,64}\.)?(?:_run_ddp_)?forward$)"
        r"|c10d::Reducer|FlatParam|[Ff]ully_?[Ss]harded(?!.{0,512}\bforward$)",
    ),
    # What a step allocates and gives back isn't state, though its stack may be that of state.
    Rule("optimizer temporaries", ends=f"^{IN_STEP}$"),
    Rule(
        "optimizer state",
        r"/torch/optim/(?!swa_utils)|/(?:bitsandbytes|apex)/optim|(?i:optim\w{0,64}\.py):(?:\w+\.)?"
        r"(?:step|_init_group|init_state|_\w{0,64}tensor_\w{1,64})$",
    ),
    # Run once more in the backward pass.
    Rule("activations", r"/torch/utils/checkpoint\.py:(?:\S{1,64}\.)?recompute_fn$"),
    Rule(
        "backward",
        r"Backward\d*(?:::apply\b|$)|torch::autograd::(?:Engine|AccumulateGrad|InputBuffer)"
        r"|/torch/autograd/|/torch/_tensor\.py:backward$|:(?:\w+\.)?backward$",
    ),
    # Where stacks are Python's, the threads in which autograd runs have none.
    Rule("backward", origin=f"^{NO_PYTHON}$"),
    Rule("KV cache", r"(?i:kv_?cache|past_?key_?values?|cache_utils\.py|paged_?attention)"),
    Rule(
        "attention",
        r"(?i:scaled_dot_product|flash_?att|mem_?eff\w{0,64}_?att|xformers|self_?att(?:n|ention)"
        r"|multi_?head|attention\w{0,64}(?:\.py)?:)|(?:^|[:.])\w{0,64}[Aa]ttention\.forward$",
    ),
    Rule("compiled code", r"/torchinductor_|/torch/_inductor/|/torch/_functorch/|cudagraph_trees"),
    Rule("compiled code", compile_context=r"."),
    Rule(
        "data loading",
        r"/torch/utils/data/|(?i:dataloader|data_loader)|:(?:\w{0,64}collate\w{0,64}|pin_memory|get_batch)$",
    ),
    # And what `Module._apply` moves at the line of buffers, which of_frames finds.
    Rule("buffers", r":(?:\w+\.)?register_buffer$"),
    Rule(
        "parameters",
        r"/torch/nn/parameter\.py:|:(?:\w+\.)?(?:reset_parameters|load_state_dict|from_pretrained"
        r"|_load_from_state_dict|(?:init|load)_weights?\w{0,64})$|/torch/nn/modules/module\.py:(?:\w+\.)?(?:to|cuda|half|float"
        r"|bfloat16|_apply)$|/torch/nn/modules/\w+\.py:__init__$",
    ),
    Rule(
        "activations",
        r":(?:\w+\.)?forward$|/torch/nn/modules/module\.py:_(?:wrapped_)?call_impl$"
        r"|/torch/nn/functional\.py:|:(?:\w+\.)?\w{0,64}(?:[Ll]oss|cross_entropy)\w{0,16}$",
    ),
    # What was there before, as far as the trace tells it apart.
    Rule("parameters (likely)", origin=f"^{LIKELY_PARAMETER}$"),
    Rule("optimizer state (likely)", origin=f"^{LIKELY_STATE}$"),
    Rule("gradients (likely)", origin=f"^{LIKELY_GRADIENT}$"),
    Rule("activations or inputs (likely)", origin=f"^{LIKELY_ACTIVATION}$"),
    Rule("before the recording: parameters, optimizer state, buffers", origin=f"^{BEFORE}$"),
)
# The bit of what an optimizer's step runs in, in frames that DEFAULT_RULES were searched in.
OPTIMIZER = 1 << next(
    bit for bit, rule in enumerate(DEFAULT_RULES) if rule.name == "optimizer state"
)
_OF_OPTIMIZERS = {
    (rule.frames, rule.ends)
    for rule in DEFAULT_RULES
    if rule.name in ("optimizer state", "optimizer temporaries")
}
_BUFFERS = tuple(rule for rule in DEFAULT_RULES if rule.name == "buffers")
# What was there before, if the trace doesn't tell apart what it is.
NOT_TOLD_APART = next(rule.name for rule in DEFAULT_RULES if rule.origin == f"^{BEFORE}$")
# What was there before by the category that it would have had in a recording from the start: the
# same program recorded late didn't change. What autograd left are gradients of both kinds there.
MERGED = {
    "parameters (likely)": "parameters",
    "optimizer state (likely)": "optimizer state",
    "gradients (likely)": "backward",
    "activations or inputs (likely)": "activations",
}
MERGED_RULES = tuple(replace(rule, name=MERGED.get(rule.name, rule.name)) for rule in DEFAULT_RULES)
_LIKELY = frozenset(rule for rule in MERGED_RULES if rule not in DEFAULT_RULES)
# The default rules' expressions: those that a file gives no reason to search are not compiled.
_LATE = {
    pattern: Late(pattern, needles)
    for rule, needles in zip(DEFAULT_RULES, NEEDLES, strict=True)
    for key in CONDITIONS
    if (pattern := getattr(rule, key)) is not None
}


def merged_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules with what is likely of a category in that category, to be compared."""
    merged = dict(zip(DEFAULT_RULES, MERGED_RULES, strict=True))
    return tuple(merged.get(rule, rule) for rule in rules)


def parse_rules(given: object, source: str) -> tuple[Rule, ...]:
    """Rules out of a configuration file's list of tables; `source` is what to call the file.

    Raises UsageError that names the rule that is wrong.
    """
    if not isinstance(given, list):
        raise UsageError(f"{source}: `category` must be a list of tables ([[category]])")
    rules = [_parsed(one, number, source) for number, one in enumerate(given, 1)]
    if len(rules) > MAX_RULES:
        raise UsageError(f"{source}: {len(rules)} category rules; {MAX_RULES} at most")
    return tuple(rules)


def rules_of(config: Mapping[str, object], source: str) -> tuple[Rule, ...]:
    """The rules of a configuration, then the defaults, unless `category_defaults` is false.

    Raises UsageError as `parse_rules` does.
    """
    defaults = config.get("category_defaults", True)
    if not isinstance(defaults, bool):
        raise UsageError(f"{source}: category_defaults must be true or false")
    own = parse_rules(config.get("category", []), source)
    rules = (*own, *DEFAULT_RULES) if defaults else own
    if len(rules) > MAX_RULES:
        raise UsageError(
            f"{source}: {len(own)} category rules and {len(DEFAULT_RULES)} defaults;"
            f" {MAX_RULES} at most (category_defaults = false drops those)"
        )
    return rules


def _parsed(given: object, number: int, source: str) -> Rule:
    name = given.get("name") if isinstance(given, Mapping) else None
    where = f"{source}: category rule {number}" + (f" ({name!r})" if name else "")
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} is not a table")
    for key, value in given.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}; there are: {', '.join(_KEYS)}")
        if not isinstance(value, str):
            raise UsageError(f"{where}: {key} must be a string")
    if not name or not name.strip():
        raise UsageError(f"{where} has no name")
    if name == UNKNOWN:
        raise UsageError(f"{where}: {UNKNOWN} stands for what no rule matches; choose another name")
    if given.get("where", "any") not in WHERE:
        raise UsageError(f"{where}: where must be any or own, not {given['where']!r}")
    if not any(key in given for key in CONDITIONS):
        raise UsageError(f"{where} has no condition: give one of {', '.join(CONDITIONS)}")
    rule = Rule(**given)
    for key in CONDITIONS:
        pattern = getattr(rule, key)
        if pattern is not None:
            compiled(pattern, f"{where}: {key}")
    return rule


class RuleSet:
    """Rules made ready: which of them each frame, and each text, meets, as bits."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        if len(rules) > MAX_RULES:
            raise UsageError(f"{len(rules)} category rules; {MAX_RULES} at most")
        self.rules = tuple(rules)
        self._patterns = {
            key: [
                (
                    1 << bit,
                    _LATE.get(pattern) or compiled(pattern, f"category rule {rule.name!r}: {key}"),
                )
                for bit, rule in enumerate(rules)
                if (pattern := getattr(rule, key)) is not None
            ]
            for key in CONDITIONS
        }
        self._own = sum(1 << bit for bit, rule in enumerate(rules) if rule.where == "own")

    def asks(self, key: str) -> bool:
        """Whether any rule asks for this: one of CONDITIONS."""
        return bool(self._patterns[key])

    def always(self, key: str) -> int:
        """The rules that ask nothing of it."""
        return (1 << len(self.rules)) - 1 & ~sum(bit for bit, _ in self._patterns[key])

    def of_text(self, key: str, text: str | None) -> int:
        """The rules that a text meets, or ask nothing of it; None for no text."""
        found = self.always(key)
        if text is not None:
            for bit, pattern in self._patterns[key]:
                if pattern.search(text):
                    found |= bit
        return found

    def of_frames(self, snap: Snapshot) -> tuple[list[int], list[int]]:
        """Of each frame: the rules that it meets anywhere in a stack, and as the stack's own."""
        met = bits_of_frames(snap, self._patterns["frames"]).tolist()
        buffers = sum(1 << bit for bit, rule in enumerate(self.rules) if rule in _BUFFERS)
        for frame in buffer_frames(snap.code) if buffers else ():
            met[frame] |= buffers
        return [bits & ~self._own for bits in met], [bits & self._own for bits in met]

    def alike(self) -> list[int]:
        """Of each rule, the number of the first of its name: a category may have several."""
        first: dict[str, int] = {}
        return [first.setdefault(rule.name, number) for number, rule in enumerate(self.rules)]

    @property
    def own(self) -> tuple[Rule, ...]:
        """Those that are no default rules."""
        return tuple(
            rule for rule in self.rules if rule not in DEFAULT_RULES and rule not in _LIKELY
        )

    @property
    def likely(self) -> tuple[int, ...]:
        """The numbers of those that are guesses, under the name of what they likely are."""
        return tuple(number for number, rule in enumerate(self.rules) if rule in _LIKELY)

    @property
    def of_optimizers(self) -> int:
        """The bits of the default rules for what optimizers' steps allocate."""
        return sum(
            1 << bit
            for bit, rule in enumerate(self.rules)
            if (rule.frames, rule.ends) in _OF_OPTIMIZERS
        )

    def name(self, number: int) -> str:
        """What the category of a rule is called; UNKNOWN for no rule."""
        return self.rules[number].name if number < len(self.rules) else UNKNOWN
