"""Record one process of a dry run from its first allocation to its end.

Arguments come from the environment:

MEMREPLAY_DRYRUN         the output folder: PID.pickle and PID.json for each process;
                         PID.writing while they are written
MEMREPLAY_DRYRUN_CARD    the library with the fake card
MEMREPLAY_DRYRUN_MORE    the library with the stub functions, which counts their calls
MEMREPLAY_DRYRUN_STACKS, MEMREPLAY_DRYRUN_ENTRIES    arguments of the recording
MEMREPLAY_DRYRUN_SOURCE  1 to keep source lines
MEMREPLAY_DRYRUN_HOLDERS 1 to look who holds memory, when it first runs out or else at the end
MEMREPLAY_DRYRUN_ROUTING "same" if all rows choose the same by unknown values
MEMREPLAY_DRYRUN_CHANGES changes to the program (memreplay_changing.py)

The environment is read on import, because a program may change it later.
"""

from __future__ import annotations

import itertools
import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

FUNCTIONS = 4096  # must match gpu/unanswered.c
ESTIMATES = 4  # kinds of estimates; must match gpu/unknown.h
OUTSIDE_PARTS = 7  # must match gpu/gpu.h
OF_SIZES, OF_RANDOM, OF_ASSUMED, OF_CHOSEN = 1, 2, 4, 8  # kinds of reads; must match gpu/gpu.h
# c10::impl::GPUTrace::set_trace(const PyInterpreter*)
SET_TRACE = "_ZN3c104impl8GPUTrace9set_traceEPKNS0_13PyInterpreterE"
HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLING = os.path.join("memreplay", "recording", "memory_samples.py")
RECORDING = os.path.join(os.path.dirname(os.path.dirname(HERE)), "recording")
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))  # contains the memreplay package
TOLD = {name: text for name, text in os.environ.items() if name.startswith("MEMREPLAY_DRYRUN")}
# Counters in torch.cuda.memory_stats() that a program can reset, and the C function that resets
# them.
PEAKS = "_cuda_resetPeakMemoryStats", ".peak"
SUMS = "_cuda_resetAccumulatedMemoryStats", ("allocated", "num_ooms", "num_alloc_retries")


class Recording:
    """The recording of one process."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.folder = TOLD.get("MEMREPLAY_DRYRUN")
        self.own = True  # whether we, rather than the program, started the recording
        self.before: list[dict[str, Any]] = []  # for each card, the counts that resets removed
        self.began = 0.0  # wall-clock time of the card's first use
        self.visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.ranks: tuple[int, int] | None = None  # rank and world size, once known
        self.dumped: list[str] = []  # snapshots that the program dumped
        self.of = 0  # process id
        self.reads: Reads | None = None
        self.noting: Any = None
        self.held: dict[str, Any] = {}  # holders of memory when it first ran out
        self.guard: Any = beside("guarding", RECORDING).Guard(torch)
        self.entries = sys.maxsize  # number of events that are kept; 0 if unknown
        self.counted: list[dict[str, Any]] = []  # counters at the start of the recording
        self.look: Any = None  # finds who holds memory
        self.values: Any = None  # computes small values
        self.no_values = (
            "this isn't a dry run's process"  # why they aren't computed; "" if they are
        )
        self.world: Any = None  # which ranks run, if only some do
        self.changed: Callable[[], list[dict[str, Any]]] = list  # says what was changed

    def prepare(self) -> None:
        """Start recording when torch initializes CUDA."""
        import contextlib

        memory = self.torch.cuda.memory
        begin, dump = memory._record_memory_history, memory._dump_snapshot

        def recorded_by_itself(*args: Any, **kwargs: Any) -> Any:
            """Handle a program's own recording, with the settings that it requests.

            A request to stop a recording that the program never started is ignored.
            """
            if self.own and not (args[0] if args else kwargs.get("enabled", True)):
                return None
            ours, self.own = self.own and self.of == os.getpid(), False
            self.asked(begin, args, {**({"clear_history": True} if ours else {}), **kwargs})
            if ours:
                # This recording has to start empty. Older versions clear events when a recording
                # ends.
                begin(None)
                with contextlib.suppress(TypeError):
                    return begin(*args, **{"clear_history": True, **kwargs})
            return begin(*args, **kwargs)

        def dumped_by_itself(filename: str = "dump_snapshot.pickle", *args: Any, **kw: Any) -> Any:
            dump(filename, *args, **kw)
            self.dumped.append(os.path.abspath(filename))

        # torch would validate arguments on the GPU. Nothing is computed there, so every check would
        # fail.
        distributions = sys.modules.get("torch.distributions")
        if distributions:
            distributions.Distribution.set_default_validate_args(False)
        collectives = sys.modules.get("torch.distributed.distributed_c10d")
        if collectives:
            # The module is in the same folder as this file, which isn't a package.
            self.world = beside("memreplay_world").install(TOLD, self.torch, collectives)
            if self.world is not None:
                self.ranks = self.world.rank, self.world.size
            beside("memreplay_objects").install(
                self.torch, collectives, self.torch.distributed, world=self.world
            )
            self.remember_ranks(collectives)
        if "MEMREPLAY_DRYRUN_CHANGES" in TOLD:
            self.change(TOLD["MEMREPLAY_DRYRUN_CHANGES"])
        memory._record_memory_history = recorded_by_itself
        # memreplay.record() in the program adds its files (recording/session.py).
        dumped_by_itself.memreplay_files = self.dumped  # type: ignore[attr-defined]
        memory._dump_snapshot = dumped_by_itself
        self.compute_values()
        self.once_initialized(lambda: self.begin(begin))

    def change(self, changes: str) -> None:
        """Change the program as requested."""
        import json

        self.changed = beside("memreplay_changing").install(
            self.torch, json.loads(changes), beside("module_names", RECORDING)
        )

    def compute_values(self) -> None:
        """Compute small values on the host, if that's possible with this PyTorch and Python."""
        card, hook = TOLD.get("MEMREPLAY_DRYRUN_CARD"), TOLD.get("MEMREPLAY_DRYRUN_OPERATORS")
        if not card or not hook:
            return
        core = os.path.join(os.path.dirname(self.torch.__file__), "lib", "libc10.so")
        try:
            even = TOLD.get("MEMREPLAY_DRYRUN_ROUTING") != "same"
            self.values = beside("memreplay_values").Values(self.torch, card, even=even)
            begun = self.values.begin(extension("_operators", hook), core)
            self.no_values = "" if begun else "this PyTorch lacks a function"
        except (AttributeError, ImportError, OSError, RuntimeError, TypeError) as error:
            self.no_values = str(error).partition("\n")[0] or type(error).__name__

    def check_values(self) -> None:
        """Check that small values really are computed."""
        if not self.no_values and not self.values.check():
            self.no_values = "this PyTorch doesn't call its operators' hooks"

    def asked(self, begin: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note how many events the program's own recording keeps, and when it started."""
        import inspect

        self.entries = 0
        try:
            bound = inspect.signature(begin).bind(*args, **kwargs)
            bound.apply_defaults()
        except (TypeError, ValueError):
            return  # called with an older version's signature
        if bound.arguments.get("enabled") != "all" or bound.arguments.get("skip_actions"):
            return
        found = bound.arguments.get("max_entries")
        self.entries = found if type(found) is int and found > 0 else 0
        if bound.arguments.get("clear_history") or not self.counted:
            self.counted = self.statistics()

    def once_initialized(self, call: Callable[[], None]) -> None:
        """Like torch.cuda._lazy_call without its lock: torch may be initializing right now."""
        cuda = self.torch.cuda
        if cuda.is_initialized():
            call()
        else:
            cuda._queued_calls.append((call, []))

    def remember_ranks(self, collectives: Any) -> None:
        """Remember the ranks: a program may destroy its process group before it ends."""
        init = collectives.init_process_group

        def begun(*args: Any, **kwargs: Any) -> Any:
            made = init(*args, **kwargs)
            self.guard.run("noting the ranks", self.note_ranks)
            return made

        for module in (collectives, self.torch.distributed):
            if module.init_process_group is init:
                module.init_process_group = begun

    def note_ranks(self) -> None:
        distributed = self.torch.distributed
        if distributed.is_initialized():
            self.ranks = distributed.get_rank(), distributed.get_world_size()

    def keep_counters(self) -> None:
        """Keep counters across the program's resets."""
        core = getattr(self.torch, "_C", None)

        for name, _ in (PEAKS, SUMS):
            reset = getattr(core, name, None)
            if reset is None:
                continue

            def kept(device: int, reset: Any = reset) -> Any:
                now = self.guard.run("reading counters", self.counters, otherwise=[])
                done = reset(device)
                self.guard.run("reading counters", self.count_before, now)
                return done

            kept.__wrapped__ = reset  # type: ignore[attr-defined]
            setattr(core, name, kept)

    def counters(self) -> list[dict[str, Any]]:
        cuda = self.torch.cuda
        return [cuda.memory_stats(i) for i in range(cuda.device_count())]

    def count_before(self, then: list[dict[str, Any]]) -> None:
        """Restore what a reset removed: a peak's value or, for a sum, the difference."""
        now = self.counters()[: len(then)]
        self.before += [{} for _ in range(len(then) - len(self.before))]
        for kept, old, new in zip(self.before, then, now):  # noqa: B905 - of Python 3.10
            for name, value in old.items():
                if name.endswith(PEAKS[1]):
                    kept[name] = max(kept.get(name, 0), value)
                elif name.endswith(SUMS[1]):
                    kept[name] = kept.get(name, 0) + value - new.get(name, 0)

    def statistics(self) -> list[dict[str, Any]]:
        """Return torch.cuda.memory_stats() for each card as if nothing had been reset."""
        cuda = self.torch.cuda
        found = [dict(cuda.memory_stats(i)) for i in range(cuda.device_count())]
        for one, kept in zip(found, self.before):  # noqa: B905 - of Python 3.10
            for name, value in kept.items():
                peak = name.endswith(PEAKS[1])
                one[name] = max(one.get(name, 0), value) if peak else one.get(name, 0) + value
        return found

    def begin(self, begin: Any) -> None:
        import time

        self.of = os.getpid()
        self.began = time.time()
        self.visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.guard.run("checking values", self.check_values)
        self.keep_counters()
        if self.own:
            self.entries = int(TOLD.get("MEMREPLAY_DRYRUN_ENTRIES", sys.maxsize))
            self.note()
            facts = beside("facts", RECORDING)
            context = facts.history_context(str(self.torch.__version__))
            asked = TOLD.get("MEMREPLAY_DRYRUN_STACKS", "auto")
            stacks = facts.stacks_for(asked, os.path.dirname(self.torch.__file__))
            if asked == "auto" and stacks == "all":
                facts.name_frames_quickly()
            known = facts.arguments(begin, self.torch.cuda.memory)
            try:
                begin(
                    # Leave out the default, because PyTorch before 2.1 doesn't know the argument.
                    **({} if context == "all" else {"context": context}),
                    **({facts.ALL_THREADS: True} if facts.ALL_THREADS in known else {}),
                    stacks=stacks,
                    max_entries=self.entries,
                )
                self.counted = self.statistics()
            # the program has its own allocator, so run it without recording
            except RuntimeError as error:
                words = str(error).partition("\n")[0]
                sys.stderr.write(f"memreplay: nothing is recorded: {words}\n")
                return
        card = TOLD.get("MEMREPLAY_DRYRUN_CARD")
        if card:
            self.guard.run("following blocks", self.tell_of_blocks, card)
            folder = os.path.dirname(self.torch.__file__)
            self.reads = self.guard.run("following reads", Reads, card, folder)
        # The program's own recording may have begun before, and writes its file first.
        beside("ending", RECORDING).at_the_end(self.write, last=True)

    def tell_of_blocks(self, card: str) -> None:
        """Report freed blocks to the fake card, so that it forgets their contents.

        Doesn't use torch.cuda._gpu_trace, because that loses a pending exception.
        """
        import ctypes

        slots = beside("facts", RECORDING).tracing_slots(os.path.dirname(self.torch.__file__))
        core = os.path.join(os.path.dirname(self.torch.__file__), "lib", "libc10.so")
        if slots is None:  # unknown torch version: reads may return an earlier block's values
            return
        try:
            begin = getattr(ctypes.CDLL(core), SET_TRACE)
        except (OSError, AttributeError):
            return
        made = ctypes.CDLL(card).memreplay_trace
        made.restype, begin.argtypes, begin.restype = ctypes.c_void_p, (ctypes.c_void_p,), None
        begin(made(*slots))

    def note(self) -> None:
        """Note what each allocation is for, if the recorder can be imported here.

        The import fails if memreplay isn't installed in this Python, or is compiled for another
        version.
        """
        sys.path.append(PACKAGE)
        try:
            from memreplay.recording.noting import Noting

            keep = TOLD.get("MEMREPLAY_DRYRUN_ENTRIES")
            self.noting = Noting(
                self.torch, "cuda", keep=int(keep) if keep else None, guard=self.guard
            )
            if "MEMREPLAY_DRYRUN_HOLDERS" in TOLD:
                from memreplay.recording.holders import stored

                self.look = stored
                attach = getattr(self.torch._C, "_cuda_attach_out_of_memory_observer", None)
                if attach is not None:  # since PyTorch 2.1
                    attach(self.ran_out)
        except Exception:
            self.noting = None
        finally:
            sys.path.remove(PACKAGE)

    def ran_out(self, *_: object) -> None:
        """Find who holds the memory, when it first runs out."""
        if not self.held and self.of == os.getpid():
            self.held = {"when": "oom"}  # only once, even if it fails
            self.held.update(self.guard.run("finding who holds memory", self.holders_now) or {})

    def holders_now(self) -> dict[str, Any]:
        snapshot = self.torch.cuda.memory._snapshot()
        found = self.look(self.torch, "cuda", snapshot["segments"])
        return {**found, "events": [len(trace) for trace in snapshot["device_traces"]]}

    def holders_of(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Return who held the memory when it first ran out, or else who holds it now."""
        if self.look is None:
            return {}
        if not self.held:
            segments = snapshot["segments"]
            found: dict[str, Any] = self.guard.run(
                "finding who holds memory",
                lambda: self.look(self.torch, "cuda", segments),
                otherwise={},
            )
            return found
        if any(len(trace) >= self.entries for trace in snapshot["device_traces"]):
            self.held.pop("blocks", None)  # the ring lost events, so these can't be counted
        return self.held

    def write(self) -> None:
        """Write the snapshot, then the facts. Either one is useless without the other."""
        import json
        import time

        if self.of != os.getpid() or self.folder is None:
            return  # a forked child can't use the card, so everything belongs to its parent
        self.of = 0
        if self.reads is not None:
            self.reads.stop()
        begun = os.path.join(self.folder, str(os.getpid()))
        statistics = self.statistics()
        if not any(map(used, statistics)):
            return
        with open(f"{begun}.writing", "w"):
            pass
        run = self.run()
        found = {
            **run,
            "not_written": self.write_snapshot(f"{begun}.pickle", run),
            "began": self.began,
            "ended": time.time(),
            "arguments": sys.argv,
            "recorded_by_itself": not self.own,
            "dumped": [one for one in self.dumped if "://" in one or os.path.exists(one)],
            "raised": raised(),
            "statistics": statistics,
            "unanswered": calls(),
            "workspaces": workspaces(),
            "estimates": estimates(),
            "benchmark": benchmarks(self.torch),
            "outside": outside(len(statistics)),
            "reads": self.reads.counted() if self.reads is not None else [],
            "no_values": self.no_values,
            "changed": self.changed(),
            "groups": self.world.own_groups() if self.world is not None else [],
            "node": self.world.node if self.world is not None else 0,
        }
        with open(f"{begun}.json.part", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.rename(f"{begun}.json.part", f"{begun}.json")
        os.remove(f"{begun}.writing")

    def write_snapshot(self, path: str, run: dict[str, Any]) -> str | None:
        """Write the snapshot. Return the reason if that fails."""
        import pickle

        try:
            sure = self.noting.look() if self.noting is not None else 0
            counted = self.statistics()
            snapshot = self.torch.cuda.memory._snapshot()
            if isinstance(snapshot, dict):  # a list before PyTorch 2.0
                noted = {}
                lines = self.guard.run("reading lines of source code", self.lines, snapshot)
                if self.noting is not None:
                    noted = self.noting.found(snapshot["device_traces"], sure)
                held = self.holders_of(snapshot)
                if "groups" in held:
                    noted["holders"] = held
                if lines:
                    noted["source_lines"] = lines
                host = self.guard.run("measuring host memory", self.host, snapshot)
                if host and self.own:
                    noted["host_memory"] = host
                snapshot["memreplay"] = {**run, **self.kept(snapshot, counted), **noted}
            with open(path, "wb") as file:
                pickle.dump(snapshot, file, protocol=4)  # the hosted viewer needs this key
        except Exception as error:
            words = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]
            return words or type(error).__name__
        return None

    def host(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Return the process's memory at the end and at most, in the form stored in a snapshot."""
        memory = beside("host_memory", RECORDING)
        now = memory.host_memory(self.torch.cuda)
        found: dict[str, Any] = memory.described_host(
            [memory.row_of(now)], now, memory.pinned_events(snapshot)
        )
        return found

    def kept(self, snapshot: dict[str, Any], counted: list[dict[str, Any]]) -> dict[str, Any]:
        """Return how many events were kept, if known."""
        if not self.entries:
            return {}
        entries = self.entries if self.entries < sys.maxsize else None
        facts = beside("facts", RECORDING)
        found: dict[str, Any] = facts.kept_events(
            snapshot["device_traces"], entries, self.counted, counted
        )
        return found

    def lines(self, snapshot: dict[str, Any]) -> dict[str, dict[str, str]]:
        """Return those lines of the program's own source that occur in stacks, if requested."""
        if "MEMREPLAY_DRYRUN_SOURCE" not in TOLD:
            return {}
        facts = beside("facts", RECORDING)
        folders = facts.library_folders(os.path.dirname(self.torch.__file__))
        folders = (*folders, os.path.join(HERE, ""))
        found: dict[str, dict[str, str]] = beside("source_lines", RECORDING).source_lines(
            snapshot, lambda file: facts.is_library(file, folders)
        )
        return found

    def run(self) -> dict[str, Any]:
        """Return the facts of the run, stored under memreplay's key (docs/format.md)."""
        facts = beside("facts", RECORDING)
        found: dict[str, Any] = facts.run_facts(self.torch, self.torch.cuda, self.ranks)
        for card, taken in zip(found["cards"], outside_bytes(len(found["cards"]))):  # noqa: B905
            card["context_bytes"] = taken
        return {**found, "recorder": "dryrun", "visible": self.visible}


def beside(name: str, folder: str = HERE) -> Any:
    """Load a module from this folder, which isn't a package and may not be in sys.path."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, os.path.join(folder, f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = sys.modules[f"memreplay_{name}"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def extension(name: str, path: str) -> Any:
    """Load an extension module that isn't part of a package."""
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def used(statistics: dict[str, Any]) -> bool:
    """Return whether a card was really used. Compiler processes only query it."""
    asked = [statistics.get(name) for name in ("allocation.all.allocated", "num_ooms")]
    return any(one is None or one for one in asked)


class Reads:
    """The program's reads of values that no kernel has computed."""

    def __init__(self, card: str, torch: str) -> None:
        import ctypes

        self.facts = beside("facts", RECORDING)
        self.not_the_program = *self.facts.library_folders(torch), os.path.join(HERE, "")
        self.events = os.path.join(torch, "cuda", "streams.py")
        self.measuring = (
            os.path.join(torch, ""),
            os.path.join(os.path.dirname(torch), "triton", ""),
            "<",
        )
        # The program may be part of a package (`python -m package.train`).
        self.program: str | None = None
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        if main and not self.of_the_program(os.path.abspath(main)):
            folder = os.path.join(os.path.dirname(os.path.abspath(main)), "")
            if folder not in self.not_the_program:
                self.program = folder
        self.card = ctypes.CDLL(card)
        self.card.memreplay_place.restype = ctypes.c_char_p
        self.card.memreplay_count_places(1)

    def stop(self) -> None:
        """Stop counting, because reading Python's stack during shutdown isn't safe."""
        self.card.memreplay_count_places(0)

    def met(self) -> Iterator[tuple[str, int, list[tuple[str, int, str]], int]]:
        """Yield the reads that gpu/places.c collected: operator, kind (OF_SIZES …), stack, whose
        first frame is the innermost one, and count.
        """
        import ctypes

        count = ctypes.c_uint64()
        for i in itertools.count():
            text = self.card.memreplay_place(i, ctypes.byref(count))
            if text is None:
                return
            operator, kind, *rest = text.decode(errors="replace").split("\n")
            # A frame takes three lines, unless a file name contains newlines. Such stacks are
            # skipped.
            whole = len(rest) % 3 == 0 and all(line.isdecimal() for line in rest[1::3])
            frames = zip(rest[::3], rest[1::3], rest[2::3]) if whole else ()  # noqa: B905
            stack = [(file, int(line), function) for file, line, function in frames]
            while stack and stack[0][0].startswith(HERE):  # it noted what the program's line got
                del stack[0]
            yield operator, int(kind), stack, count.value

    def counted(self) -> list[dict[str, Any]]:
        counts: dict[tuple[str, int, str, int, str, str], int] = {}
        for operator, kind, stack, count in self.met():
            # An elapsed time that a library only logs doesn't matter.
            if operator == "elapsed_time" and self.by_pytorch(stack):
                continue
            # The program's recorder notes how much memory is free, which changes nothing.
            if operator == "mem_get_info" and any(f.endswith(SAMPLING) for f, _, _ in stack):
                continue
            place = self.place(stack)
            # a tensor that is read to be printed doesn't affect sizes
            printed = "_tensor_str.py:" in place[3]
            where = ("print" if printed else operator, kind, *place)
            counts[where] = counts.get(where, 0) + count
        return [
            {
                "operator": operator,
                "sizes": bool(kind & OF_SIZES),
                "sampled": bool(kind & OF_RANDOM),
                "assumed": bool(kind & OF_ASSUMED),
                "chosen": bool(kind & OF_CHOSEN),
                "file": file,
                "line": line,
                "function": function,
                "through": through,
                "count": n,
            }
            for (operator, kind, file, line, function, through), n in counts.items()
        ]

    def by_pytorch(self, stack: list[tuple[str, int, str]]) -> bool:
        """Return whether PyTorch or Triton itself read an elapsed time, rather than the program."""
        files = [file for file, _, _ in stack if file != self.events]
        return not files or files[0].startswith(self.measuring)

    def place(self, stack: list[tuple[str, int, str]]) -> tuple[str, int, str, str]:
        """Return the program's innermost frame, and the library line that it called.

        If all frames belong to libraries, return the innermost one. C++ threads, such as
        autograd's, have no frames.
        """
        for here in stack:
            if self.of_the_program(here[0]):
                through = "" if here is stack[0] else f"{stack[0][0]}:{stack[0][1]}"
                return (*here, through)
        return (*(stack[0] if stack else ("", 0, "")), "")

    def of_the_program(self, file: str) -> bool:
        if self.program is not None and file.startswith(self.program):
            return True
        return not self.facts.is_library(file, self.not_the_program)


def raised() -> dict[str, Any] | None:
    """Return the exception that ended the program; None if there wasn't any."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return None
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        seen.append(one)
        one = one.__cause__ or one.__context__
    return {
        "type": type(error).__name__,
        "words": str(error).partition("\n")[0][:1000],
        "out_of_memory": any(type(each).__name__ == "OutOfMemoryError" for each in seen),
    }


def workspaces() -> dict[str, int]:
    """Return how often each library was asked for a workspace size, which isn't known here."""
    path = TOLD.get("MEMREPLAY_DRYRUN_CARD")
    if not path:
        return {}
    import ctypes

    card = ctypes.CDLL(path)
    said = ctypes.c_char * 256  # names are at most this long and end with a zero
    names = ctypes.string_at(ctypes.addressof(said.in_dll(card, "memreplay_libraries")))
    libraries = names.decode().split(",")
    counts = (ctypes.c_uint64 * len(libraries)).in_dll(card, "memreplay_workspaces_of")
    return {name: counts[i] for i, name in enumerate(libraries) if counts[i]}


def estimates() -> dict[str, Any]:
    """Return how often sizes of workspaces were estimated, by kind (gpu/unknown.h), and the
    different sizes: pairs of a kind and bytes.
    """
    path = TOLD.get("MEMREPLAY_DRYRUN_CARD")
    if not path:
        return {}
    import ctypes

    card = ctypes.CDLL(path)
    counts = (ctypes.c_uint64 * ESTIMATES).in_dll(card, "memreplay_estimates_of")
    n = ctypes.c_uint64.in_dll(card, "memreplay_n_estimated").value
    pairs = (ctypes.c_uint64 * (2 * n)).in_dll(card, "memreplay_estimated")
    sizes = [(pairs[i], pairs[i + 1]) for i in range(0, 2 * n, 2)]
    return {"counts": list(counts), "sizes": sizes}


def benchmarks(torch: Any) -> bool:
    """Return whether cuDNN tries several kernels, and so takes the largest of their workspaces."""
    settings = getattr(getattr(torch, "backends", None), "cudnn", None)
    return bool(getattr(settings, "benchmark", False))


def outside(devices: int) -> list[list[int]]:
    """Return, for each card, how often each part of the memory outside the allocator was taken at
    once. Parts are in the order of `enum outside` in gpu/gpu.h.
    """
    path = TOLD.get("MEMREPLAY_DRYRUN_CARD")
    if not path:
        return []
    import ctypes

    counts = (ctypes.c_uint32 * OUTSIDE_PARTS * devices).in_dll(
        ctypes.CDLL(path), "memreplay_outside"
    )
    return [list(one) for one in counts]


def outside_bytes(devices: int) -> list[int]:
    """Return the most memory that each card has had taken outside the allocator."""
    path = TOLD.get("MEMREPLAY_DRYRUN_CARD")
    if not path:
        return []
    import ctypes

    taken = ctypes.CDLL(path).memreplay_outside_bytes
    taken.restype = ctypes.c_uint64
    return [taken(i) for i in range(devices)]


def calls() -> dict[int, int]:
    """Return each stub function's call count, by number."""
    path = TOLD.get("MEMREPLAY_DRYRUN_MORE")
    if not path:
        return {}
    import ctypes

    counts = (ctypes.c_uint32 * FUNCTIONS).in_dll(ctypes.CDLL(path), "memreplay_counts")
    return {i: count for i, count in enumerate(counts) if count}
