"""Write a realistic allocator snapshot of any size. The same arguments always give the same bytes.

    python bench/generate.py -o snap.pkl --mb 100
    python bench/generate.py -o snap.pkl.gz --events 10000 --seed 7

A small GPT is trained on a simulated caching allocator (sim_training, sim_allocator), so trace and
segments match exactly. The file is streamed: events are rendered from one template per kind of
event, so neither the objects nor the bytes of a large file are ever in memory as a whole.
"""

from __future__ import annotations

import argparse
import gzip
import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pickle_writers import BATCH, FRAME_TARGET, CppPickler, PythonPickler, get
from sim_allocator import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    LIVE,
    PENDING,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    Segment,
)
from sim_stacks import Frame, Stacks
from sim_training import Program, Shape, Site, Trace

ACTIONS = {
    ALLOC: "alloc",
    FREE_REQUESTED: "free_requested",
    FREE_COMPLETED: "free_completed",
    SEGMENT_ALLOC: "segment_alloc",
    SEGMENT_FREE: "segment_free",
}
UNKNOWN = ("category", "optimizer state")  # a key and a value that memreplay doesn't know
# An object written later refers to the same list of frames as one of these events.
STACK_IS_SHARED = frozenset({FREE_REQUESTED, SEGMENT_ALLOC, SEGMENT_FREE})
STATES = {LIVE: "active_allocated", PENDING: "active_pending_free"}
PILOT_EVENTS = 150_000
BYTES_GUESS = 160
# Traces up to this size stay in memory. Larger ones go to a temporary file.
SPOOL_BYTES = 1 << 26
# How many bytes LONG1 needs for a 47-bit address and for a current time in microseconds.
ADDRESS_BYTES, TIME_BYTES = 6, 7

Pickler = PythonPickler | CppPickler
Frames = list[Frame]


@dataclass(frozen=True)
class Options:
    """What to generate.

    `events` is the total of all devices; the trace ends up to three events later. With
    `whole_steps`, it ends at the end of a training step instead, when the same allocations are
    always live. That affects the file's size, because the live allocations' frames come first and
    get the short memo indexes.
    """

    events: int
    depth: int = 36
    frame_poor: bool = False
    devices: int = 1
    seed: int = 0
    writer: str = "python"
    layers: int = 12
    baseline: bool = True
    whole_steps: bool = False
    unknown_key: bool = False
    new_stacks: bool = False
    written_out: bool = False


class Template(NamedTuple):
    """An event's bytes except its address, time and memo indexes.

    `frames` has the bytes of the stack's frames, and `entries` the memo entries each frame adds.
    """

    head: bytes
    middle: bytes
    own_stack: bytes
    frames: list[bytes]
    shared_stack: bytes
    remember: bool
    end: bytes
    entries: int


class SnapshotWriter:
    """Writes one snapshot of finished programs with one pickler."""

    def __init__(self, pickler: Pickler, options: Options, programs: list[Program]) -> None:
        self._pickler = pickler
        self._options = options
        self._programs = programs
        self._stacks = programs[0].stacks
        self._no_frames: Frames = []
        # For --mb, the file position at which event i was written.
        self.marks: dict[int, int] = {}
        self.events = 0

    # -- the tree

    def write(self) -> None:
        pickler = self._pickler
        pickler.share(self._no_frames)
        self._share_frames()
        pickler.open_dict()
        pickler.save("segments")
        segments, contexts = self._segments()
        pickler.save(segments)
        pickler.save("device_traces")
        pickler.open_list(len(self._programs))
        for program in self._programs:
            self._trace(program, contexts[program.device])
        pickler.close_list(len(self._programs), True)
        pickler.save("allocator_settings")
        pickler.save(self._settings())
        pickler.save("external_annotations")
        annotations = [entry for program in self._programs for entry in program.annotations]
        pickler.share(annotations)
        pickler.save(annotations)
        pickler.close_dict(True)
        pickler.finish()

    def _share_frames(self) -> None:
        """Mark the frames that are in several recorded stacks, because C++ references these more
        than once.
        """
        uses = [0] * len(self._stacks.frames)
        for program in self._programs:
            for stack, count in program.trace.events_by_stack().items():
                for frame in self._stacks.stacks[stack]:
                    uses[frame] += count
        for frame, count in enumerate(uses):
            if count > 1 and not self._options.written_out:
                self._pickler.share(self._stacks.frames[frame])

    def _frames(self, stack: int) -> Frames:
        frames = [self._stacks.frames[number] for number in self._stacks.stacks[stack]]
        return [dict(frame) for frame in frames] if self._options.written_out else frames

    def _segments(self) -> tuple[list[dict[str, object]], dict[int, dict[int, Frames]]]:
        """Return all devices' segments and, for each device, the lists of frames by context."""
        result: list[dict[str, object]] = []
        contexts: dict[int, dict[int, Frames]] = {}
        for program in self._programs:
            lists = contexts[program.device] = {}
            for address in sorted(program.allocator.segments):
                segment = program.allocator.segments[address]
                result.append(self._segment(program.device, segment, lists))
        self._pickler.share(result)
        return result, contexts

    def _context_frames(self, context: int, stack: int, lists: dict[int, Frames]) -> Frames:
        if context < 0 or self._options.frame_poor:
            return self._no_frames
        frames = lists.get(context)
        if frames is None:
            frames = lists[context] = self._frames(stack)
            self._pickler.share(frames)
        return frames

    def _segment(
        self, device: int, segment: Segment, lists: dict[int, Frames]
    ) -> dict[str, object]:
        blocks: list[dict[str, object]] = []
        allocated = active = requested = 0
        block = segment.first
        while True:
            in_use = block.state in STATES
            if in_use:
                active += block.size
                allocated += block.size if block.state == LIVE else 0
                requested += block.requested
            entry: dict[str, object] = {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": STATES[block.state] if in_use else "inactive",
                "frames": self._context_frames(block.context if in_use else -1, block.stack, lists),
            }
            if entry["frames"]:
                self._pickler.share(entry)
            blocks.append(entry)
            if block.next is None:
                break
            block = block.next
        result: dict[str, object] = {
            "device": device,
            "address": segment.address,
            "total_size": segment.size,
            "allocated_size": allocated,
            "active_size": active,
            "requested_size": requested,
            "stream": segment.stream,
            "segment_type": "large" if segment.large else "small",
            # As in PyTorch, each segment gets its own tuple instead of a shared constant.
            "segment_pool_id": tuple(2 * [0]),
            "is_expandable": False,
        }
        frames = self._context_frames(segment.context, segment.stack, lists)
        # Add stacks after everything else is in place, so that they come after the blocks.
        if frames:
            result |= {"blocks": blocks, "frames": frames}
            self._pickler.share(result)
        else:
            result |= {"frames": frames, "blocks": blocks}
        return result

    def _settings(self) -> dict[str, object]:
        divisions: dict[str, object] = {str(1 << power): 0 for power in range(16)}
        settings: dict[str, object] = {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1,
            "garbage_collection_threshold": 0.0,
            "expandable_segments": False,
            "pinned_num_register_threads": 1,
            "release_lock_on_cudamalloc": False,
            "pinned_use_cuda_host_register": False,
            "graph_capture_record_stream_reuse": False,
            "roundup_power2_divisions": divisions,
        }
        self._pickler.share(divisions)
        self._pickler.share(settings)
        return settings

    # -- the events

    def _trace(self, program: Program, lists: dict[int, Frames]) -> None:
        pickler = self._pickler
        shared: dict[int, int] = {}
        for context, frames in lists.items():
            index = pickler.index(frames)
            if index is None:
                raise AssertionError("a block's frames were not written with the segments")
            shared[context] = index
        count = program.trace.count
        pickler.open_list(count)
        if isinstance(pickler, PythonPickler):
            self._python_events(pickler, program, shared)
        else:
            self._cpp_events(pickler, program, shared)
        pickler.close_list(count, False)
        self.events += count

    def _event(self, site: Site, address: int, time_us: int, number: int) -> dict[str, object]:
        """Return an event as an object. This is needed if some of its strings or frames aren't
        memoised yet.
        """
        event: dict[str, object] = {
            "action": ACTIONS[site.action],
            "addr": address,
            "size": site.size,
            "stream": site.stream,
            "time_us": time_us,
            "compile_context": "/".join(["N", "A"]),
            "user_metadata": "",
        }
        if self._options.unknown_key:
            event[UNKNOWN[0]] = UNKNOWN[1]
        if not self._options.frame_poor:
            frames = event["frames"] = self._stack_of(self._frames(site.stack), number)
            self._pickler.share(event)
            self._pickler.share(frames)
        return event

    def _template(self, site: Site, widths: tuple[int, int], context: bytes) -> Template | None:
        """Return the template for an event, or None if it needs strings or frames that aren't in
        the file yet.
        """
        pickler = self._pickler
        poor = self._options.frame_poor
        keys = ("action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata")
        constants: list[object] = [*keys, ACTIONS[site.action], ""]
        if not poor:
            constants.append("frames")
        unknown = UNKNOWN if self._options.unknown_key else ()
        indices = [pickler.index(obj) for obj in (*constants, *unknown)]
        gets = [get(index) for index in indices if index is not None]
        written = [] if poor else [self._frame_bytes(frame) for frame in self._frames(site.stack)]
        frames = [frame for frame in written if frame is not None]
        if len(gets) < len(indices) or len(frames) < len(written):
            return None
        action, addr, size, stream, time_us, compile_context, metadata, verb, empty = gets[:9]
        python = isinstance(pickler, PythonPickler)
        opening = b"}\x94(" if python else b"}("
        head = opening + action + verb + addr + b"\x8a" + bytes([widths[0]])
        middle = (
            size
            + pickler.integer(site.size)
            + stream
            + pickler.integer(site.stream)
            + time_us
            + b"\x8a"
            + bytes([widths[1]])
        )
        tail = compile_context + context + metadata + empty + b"".join(gets[len(constants) :])
        if poor:
            return Template(head, middle, tail + b"u", [], b"", False, b"", 0)
        tail += gets[9]
        start = b"](" if not python else b"]\x94(" if len(frames) > 1 else b"]\x94"
        end = b"e" if not python else b"eu" if len(frames) > 1 else b"au"
        entries = int(python and self._options.written_out)
        remember = site.action in STACK_IS_SHARED
        return Template(head, middle, tail + start, frames, tail, remember, end, entries)

    def _frame_bytes(self, frame: Frame) -> bytes | None:
        """Return the bytes with which a list refers to a frame; None if the frame isn't in the file
        yet.
        """
        pickler = self._pickler
        if not self._options.written_out:
            index = pickler.index(frame)
            return None if index is None else get(index)
        parts = []
        for word in (part for item in frame.items() for part in item):
            index = pickler.index(word)
            if isinstance(word, str) and index is None:
                return None
            parts.append(pickler.integer(word) if isinstance(word, int) else get(index or 0))
        opening = b"}\x94(" if isinstance(pickler, PythonPickler) else b"}("
        return opening + b"".join(parts) + b"u"

    def _stack_of(self, frames: list[Any], number: int) -> list[Any]:
        """Return the stack of event `number`, or a new stack if the options ask for new ones."""
        if self._options.new_stacks and frames:
            frames = frames.copy()
            turn, place = divmod(number, len(frames))
            frames[place] = frames[turn % len(frames)]
        return frames

    def _own_stack(self, template: Template, number: int) -> bytes:
        frames = self._stack_of(template.frames, number)
        return template.own_stack + b"".join(frames) + template.end

    def _rows(self, program: Program) -> Iterator[tuple[int, int, int, int]]:
        for chunk in program.trace.chunks():
            flat = iter(chunk)
            yield from zip(flat, flat, flat, flat, strict=True)

    def _first_of_its_kind(
        self, site: Site, row: tuple[int, int, int, int], number: int, shared: dict[int, int]
    ) -> None:
        """Write an event object by object; its list of frames may already exist."""
        pickler = self._pickler
        event = self._event(site, row[1], row[2], number)
        known = shared.pop(row[3], None)
        frames = event.pop("frames", None)
        if frames is None:
            pickler.save(event)
            return
        if known is None:
            event["frames"] = frames
            pickler.save(event)
            known = pickler.index(frames)
        else:
            pickler.open_dict()
            for key, value in event.items():
                pickler.save(key)
                pickler.save(value)
            pickler.save("frames")
            # The list itself no longer exists, but its memo index is known.
            pickler.put(get(known))
            pickler.close_dict(True)
        if known is not None and site.action in STACK_IS_SHARED:
            shared[row[3]] = known

    def _python_events(
        self, pickler: PythonPickler, program: Program, shared: dict[int, int]
    ) -> None:
        sites, poor = program.trace.sites, self._options.frame_poor
        templates: list[Template | None] = [None] * len(sites)
        buffer, take = pickler.buffer, shared.pop
        # Each event gets a new string, as in PyTorch.
        context = b"\x8c\x03N/A\x94"
        for number, row in enumerate(self._rows(program)):
            if number % BATCH == 0 and number:
                pickler.next_batch()
                self.marks[number] = pickler.position
            site, address, time_us, stack = row
            template = templates[site]
            if template is None:
                template = templates[site] = self._template(
                    sites[site], (ADDRESS_BYTES, TIME_BYTES), context
                )
                if template is None:
                    self._first_of_its_kind(sites[site], row, number, shared)
                    continue
            tail = template.shared_stack
            start = len(buffer)
            buffer += template.head
            buffer += address.to_bytes(ADDRESS_BYTES, "little")
            buffer += template.middle
            buffer += time_us.to_bytes(TIME_BYTES, "little")
            known = -1 if poor else take(stack, -1)
            if known < 0:
                buffer += self._own_stack(template, number)
                # The memo gets the dict, then the compile context, then the list and its contents.
                known = pickler.memo_length + 2
                pickler.memo_length += 2 if poor else 3
                pickler.memo_length += template.entries * len(template.frames)
            else:
                buffer += tail + get(known) + b"u"
                pickler.memo_length += 2
            if template.remember:
                shared[stack] = known
            if len(buffer) >= FRAME_TARGET:
                pickler.split(start)

    def _cpp_events(self, pickler: CppPickler, program: Program, shared: dict[int, int]) -> None:
        sites, poor = program.trace.sites, self._options.frame_poor
        templates: list[Template | None] = [None] * len(sites)
        take = shared.pop
        for number, row in enumerate(self._rows(program)):
            if number % BATCH == 0:
                self.marks[number] = pickler.position
            site, address, time_us, stack = row
            template = templates[site]
            if template is None:
                index = pickler.index("N/A")
                if index is not None:
                    template = self._template(sites[site], (8, 8), get(index))
                    templates[site] = template
                if template is None:
                    self._first_of_its_kind(sites[site], row, number, shared)
                    continue
            own = self._own_stack(template, number)
            chunk = template.head + address.to_bytes(8, "little")
            chunk += template.middle + time_us.to_bytes(8, "little")
            if poor:
                # Without a stack, only one reference to the event exists in C++, so it isn't
                # memoized.
                pickler.put(chunk + own)
                continue
            known = take(stack, -1)
            if known < 0:
                known = pickler.memo_length
                chunk += own + pickler.binput()
            else:
                chunk += template.shared_stack + get(known)
            pickler.put(chunk + b"u" + pickler.binput())
            if template.remember:
                shared[stack] = known


# -- running


def simulate(options: Options, files: ExitStack) -> list[Program]:
    """Run one program per device; return their traces (stored in `files`) and allocators."""
    stacks = Stacks(options.depth)
    programs = []
    for device in range(options.devices):
        share = options.events // options.devices
        limit = share + (options.events - share * options.devices if device == 0 else 0)
        shape = Shape(layers=options.layers)
        spool = files.enter_context(tempfile.SpooledTemporaryFile(SPOOL_BYTES))  # noqa: SIM115
        trace = Trace(spool, limit, options.whole_steps, options.seed * 1000 + device)
        program = Program(device, shape, stacks, trace, options.seed)
        program.run(options.baseline)
        programs.append(program)
    return programs


def write_snapshot(options: Options, write: Callable[[bytes], object]) -> SnapshotWriter:
    """Simulate, then pass the snapshot to `write`."""
    with ExitStack() as files:
        programs = simulate(options, files)
        pickler = PythonPickler(write) if options.writer == "python" else CppPickler(write)
        writer = SnapshotWriter(pickler, options, programs)
        writer.write()
    return writer


def sized(megabytes: float, options: Options) -> Options:
    """Return options for a file of the given size in MB, extrapolated from a smaller file."""
    length = 0

    def count(data: bytes) -> None:
        nonlocal length
        length += len(data)

    # Long enough to include every phase of the program, but never longer than requested.
    guess = max(1, round(megabytes * 1e6 / BYTES_GUESS))
    options = replace(options, whole_steps=guess > PILOT_EVENTS)
    pilot = replace(options, events=min(PILOT_EVENTS, guess), devices=1)
    writer = write_snapshot(pilot, count)
    an_event = length / writer.events
    if len(writer.marks) > 20:
        low, high = sorted(writer.marks)[10], max(writer.marks)
        an_event = (writer.marks[high] - writer.marks[low]) / (high - low)
    fixed = length - an_event * writer.events
    events = max(1, round((megabytes * 1e6 - fixed * options.devices) / an_event))
    return replace(options, events=events)


def generate(path: Path, options: Options) -> int:
    """Write the snapshot to `path`, gzipped if it ends in .gz; return the number of events."""
    with path.open("wb") as file:
        if path.suffix != ".gz":
            return write_snapshot(options, file.write).events
        # Leave the name and time out of the header, so that the same arguments produce the same
        # bytes.
        with gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped:
            return write_snapshot(options, zipped.write).events


def generate_bytes(options: Options) -> bytes:
    """Return the snapshot as bytes, for tests and small snapshots."""
    file = io.BytesIO()
    write_snapshot(options, file.write)
    return file.getvalue()


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="file; .gz compresses it")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--mb", type=float, default=100.0, help="about this many million bytes")
    size.add_argument("--events", type=int, help="this many events instead")
    parser.add_argument("--depth", type=int, default=36, help="frames in a stack, on average")
    parser.add_argument("--frame-poor", action="store_true", help="as recorded without stacks")
    parser.add_argument(
        "--unknown-key", action="store_true", help="in each event, as a later PyTorch may write it"
    )
    parser.add_argument(
        "--new-stacks", action="store_true", help="hardly a stack twice, as in short recordings"
    )
    parser.add_argument(
        "--written-out", action="store_true", help="no frame shared, as PyTorch 2.0 wrote them"
    )
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--writer", choices=("python", "cpp"), default="python")
    parser.add_argument("--layers", type=int, default=12, help="of the simulated model")
    parser.add_argument(
        "--baseline",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="recording begins after the model is built and one step is done",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    args = parse_arguments(arguments)
    options = Options(
        events=args.events or 0,
        depth=args.depth,
        frame_poor=args.frame_poor,
        unknown_key=args.unknown_key,
        new_stacks=args.new_stacks,
        written_out=args.written_out,
        devices=args.devices,
        seed=args.seed,
        writer=args.writer,
        layers=args.layers,
        baseline=args.baseline,
    )
    if args.events is None:
        options = sized(args.mb, options)
    begin = time.perf_counter()
    events = generate(args.output, options)
    seconds = time.perf_counter() - begin
    size = args.output.stat().st_size
    print(
        f"{args.output}: {size / 1e6:.1f} MB, {events} events, {size / events:.0f} bytes an event, "
        f"{seconds:.1f} s",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
