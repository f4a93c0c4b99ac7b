"""Snapshots in which every string attacks the page that shows it."""

from __future__ import annotations

from typing import Any

from tests.build import START_US, SnapshotBuilder

# What each attack would do if the page ran or rendered it instead of showing it as text.
HIT = "globalThis.hit=1"
NAMES = {
    "image": f"<img src=x onerror={HIT}>",
    "script": f"</script><script>{HIT}</script>",
    "data": f"--></script></style></title><svg onload={HIT}>",
    "attribute": f"\" autofocus onfocus={HIT} x=\"' autofocus onfocus='{HIT}",
    "address": f"javascript:{HIT}",
    "template": f"${{{HIT}}}{{{{constructor.constructor('{HIT}')()}}}}",
    "entity": f"&lt;img src=x onerror={HIT}&gt;&#60;b&#62;",
    "bidi": "\u202eabc\u2066def\u2069\u200f",
    "controls": "a\x00b\x1b[31mc\x07\r\nd\u2028e\u2029f\ufeff",
    "surrogate": "\ud800\udfff x",
    "prototype": "__proto__",
    "formula": '=HYPERLINK("http://example.com/","x")',
    "shell": "'; touch hit; $(touch hit) `touch hit` \\",
    "expression": "(a+)+$[",
}
LONG = f"<b onclick={HIT}>" + "x" * 100_000


def snapshot(*names: str) -> dict[str, Any]:
    """Return a snapshot in which every field that can hold a name has each of these names."""
    made = SnapshotBuilder(devices=2, fx=True, start_us=START_US)
    for k, name in enumerate(names):
        frames = [(name, name, 1), ("/" + name, f"/home/{name}/{name}.py", 2), (name, "m.py", 3)]
        said: dict[str, Any] = {"compile_context": name, "user_metadata": name}
        for turn in range(3):
            at, size = 0x100000 * (3 * k + turn + 1), 1000 * (turn + 1)
            made.alloc(at, size, frames=frames[turn:], device=turn % 2, **said)
        made.oom(1 << 30, frames=frames, **said)
        made.free(0x100000 * (3 * k + 1), 1000, frames=frames, **said)
        made.annotation(name, "START", START_US + 6 * k + 1)
        made.annotation(f"ProfilerStep#{k}{name}", "START", START_US + 6 * k + 2)
        made.annotation(f"ProfilerStep#{k}{name}", "END", START_US + 6 * k + 4)
        made.annotation(name, "END", START_US + 6 * k + 5)
        made.settings(**{name: name})
        made.top(name, name)
    made.snapshot_event(100)
    made.finish_segments()
    return made.build()
