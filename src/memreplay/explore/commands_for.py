"""Build the command line for a view, and parse typed options."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from memreplay.analysis.selecting.choice import device_pairs
from memreplay.analysis.selecting.selection import Filters, Selection
from memreplay.commands.shared.declaring import options_of, spread
from memreplay.declared import built, declared
from memreplay.errors import UsageError
from memreplay.snapshot.model import When

if TYPE_CHECKING:
    from typing import Protocol

    from memreplay.explore.explored import Explored
    from memreplay.explore.look import Look

    class Compared(Protocol):
        """One of two snapshots that are compared."""

        explored: Explored
        looked: Look
        file: str
        read: tuple[str, ...]


# Options that can be typed as filters, in addition to the filters themselves.
TYPED = ("measure", "by", "pool", "stream")


def command_line(file: str, look: Look, read: tuple[str, ...], share: float) -> str:
    """Return the shell command for a view. `read`: the options that select the part of the file to
    read.
    """
    return shlex.join(["memreplay", *words_of(file, look, read, share)])


def difference_line(base: Compared, new: Compared, look: Look) -> str:
    """Return the shell command for a comparison at one event or at both peaks.

    Raises UsageError if no command can express the two moments.
    """
    words = ["diff", _named(base.file), _named(new.file)]
    when = moment_of_both(base, new)
    if when.kind != "peak":
        words += ["--at", "start" if when.kind == "start" else str(when.value)]
    if look.measure != "requested":
        words += ["--measure", look.measure]
    words += ["--by", look.by] if look.view == "groups" else []
    words += ["--all-frames"] * look.whole
    words += [*filter_options(look), "--device", str(new.looked.device), "--top", "0"]
    words += _without_device(new.read)
    if "--salvage" in base.read and "--salvage" not in words:
        words.append("--salvage")
    return shlex.join(["memreplay", *words])


def moment_of_both(base: Compared, new: Compared) -> When:
    """Return the moment that both cursors show.

    Raises UsageError if there is none, or if `memreplay diff` doesn't compare these devices.
    """
    devices = base.looked.device, new.looked.device
    if devices not in device_pairs(base.explored.snap.devices, new.explored.snap.devices):
        raise UsageError(
            f"no single command shows this: device {devices[0]} is compared with device"
            f" {devices[1]} (d selects the next)"
        )
    events = base.looked.event, new.looked.event
    both = base, new
    if events == tuple(one.explored.peak(one.looked).event_index for one in both):
        return When("peak", 1)
    if events == tuple(one.explored.replay(one.looked).start for one in both):
        return When("start")
    if events[0] == events[1]:
        return When("event", events[0])
    raise UsageError("no single command shows this: the two are at different events (u syncs them)")


def words_of(file: str, look: Look, read: tuple[str, ...], share: float) -> list[str]:
    """Return the command as a list of arguments."""
    if look.view == "segments":
        words = ["fragmentation", _named(file), "--at", _moment(look.event), "--map", "--top", "0"]
        return [*words, "--device", str(look.device), *_without_device(read)]
    words = ["at", _named(file)]
    if look.view == "change" and look.span is not None:
        words += [*map(_moment, look.span), "--by", look.by]
    else:
        words.append(_moment(look.event))
    if look.view == "tree":
        words += ["--tree", "--tree-share", f"{share:g}"]
        words += ["--inverted"] * look.inverted
    elif look.view == "list":
        words += ["--list"]
    elif look.view == "groups":
        words += ["--by", look.by]
    words += ["--all-frames"] * look.whole
    words += ["--top", "0"]
    if look.measure != "requested":
        words += ["--measure", look.measure]
    return [*words, *filter_options(look), "--device", str(look.device), *_without_device(read)]


def _named(file: str) -> str:
    """Return the file's name, written so that it can't be taken for an option."""
    return f"./{file}" if file.startswith("-") else file


def _moment(event: int) -> str:
    return "start" if event < 0 else str(event)


def _without_device(read: tuple[str, ...]) -> list[str]:
    found = list(read)
    if "--device" in found:
        at = found.index("--device")
        del found[at : at + 2]
    return found


def filter_options(look: Look) -> list[str]:
    """Return the filters as options."""
    words: list[str] = []
    if look.pool is not None:
        words += ["--only", f"pool={look.pool[0]}:{look.pool[1]}"]
    if look.stream is not None:
        words += ["--only", f"stream={look.stream}"]
    return words + _of_filters(look.filters)


def _of_filters(filters: Filters | None) -> list[str]:
    if filters is None:
        return []
    words = [word for one in filters.include for word in ("--include", one)]
    words += [word for one in filters.exclude for word in ("--exclude", one)]
    if filters.min_bytes:
        words += ["--only", f"min-bytes={_size_word(filters.min_bytes)}"]
    given = [field for field in declared(Filters) if field.kind is bool]
    words += [word for one in given if getattr(filters, one.name) for word in ("--only", one.key)]
    return words


def _size_word(n_bytes: int) -> str:
    """Format a size exactly, in a form that options accept: `1MiB`. Large sizes need a unit."""
    for unit, of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n_bytes % of == 0:
            return f"{n_bytes // of}{unit}"
    return f"{n_bytes}B"


def filtered(look: Look, text: str) -> Look:
    """Return the view with these filters, written as options of `memreplay peak`.

    Text that isn't an option is an include pattern. An empty text removes all filters. Raises
    UsageError.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text}: {str(error).lower()}") from None
    if words and not any(word.startswith("-") for word in words):
        words = [part for word in words for part in ("--include", word)]
    filtering = declared(Filters)
    names = (*TYPED, *(field.name for field in filtering))
    parameters: list[click.Parameter] = [
        *options_of([(field, "") for field in declared(Selection) if field.name in names])
    ]
    parser = click.Command("filter", params=parameters, add_help_option=False)
    try:
        found = parser.make_context("filter", list(words)).params
    except click.ClickException as error:
        raise UsageError(error.format_message()) from None
    spread(found)
    given = {field.name: found[field.name] for field in filtering if field.name in found}
    filters = built(Filters, given)
    changes: dict[str, Any] = {
        "pool": found.get("pool"),
        "stream": found.get("stream"),
        "filters": filters or None,
    }
    if "--measure" in {word.partition("=")[0] for word in words}:
        changes["measure"] = found["measure"]
    if found["by"] is not None:
        changes |= {"by": found["by"], "view": "groups"}
    return replace(look, **changes)
