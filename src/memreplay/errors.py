"""Every error that memreplay raises on purpose, each with the exit code a command ends with."""

from __future__ import annotations

from memreplay.texts import clean


class MemreplayError(Exception):
    """Base of all errors raised on purpose; `str()` of one is a single clear line."""

    exit_code = 2

    def __str__(self) -> str:
        """The words, in one line; names in them are somebody's, and do nothing where they stand."""
        return clean(super().__str__())


class UsageError(MemreplayError):
    """The caller asked for something that cannot be (an unknown device, an event past the end)."""


class NothingToTellError(UsageError):
    """The input is fine, and has nothing of what the caller asked for: no steps, or too few."""

    exit_code = 5


class MissingExtraError(MemreplayError):
    """An optional package is needed; the message names the extra and says how to install it.

    Parameters
    ----------
    needs : str
        What needs which package.
    extra : str, optional
        The extra of memreplay that has the package.
    """

    def __init__(self, needs: str, extra: str = "") -> None:
        super().__init__(f"{needs}: {install_command(extra)}" if extra else needs)


def install_command(extra: str) -> str:
    """Return the command that installs what an extra needs, by the package's own metadata.

    It names the packages, so that it works for a checkout and a wheel as well as for a release.
    """
    # Where memreplay runs from a folder that was never installed, nothing says what it requires.
    needed = _requirements(extra) or [f"memreplay[{extra}]"]
    packages = " ".join(f"'{one}'" for one in needed)
    return f"pip install {packages} (the extra '{extra}')"


def _requirements(extra: str) -> list[str]:
    """Return what an extra requires, without what it takes from other extras by name."""
    import re  # late, as the next one: for a mistake only
    from importlib.metadata import PackageNotFoundError, requires

    try:
        listed = requires("memreplay") or ()
    except PackageNotFoundError:
        return []
    found = []
    for one in listed:
        package, _, marker = one.partition(";")
        if not re.search(rf"""extra == ["']{extra}["']""", marker):
            continue
        own = re.match(r"memreplay\[([\w,]+)\]", package)
        if own is None:
            found.append(package.strip())
        else:
            found += [one for other in own[1].split(",") for one in _requirements(other)]
    return found


class SnapshotError(MemreplayError):
    """The input is not a snapshot that can be read.

    Parameters
    ----------
    message : str
        What is wrong, without the place and the remedy.
    offset : int, optional
        Byte in the (decompressed) stream at which it was seen.
    opcode : str, optional
        Name of the pickle opcode there, as pickletools spells it.
    hint : str, optional
        What the user can do about it.
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        offset: int | None = None,
        opcode: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.opcode = opcode
        self.hint = hint

    def __str__(self) -> str:
        """`message (byte 1048573, BINUNICODE8); hint`, with the parts that are known."""
        place = []
        if self.offset is not None:
            place.append(f"byte {self.offset}")
        if self.opcode:
            place.append(self.opcode)
        text = self.message
        if place:
            text += f" ({', '.join(place)})"
        if self.hint:
            text += f"; {self.hint}"
        return clean(text)


class TruncatedError(SnapshotError):
    """The input ends in the middle: a dump that was cut off."""

    exit_code = 4


class UnsafePickleError(SnapshotError):
    """The pickle asks to import or to call something; nothing was executed."""


class LimitError(SnapshotError):
    """The input asks for more than a limit allows; the message names the limit."""
