"""Help texts on exit codes, for each kind of command."""

from __future__ import annotations

from collections.abc import Mapping

# No line breaks, because click joins the lines of a paragraph.
ALL_EXIT_CODES = (
    "Exit codes: 0 success, 1 a problem was found (gate, simulate --total-memory, leaks --fail,"
    " --strict), 2 usage error, 3 unreadable snapshot, 4 truncated snapshot, 5 the file can't"
    " answer this (steps, leaks), 6 the program failed (dryrun)."
)
"""The exit codes of all commands, for the program's help."""

EVERY = {
    2: "usage error",
    3: "unreadable snapshot",
    4: "truncated snapshot",
}
"""The meaning of exit codes common to all commands."""
UNTRUSTED = "untrusted numbers (--strict)"


def exit_codes(own: Mapping[int, str], *, strict: bool) -> dict[int, str]:
    """Return the exit codes that not all commands have: `own`, and 1 with --strict."""
    found = {0: "success", **own}
    if strict:
        found[1] = f"{found[1]}, or {UNTRUSTED}" if 1 in found else UNTRUSTED
    return found


def exit_text(codes: Mapping[int, str]) -> str:
    """Return `Exit codes: 0 success, 1 …` for a command's help."""
    return f"Exit codes: {', '.join(f'{code} {words}' for code, words in sorted(codes.items()))}."
