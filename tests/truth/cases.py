"""Define the cases: which programs run, under which allocator settings, and on which cards."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from memreplay.dryrun import cards
from memreplay.snapshot.cards import Outside

PROGRAMS = Path(__file__).parent / "programs"
RECORDED = Path(__file__).parent / "recorded"
"""Programs that record themselves."""

FREE = "MEMREPLAY_TRUTH_FREE"
"""This many bytes of a real card are left to a case; server.py takes the rest."""

EXPANDABLE = "expandable_segments:True"
SPLIT = "max_split_size_mb:40"
ROUNDED = "max_split_size_mb:30,max_non_split_rounding_mb:60"
POWERS = "roundup_power2_divisions:4"
INTERVALS = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"
COLLECTED = "garbage_collection_threshold:0.4"
SEGMENTS = "large_segment_size_mb:40"
ALL = f"{POWERS},{SPLIT},{COLLECTED}"

# Cards from dryrun/cards.py, with changes.
A100 = "A100-80"
SMALL_BYTES = 3 << 30
NOTHING_OUTSIDE = ";".join(f"{part}=0" for part in ("context", *Outside._fields))
SMALL = f"{A100};bytes={SMALL_BYTES};{NOTHING_OUTSIDE}"
T4 = "T4"
LAGGING = f"{A100};lag=7"
TWO = f"{A100};count=2"
OTHERS = ("A10G", "L4", "RTX4090", "H100", "H200", "B200", "RTX5090")

NOT_FROM_THE_START = {"late"}


class Case(NamedTuple):
    """A program and the settings it runs under."""

    program: str
    settings: str = ""
    card: str = ""
    entries: int = 0
    """The recorder's ring buffer, in events; 0 means unlimited."""
    recorded: bool = False
    """Whether the program uses memreplay's recorder itself."""
    arguments: str = ""
    """The program's arguments, separated by spaces."""
    moments: bool = True
    """Whether PyTorch's statistics are read at random moments, not only at the end."""
    may_fail: bool = False
    """Whether the program may run out of memory unintentionally."""

    @property
    def name(self) -> str:
        ring = f"{self.entries} entries" if self.entries else ""
        program = f"recorded {self.program}" if self.recorded else self.program
        words = program, self.arguments, self.settings, self.card, ring
        return ", ".join(filter(None, words))

    @property
    def whole(self) -> bool:
        """Return whether the recording begins when the program starts and drops nothing."""
        return not self.entries and self.program not in NOT_FROM_THE_START

    @property
    def on_a_card(self) -> bool:
        """Return whether this case can run on any real GPU. There, other memory fills up a GPU that
        should be small, and the timing of streams can't be controlled.
        """
        # oom_pending leaves a driver too little memory to capture a graph.
        return self.card in ("", T4, SMALL, LAGGING) and self.program != "oom_pending"

    @property
    def free_bytes(self) -> int:
        """Return the memory to leave free on a GPU larger than the intended one; 0 means all."""
        if self.program == "limited":  # the program limits itself to a fraction of the GPU's memory
            return 0
        return {T4: cards.find(T4).bytes, SMALL: SMALL_BYTES}.get(self.card, 0)

    def on_gpu(self) -> dict[str, object]:
        """Return the server's options for running this case on a real GPU."""
        environment = {FREE: str(self.free_bytes)} if self.free_bytes else {}
        return self._told(environment)

    def told(self, cuda: int, card: str = A100) -> dict[str, object]:
        """Return the server's options for a dry run; `card` is used if the case names no card."""
        key, _, other = (self.card or card).partition(";")
        environment = cards.environment(cards.find(key), cuda=cuda)
        if other:  # if a key is repeated, the first one wins
            environment["MEMREPLAY_GPU"] = f"{other};{environment['MEMREPLAY_GPU']}"
        return self._told(environment)

    def _told(self, environment: dict[str, str]) -> dict[str, object]:
        if self.settings:
            environment["PYTORCH_ALLOC_CONF"] = self.settings
            environment["PYTORCH_CUDA_ALLOC_CONF"] = self.settings
        if self.entries:
            environment["MEMREPLAY_DRYRUN_ENTRIES"] = str(self.entries)
        path = (RECORDED if self.recorded else PROGRAMS) / f"{self.program}.py"
        return {
            "name": self.name,
            "program": [str(path), *self.arguments.split()],
            "environment": environment,
            "moments": self.moments,
            "may_fail": self.may_fail,
        }


CARDS = {
    "oom": T4,
    "oom_caught": T4,
    "oom_fragmented": SMALL,
    "oom_pending": SMALL,
    "oom_retried": SMALL,
    "limited": T4,
    "streams": LAGGING,
    "two_devices": TWO,
}
"""The card a program is made for, other than an A100."""

MORE: dict[str, tuple[str, ...]] = {
    "gpt": (EXPANDABLE, POWERS, SEGMENTS),
    "gpt_checkpointed": (EXPANDABLE,),
    "gpt_autocast": (INTERVALS,),
    "lengths": (EXPANDABLE, SPLIT, INTERVALS, SEGMENTS),
    "leak": (EXPANDABLE,),
    "serving": (EXPANDABLE, SPLIT, ROUNDED, POWERS, INTERVALS, SEGMENTS, ALL),
    "boundaries": (EXPANDABLE, SPLIT, ROUNDED, POWERS, INTERVALS, SEGMENTS),
    "cache_by_cat": (EXPANDABLE, POWERS),
    "streams": (EXPANDABLE, ALL),
    "graphs": (EXPANDABLE, "graph_capture_record_stream_reuse:True"),
    "pools": (EXPANDABLE,),
    "oom": (EXPANDABLE,),
    "oom_caught": (EXPANDABLE, SPLIT),
    "oom_retried": (EXPANDABLE, SPLIT),
    "emptied": (EXPANDABLE, SEGMENTS),
    "limited": (EXPANDABLE, COLLECTED),
    "late": (EXPANDABLE,),
    "two_devices": (EXPANDABLE,),
    "threads": (EXPANDABLE, "release_lock_on_cudamalloc:True"),
    "views": (INTERVALS,),
    "pinned": ("pinned_use_cuda_host_register:True,pinned_num_register_threads:2",),
}
"""Settings that a program runs under besides none."""

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "gpt": tuple(
        f"{options} {late}".strip()
        for options in ("", "--ckpt", "--amp", "--one-by-one", "--fused", "--ckpt --amp")
        for late in ("", "--late")
    ),
    "checkpoints": ("", "--reentrant"),
    "mem_tracker": ("", "--foreach", "--ckpt"),
    "profiler": ("", "--inplace", "--amp"),
    "compiled": ("eager", "aot_eager"),
    "swapped": ("subclass", "asked", "plain"),
    "distributed": (
        "ddp",
        "ddp --views",
        "fsdp",
        "fsdp --reshard",
        "fsdp --reshard --mixed",
    ),
}
"""Arguments of programs that record themselves."""

CASES = [
    *(
        Case(path.stem, settings, CARDS.get(path.stem, ""))
        for path in sorted(PROGRAMS.glob("*.py"))
        for settings in ("", *MORE.get(path.stem, ()))
    ),
    Case("serving", "", SMALL),
    Case("serving", EXPANDABLE, SMALL),
    Case("streams", ""),
    Case("pinned", "", LAGGING),
    Case("gpt", "", T4),
    *(Case("gpt_autocast", "", card) for card in OTHERS),
    Case("gpt", "", entries=1500),
    Case("streams", EXPANDABLE, LAGGING, entries=200),
    Case("serving", "", entries=400),
    Case("ring", "", entries=1000),
    Case("ring", "", entries=6100),
    *(
        Case(path.stem, recorded=True, arguments=arguments)
        for path in sorted(RECORDED.glob("*.py"))
        for arguments in ARGUMENTS.get(path.stem, ("",))
    ),
]

WITH_OLDER = (
    ("gpt", ""),
    ("gpt_autocast", ""),
    ("gpt_checkpointed", EXPANDABLE),
    ("lengths", SPLIT),
    ("leak", ""),
    ("serving", EXPANDABLE),
    ("serving", POWERS),
    ("boundaries", ""),
    ("streams", ""),
    ("graphs", ""),
    ("oom_caught", ""),
    ("oom_retried", ""),
    ("late", ""),
    ("two_devices", ""),
)
"""Programs that also run on an older torch."""

RECORDED_WITH_OLDER = ("gpt", "checkpoints", "closures", "tied_and_frozen", "graphs")
"""Those that record themselves."""
