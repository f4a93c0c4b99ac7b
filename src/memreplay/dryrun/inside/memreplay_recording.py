"""What one process of a dry run allocates, recorded from its first allocation to its end.

What it is told is in the environment:

MEMREPLAY_DRYRUN         the folder to write to: of each process PID.pickle, and PID.json beside it
MEMREPLAY_DRYRUN_CARD    the library that stands for the card
MEMREPLAY_DRYRUN_MORE    that of the functions that do nothing, which counts their calls
MEMREPLAY_DRYRUN_STACKS, MEMREPLAY_DRYRUN_ENTRIES    arguments of the recording
"""

from __future__ import annotations

import os
import sys
import sysconfig

TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

FUNCTIONS = 4096  # of gpu/unanswered.c
# c10::impl::GPUTrace::set_trace(const PyInterpreter*)
SET_TRACE = "_ZN3c104impl8GPUTrace9set_traceEPKNS0_13PyInterpreterE"
INSTALLED = {"site-packages", "dist-packages"}  # folders of libraries
PLACES = 1000  # in which values are read; more are counted together


class Recording:
    """What one process allocates."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.folder = os.environ["MEMREPLAY_DRYRUN"]
        self.own = True  # not the program's
        self.dumped: list[str] = []  # by the program
        self.of = 0  # the process that it is of
        self.reads: Reads | None = None

    def prepare(self) -> None:
        """Record as soon as torch has initialized CUDA, if it does."""
        import contextlib

        memory = self.torch.cuda.memory
        begin, dump = memory._record_memory_history, memory._dump_snapshot

        def recorded_by_itself(*args: Any, **kwargs: Any) -> Any:
            """The program records by itself: what it asks for is done, and nothing else. To end
            what it has not begun is no recording."""
            if self.own and not (args[0] if args else kwargs.get("enabled", True)):
                return None
            ours, self.own = self.own and self.of == os.getpid(), False
            if ours:
                # What it records begins with it. Older versions forget with the end of a recording.
                begin(None)
                with contextlib.suppress(TypeError):
                    return begin(*args, **{"clear_history": True, **kwargs})
            return begin(*args, **kwargs)

        def dumped_by_itself(filename: str = "dump_snapshot.pickle", *args: Any, **kw: Any) -> Any:
            dump(filename, *args, **kw)
            self.dumped.append(os.path.abspath(filename))

        # Arguments are checked on the card, where nothing is computed: all would be refused.
        distributions = sys.modules.get("torch.distributions")
        if distributions:
            distributions.Distribution.set_default_validate_args(False)
        collectives = sys.modules.get("torch.distributed.distributed_c10d")
        if collectives:
            # It lies beside this file, which is no package.
            from memreplay_objects import install  # type: ignore[import-not-found]

            install(self.torch, collectives, self.torch.distributed)
        memory._record_memory_history = recorded_by_itself
        memory._dump_snapshot = dumped_by_itself
        self.torch.cuda._lazy_call(lambda: self.begin(begin))

    def begin(self, begin: Any) -> None:
        self.of = os.getpid()
        if self.own:
            try:
                begin(
                    stacks=os.environ.get("MEMREPLAY_DRYRUN_STACKS", "python"),
                    max_entries=int(os.environ.get("MEMREPLAY_DRYRUN_ENTRIES", sys.maxsize)),
                )
            except RuntimeError as error:  # an allocator of the program's own: it runs without us
                words = str(error).partition("\n")[0]
                sys.stderr.write(f"memreplay: nothing is recorded: {words}\n")
                return
        card = os.environ.get("MEMREPLAY_DRYRUN_CARD")
        if card:
            self.tell_of_blocks(card)
            self.reads = Reads(card, os.path.dirname(self.torch.__file__))
        self.write_at_the_end()

    def tell_of_blocks(self, card: str) -> None:
        """Let the card know which blocks are let go: what was in them is in them no more.

        Not by torch.cuda._gpu_trace, which loses an exception that is on its way meanwhile.
        """
        import ctypes

        slots = tracing_slots(os.path.dirname(self.torch.__file__))
        core = os.path.join(os.path.dirname(self.torch.__file__), "lib", "libc10.so")
        if slots is None:  # another torch: values may be those of a block that was here before
            return
        try:
            begin = getattr(ctypes.CDLL(core), SET_TRACE)
        except (OSError, AttributeError):
            return
        made = ctypes.CDLL(card).memreplay_trace
        made.restype, begin.argtypes, begin.restype = ctypes.c_void_p, (ctypes.c_void_p,), None
        begin(made(*slots))

    def write_at_the_end(self) -> None:
        """However the process ends, but for SIGKILL and a crash."""
        import atexit
        import contextlib
        import signal
        from multiprocessing import util

        atexit.register(self.write)
        # The processes of multiprocessing end without atexit.
        util.Finalize(None, self.write, exitpriority=100)
        end = os._exit

        def ended(status: int) -> NoReturn:
            """A program that ends at once, without what Python does then."""
            try:
                self.write()
            finally:
                end(status)

        os._exit = ended
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            # Only the main thread may; elsewhere the process ends as ever.
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, self.terminated)
                os.register_at_fork(after_in_child=self.forked)

    def forked(self) -> None:
        """A child ends by SIGTERM as ever: Python's own handler may come too late for one that is
        about to wait for a lock, and pools end their workers so."""
        import contextlib
        import signal

        if signal.getsignal(signal.SIGTERM) == self.terminated:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def terminated(self, number: int, _: FrameType | None) -> None:
        import signal

        self.write()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def write(self) -> None:
        """The snapshot, then what is known besides: the one without the other is not whole."""
        import json
        import pickle

        if self.of != os.getpid():
            return  # a child that was forked later: it cannot use the card, and all is its parent's
        self.of = 0
        if self.reads is not None:
            self.reads.stop()
        begun = os.path.join(self.folder, str(os.getpid()))
        cuda = self.torch.cuda
        statistics = [dict(cuda.memory_stats(i)) for i in range(cuda.device_count())]
        if not any(map(used, statistics)):
            return
        run = self.run()
        snapshot = cuda.memory._snapshot()
        if isinstance(snapshot, dict):  # a list in versions before 2.0
            snapshot["memreplay"] = run
        with open(f"{begun}.pickle", "wb") as file:
            pickle.dump(snapshot, file)
        found = {
            **run,
            "arguments": sys.argv,
            "recorded_by_itself": not self.own,
            "dumped": self.dumped,
            "raised": raised(),
            "statistics": statistics,
            "unanswered": calls(),
            "workspaces": workspaces(),
            "reads": self.reads.counted() if self.reads is not None else [],
        }
        with open(f"{begun}.json.part", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.rename(f"{begun}.json.part", f"{begun}.json")

    def run(self) -> dict[str, Any]:
        """What the snapshot says of the run, under a key of its own (docs/format.md)."""
        cuda = self.torch.cuda
        rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
        distributed = sys.modules.get("torch.distributed")
        if distributed and distributed.is_available() and distributed.is_initialized():
            rank, world = distributed.get_rank(), distributed.get_world_size()
        cards = [cuda.get_device_properties(i) for i in range(cuda.device_count())]
        return {
            "version": 1,
            "recorder": "dryrun",
            "torch": str(self.torch.__version__),
            "cards": [{"name": one.name, "total_bytes": one.total_memory} for one in cards],
            "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "rank": None if rank is None else int(rank),
            "world_size": None if world is None else int(world),
        }


def used(statistics: dict[str, Any]) -> bool:
    """Whether a card was used, and not only asked about, as compilers' processes do."""
    asked = [statistics.get(name) for name in ("allocation.all.allocated", "num_ooms")]
    return any(one is None or one for one in asked)


class Reads:
    """Where the program reads values that nobody knows, since no kernel has computed them."""

    def __init__(self, card: str, torch: str) -> None:
        import ctypes

        self.counts: dict[tuple[str, str, int, str, str], int] = {}
        paths = sysconfig.get_paths()
        self.not_the_program = tuple(
            os.path.join(one, "")
            for one in (
                torch,
                paths["stdlib"],
                paths["purelib"],
                paths["platlib"],
                # What torch.compile has written, with names of no meaning.
                os.environ.get("TORCHINDUCTOR_CACHE_DIR", torch),
            )
        )
        self.commands = os.path.join(paths["scripts"], "")
        # The program may be a part of a library: `python -m package.train`.
        self.program: str | None = None
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        if main and not self.of_the_program(os.path.abspath(main)):
            folder = os.path.join(os.path.dirname(os.path.abspath(main)), "")
            if folder not in (*self.not_the_program, self.commands):
                self.program = folder
        self.kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint64)
        self.called = self.kind(self.told)
        self.listen = ctypes.CDLL(card).memreplay_listen
        self.listen.argtypes = (self.kind,)
        self.listen.restype = None
        self.listen(self.called)

    def stop(self) -> None:
        """A call while Python ends would crash it."""
        self.listen(self.kind())

    def told(self, operator: bytes, _: int) -> None:
        place = self.place(sys._getframe())
        printed = "_tensor_str.py:" in place[3]  # what sizes a tensor's text has is of no matter
        where = ("print" if printed else operator.decode(), *place)
        if where not in self.counts and len(self.counts) >= PLACES:
            where = (where[0], "", 0, "", "")
        self.counts[where] = self.counts.get(where, 0) + 1

    def place(self, frame: FrameType | None) -> tuple[str, int, str, str]:
        """The innermost frame of the program's own, and the library's line that it went through;
        where all are libraries', the innermost."""
        innermost = None
        while frame is not None:
            code = frame.f_code
            if code.co_filename != __file__:
                here = (code.co_filename, frame.f_lineno or 0, code.co_name)
                innermost = innermost or here
                if self.of_the_program(code.co_filename):
                    through = "" if here is innermost else f"{innermost[0]}:{innermost[1]}"
                    return (*here, through)
            frame = frame.f_back
        return (*(innermost or ("", 0, "")), "")  # a thread of C++, as autograd's: no Python asked

    def of_the_program(self, file: str) -> bool:
        if self.program is not None and file.startswith(self.program):
            return True
        # Installed for this Python, or for one whose packages this one has, too.
        library = file.startswith((*self.not_the_program, self.commands, "<frozen"))
        return not library and not INSTALLED.intersection(file.split(os.sep))

    def counted(self) -> list[dict[str, Any]]:
        return [
            {
                "operator": operator,
                "file": file,
                "line": line,
                "function": function,
                "through": through,
                "count": n,
            }
            for (operator, file, line, function, through), n in self.counts.items()
        ]


def tracing_slots(torch: str) -> tuple[int, int, int] | None:
    """Where in the table of PyInterpreterVTable the functions are that are told of blocks taken and
    let go, and whether they are told the kind of device, too; None where this torch has none.

    By the header that lies with each torch: places follow the order of declarations, of which a
    destructor takes two (Itanium C++ ABI).
    """
    import re

    header = os.path.join(torch, "include", "c10", "core", "impl", "PyInterpreter.h")
    try:
        with open(header, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return None
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    body = re.search(r"struct C10_API PyInterpreterVTable \{(.*?)\n\};", text, re.DOTALL)
    places: dict[str, tuple[int, str]] = {}
    at = 0
    for declared in re.findall(r"virtual\s+([^;{]*)", body[1] if body else ""):
        name = re.search(r"(~?\w+)\s*\(", declared)
        if name is None:
            return None
        places[name[1]] = at, declared
        at += 2 if name[1].startswith("~") else 1
    taken, let_go = (places.get(f"trace_gpu_memory_{one}allocation") for one in ("", "de"))
    if taken is None or let_go is None:
        return None
    return taken[0], let_go[0], int("DeviceType" in taken[1])


def raised() -> dict[str, Any] | None:
    """The exception that ended the program, as Python keeps it; None where there was none."""
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
    """How often each library was asked how much memory it needs, which is not known here."""
    path = os.environ.get("MEMREPLAY_DRYRUN_CARD")
    if not path:
        return {}
    import ctypes

    card = ctypes.CDLL(path)
    said = ctypes.c_char * 256  # the names are shorter, and end with a zero
    names = ctypes.string_at(ctypes.addressof(said.in_dll(card, "memreplay_libraries")))
    libraries = names.decode().split(",")
    counts = (ctypes.c_uint64 * len(libraries)).in_dll(card, "memreplay_workspaces_of")
    return {name: counts[i] for i, name in enumerate(libraries) if counts[i]}


def calls() -> dict[int, int]:
    """How often each function was called that does nothing, by its number."""
    path = os.environ.get("MEMREPLAY_DRYRUN_MORE")
    if not path:
        return {}
    import ctypes

    counts = (ctypes.c_uint32 * FUNCTIONS).in_dll(ctypes.CDLL(path), "memreplay_counts")
    return {i: count for i, count in enumerate(counts) if count}
