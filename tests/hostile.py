"""Strings that try to have an effect wherever they're shown, and snapshots full of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

from hypothesis import strategies as st

from tests.build import FrameSpec, Snapshot, SnapshotBuilder
from tests.noted import with_notes

PIECES = (
    # Against terminals: colours, title, a link, the clipboard, single-byte CSI, bells, overwritten
    # lines.
    *("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://evil.test\x1b\\go\x1b]8;;\x1b\\"),
    *("\x1b]52;c;ZXZpbA==\x07", "\x9b2J", "\x00", "\x07", "\x08\x08", "\r", "\n", "\r\n", "\t"),
    *("\x0b", "\x0c", "\x7f", "\x85", "\x1bc", "\x1c", "\x1f"),
    # Text-direction overrides, and invisible characters.
    *("\u202e", "\u202a", "\u202c", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c", "\u2028"),
    *("\u2029", "\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u180e", "\U000e0041", "\ufe0f"),
    *("\U000e0101", "\u3164", "\u115f", "\uffa0", "\u034f", "\u17b4", "\u206a", "\ufff9"),
    # Noncharacters and characters that can't be encoded; stacked combining marks; wide and other
    # letters.
    *("\ud800", "\udc80", "\uffff", "\ufdd0", "\ue000", "\U0010ffff", "a" + "\u0301" * 99, "名前"),
    *("é", "עברית", "😀", "\u00a0", "\u3000"),
    # Against CI runners: commands for GitHub, Azure, TeamCity and GitLab.
    *("\n::error file=a.py,line=1::evil", "::set-output name=x::evil", "::stop-commands::evil"),
    *(
        "  ::add-mask::evil",
        "\r\n::warning::evil",
        "%0A::error::evil",
        "##[group]evil",
        "##[error]",
    ),
    *("##vso[task.setvariable variable=PATH]evil", "##teamcity[message text='evil']", "::", "##"),
    *("section_start:1:evil\r\x1b[0K", ":", "#"),
    # For Markdown.
    *("# evil", "###### evil", "evil\n===", "evil\n---", "<b>evil</b>", "<!-- evil -->", "- evil"),
    *("1. evil", "1) evil", "> evil", "    evil", "```evil", "~~~evil", "`evil`", "``", "**evil**"),
    *("*evil*", "_evil_", "~~evil~~", "a|evil|b", "$\\evil$", "$$", "|", "| - |", "---", "***"),
    *("![evil](http://evil.test/a.png)", "[evil](javascript:evil)", "[evil]: http://evil.test"),
    *("[evil]", "[^1]", "- [ ] evil", "[!NOTE]", "<http://evil.test>", "<evil@evil.test>", "\\"),
    *("http://evil.test/a", "HTTPS://evil.test", "ftp://evil.test", "www.evil.test", "@evil"),
    *("evil@evil.test", "mailto:evil@evil.test", "@evil/team", "#12", "GH-12", "evil/evil#12"),
    *(
        ":tada:",
        "at::_ops::cat::call",
        ":+1:",
        "!12",
        "&lt;evil&gt;",
        "&#64;evil",
        "operator[](int)",
    ),
    # Against HTML, XML and scripts.
    *("<script>evil()</script>", "</script><script>evil()</script>", "</title><h1>evil", "]]>"),
    *("<![CDATA[evil", "<img src=x onerror=evil()>", "\"' onload='evil()", "&amp;", "-->", "<!--"),
    *("{{evil}}", "${{ evil }}", "<?evil?>", "<svg onload=evil()>"),
    # Against tables, Textual and rich, matplotlib, format strings.
    *("=1+1", "+1", "-1", "=cmd|' /C evil'!A0", 'a,"evil"\nb', "[bold red]evil[/]", "[/evil]"),
    *("[@click=app.bell]evil[/]", "\\frac{", "\\N{", "%s", "{0}", "{evil}", ";", "a;b 12"),
)

texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)


@st.composite
def several_texts(draw: st.DrawFn, most: int = 60) -> list[str]:
    """Draw some of these strings on their own, some after a word, and some combined."""
    pieces = st.sampled_from(PIECES)
    some = draw(st.lists(st.one_of(pieces, pieces.map("a {}".format)), min_size=20, max_size=most))
    return [*some, *draw(st.lists(texts, min_size=5, max_size=20))]


def file_name(text: str) -> str:
    """Return as much of a string as a file name can hold on this system."""
    plain = text.replace("/", "-").replace("\0", "")
    data = plain.encode("utf-8", "replace")[:80]
    name = os.fsdecode(data).strip(".").lstrip("-")
    return name or "x"


def hostile_snapshot(words: Sequence[str], *, scale: int = 1) -> Snapshot:
    """Return a training run of six steps, with parameters, activations, a leak, two pools and an
    OOM. All its strings come from `words`. Another `scale` gives a different run of the same code.
    """
    word = cycle(words)
    stacks = [_stack(word, depth) for depth in (1, 2, 3, 1, 4, 2)]
    made = SnapshotBuilder(devices=2, fx=True, compile_context=next(word))
    made.user_metadata = {next(word): next(word), "step": next(word)}
    names = [next(word) for _ in range(3)]
    unit = 4096 * scale
    made.segment_alloc(1 << 20, 128 << 20, frames=stacks[0])
    for step in range(6):
        base = (1 << 20) + step * (8 << 20)
        made.annotation(f"ProfilerStep#{step}", "START")
        made.annotation(names[0], "START")
        made.annotation(names[1], "START")
        for i, stack in enumerate(stacks):
            made.alloc(base + i * (1 << 20), unit * (i + 1), frames=stack, pool_id=(0, i % 2))
        made.alloc(base + (7 << 20), unit, frames=stacks[2], stream=7)
        made.annotation(names[1], "END")
        for i, stack in enumerate(stacks[1:], 1):
            made.free(base + i * (1 << 20), unit * (i + 1), frames=stack, pool_id=(0, i % 2))
        made.annotation(names[0], "END")
        made.annotation(f"ProfilerStep#{step}", "END")
    made.annotation(names[2], "START")
    made.oom(1 << 30, 1 << 20, frames=stacks[3])
    made.event(next(word), 0x10, 0x20, frames=stacks[4])
    made.alloc(1 << 20, 512, device=1, frames=stacks[5])
    made.free(0x9000, 700, device=1, frames=stacks[1])
    made.finish_segments()
    for segment in made.segments:
        segment[next(word)] = next(word)
    made.segments[0]["segment_type"] = next(word)
    made.segments[0]["blocks"][0]["state"] = next(word)
    made.settings(
        expandable_segments=False,
        PYTORCH_CUDA_ALLOC_CONF=next(word),
        last_allocator_settings=next(word),
    )
    made.extras["allocator_settings"][next(word)] = next(word)
    made.top(next(word), {next(word): [next(word)]})
    snapshot = made.build()
    for event in snapshot["device_traces"][0][::3]:
        event[next(word)] = next(word)
    return _noted(snapshot, word)


def _stack(word: Iterator[str], depth: int) -> list[FrameSpec]:
    made = [(next(word), f"/run/{next(word)}", line + 1) for line in range(depth)]
    # A line of output may begin with the innermost or outermost call, so let one of them begin with
    # a hostile string.
    at = 0 if depth % 2 else -1
    made[at] = (f"::error ::evil {made[at][0]}", *made[at][1:])
    return made


def _noted(snapshot: Snapshot, word: Iterator[str]) -> Snapshot:
    """Add notes from memreplay's recorder, with hostile module names."""
    modules = [next(word) for _ in range(3)]
    modules += [f"{modules[0]}.{next(word)}"]
    kinds = [
        ("activations", "forward", modules[0]),
        ("parameters", "start", modules[1]),
        ("gradients", "backward", modules[3]),
        ("optimizer state", "optimizer", ""),
    ]
    events: list[list[Any]] = []
    for trace in snapshot["device_traces"]:
        kind = cycle(kinds)
        events.append([next(kind) if one["action"] == "alloc" else None for one in trace])
    made = with_notes(snapshot, events, {})
    noted: dict[str, Any] = made["memreplay"]
    noted["recorder"] = next(word)
    for key in ("torch", "python", "host", "driver"):
        noted[key] = next(word)
    noted["cards"] = [{"name": next(word), "memory": 1 << 30}]
    noted[next(word)] = next(word)
    # Use only names that a file can add, because memreplay's own categories and phases are shown
    # unchanged.
    for key in ("categories", "phases"):
        noted["allocations"][key][-2:] = [next(word), next(word)]
    noted["allocations"]["categories"][6] = next(word)
    return made
