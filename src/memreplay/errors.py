"""Errors that memreplay raises on purpose, each with its exit code."""

from __future__ import annotations

from memreplay.texts import clean


class MemreplayError(Exception):
    """Base class of all errors raised on purpose. `str()` returns a single clear line.

    Parameters
    ----------
    message : str
        The problem, and what to do about it.
    brief : str, optional
        The problem in a few words; by default the message.
    """

    exit_code = 2

    def __init__(self, message: str = "", *, brief: str = "") -> None:
        super().__init__(message)
        self._brief = brief

    @property
    def brief(self) -> str:
        """The problem in a few words, without the remedy."""
        return clean(self._brief) or str(self)

    def __str__(self) -> str:
        """Return the message on one line, with untrusted names escaped."""
        return clean(super().__str__())


class UsageError(MemreplayError):
    """The request is invalid (e.g. an unknown device, or an event past the end)."""


class NothingToTellError(UsageError):
    """The input is valid but lacks the requested data. For example, it has no steps or too few."""

    exit_code = 5


class MissingExtraError(MemreplayError):
    """An optional package is missing. The message names the extra and says how to install it.

    Parameters
    ----------
    needs : str
        What needs the package.
    extra : str, optional
        The extra that installs the package.
    """

    def __init__(self, needs: str, extra: str = "") -> None:
        super().__init__(f"{needs}: {install_command(extra)}" if extra else needs)


def install_command(extra: str) -> str:
    """Return the command that installs an extra's requirements, taken from the package's metadata.

    The command lists packages, so it works for checkouts and wheels as well as releases.
    """
    # If memreplay runs from a folder and isn't installed, there's no metadata.
    needed = _requirements(extra) or [f"memreplay[{extra}]"]
    packages = " ".join(f"'{one}'" for one in needed)
    return f"pip install {packages} (the extra '{extra}')"


def _requirements(extra: str) -> list[str]:
    """Return an extra's own requirements, without those that come from other extras."""
    import re  # this and the next import are late, because only errors need them
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
    """The input isn't a readable snapshot.

    Parameters
    ----------
    message : str
        The problem, without location and remedy.
    offset : int, optional
        Position in the (decompressed) stream, in bytes.
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
        super().__init__(message, brief=message)
        self.message = message
        self.offset = offset
        self.opcode = opcode
        self.hint = hint

    def __str__(self) -> str:
        """Return `message (byte 1048573, BINUNICODE8); hint`, with the known parts."""
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
    """The input is truncated."""

    exit_code = 4


class UnsafePickleError(SnapshotError):
    """The pickle tries to import or call something; nothing was executed."""


class LimitError(SnapshotError):
    """The input exceeds a limit, which the message names."""
