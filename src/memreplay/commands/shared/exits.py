"""What the help of each kind of command says of exit codes."""

from __future__ import annotations

from collections.abc import Mapping

# click joins the lines of a paragraph: this one may end every command's help.
EXIT_CODES = (
    "Exit codes: 0 fine, 2 wrong usage, 3 not a readable snapshot, 4 a snapshot that is cut off."
)
# Of the program, whichever command it runs.
ALL_EXIT_CODES = EXIT_CODES.replace(
    "0 fine,", "0 fine, 1 a finding (gate, simulate --total-memory, leaks --fail, --strict),"
).replace("that is cut off.", "that is cut off, 5 nothing to be told (steps, leaks).")
# Of commands that have --strict.
STRICT_EXIT_CODES = EXIT_CODES.replace("0 fine,", "0 fine, 1 untrusted numbers (--strict),")
# Of commands that look at what not every file has.
TELLING_EXIT_CODES = STRICT_EXIT_CODES.replace(
    "that is cut off.", "that is cut off, 5 no answer: no steps, or too few."
)

EVERY = {
    2: "wrong usage",
    3: "not a readable snapshot",
    4: "a snapshot that is cut off",
}
"""What exit codes mean for every command."""
UNTRUSTED = "untrusted numbers (--strict)"


def exit_codes(own: Mapping[int, str], *, strict: bool) -> dict[int, str]:
    """What the exit codes of a command mean that only some commands have: `own`, and 1 for numbers
    that --strict doesn't let pass."""
    found = {0: "fine", **own}
    if strict:
        found[1] = f"{found[1]}, or {UNTRUSTED}" if 1 in found else UNTRUSTED
    return found


def exit_words(codes: Mapping[int, str]) -> str:
    """`Exit codes: 0 fine, 1 …`: a sentence for a command's help."""
    return f"Exit codes: {', '.join(f'{code} {words}' for code, words in sorted(codes.items()))}."
