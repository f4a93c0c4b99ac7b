"""Write files atomically, and remove partial files left by writers that were killed."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import BinaryIO

# The first number in the name identifies the machine's current boot. Older versions of memreplay
# omit that number and don't lock files.
_PART = re.compile(r"\.memreplay-(?:([0-9a-f]{8})-)?[0-9a-f]{12}\.part")
_UNKNOWN = "00000000"
_MOST = 10_000  # maximum number of folder entries to examine
_HOUR_S = 3_600
_WEEK_S = 7 * 86_400
LOCK = "lock"  # name of the lock file in an unfinished folder


class Whole:
    """A file written under the temporary name `part` and renamed to `path` by `finish`.

    The writer holds a lock until its process ends, for whatever reason. `many`: other files are
    written to the same folder at the same time. In this case, other machines' partial files are
    ignored, because otherwise every writer would examine all of them. With `sweeps`, partial files
    whose writers were killed are removed. `undo` doesn't raise errors, because that would hide the
    error that made it necessary.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, many: bool = False, sweeps: bool = True
    ) -> None:
        self.path = os.path.realpath(path)
        self._many = many
        self._sweeps = sweeps
        self.part = ""
        self._file: BinaryIO | None = None
        self._held = -1

    def begin(self) -> BinaryIO:
        """Create and return the temporary file. Raises OSError."""
        folder = os.path.dirname(self.path)
        while self._file is None:
            self.part = os.path.join(folder, part_name())
            file = open(self.part, "xb")  # noqa: SIM115 - closed by `finish` and `undo`
            # A duplicate of the descriptor keeps the lock after `file` is closed.
            try:
                self._held = os.dup(file.fileno())
            except OSError:
                file.close()
                raise
            if hold(self._held, self.part):
                self._file = file
            else:
                file.close()
                self.release()
        if self._sweeps:
            now = None if self._many else os.fstat(self._held).st_mtime
            remove_stale(folder, now, self.part)
        return self._file

    def finish(self, free: Callable[[], str] | None = None) -> str:
        """Rename the file to `path`, or to the name that `free` returns (see `give_name`).

        Returns the name. Raises OSError.
        """
        assert self._file is not None
        there = free is None and mode_of(self.path, follow_links=False) is not None
        if not self._file.closed:
            self._file.flush()
        if there:
            sync(self._held)
        self._file.close()
        if there:
            import shutil  # imported late, because most commands don't write files

            shutil.copymode(self.path, self.part)
        name = give_name(self.part, self.path, free)
        self.release()
        return name

    def undo(self) -> None:
        """Delete the temporary file, and release the lock."""
        if self._file is not None:
            # RuntimeError means that a signal handler called this while the file was being written
            # to.
            with suppress(OSError, RuntimeError):
                self._file.close()
        if self.part:
            with suppress(OSError):
                os.unlink(self.part)
        self.release()

    @contextmanager
    def written(self) -> Iterator[BinaryIO]:
        """Write the file in a `with` block; delete it if the block raises. Raises OSError."""
        try:
            yield self.begin()
            self.finish()
        except BaseException:
            self.undo()
            raise

    def release(self) -> None:
        """Release the lock."""
        held, self._held = self._held, -1
        if held >= 0:
            with suppress(OSError):
                os.close(held)


@contextmanager
def whole_file(
    path: str | os.PathLike[str], *, many: bool = False, sweeps: bool = True
) -> Iterator[BinaryIO]:
    """Write a file completely or not at all. Raises OSError."""
    with Whole(path, many=many, sweeps=sweeps).written() as file:
        yield file


def give_name(part: str, path: str, free: Callable[[], str] | None = None) -> str:
    """Rename a complete file to `path`, replacing any existing file, and return the name.

    With `free`, the file gets the name that `free` returns, under which nothing may exist yet. If
    another process takes that name first, `free` is called again. Raises OSError.
    """
    while free is not None:
        name = free()
        try:
            os.link(part, name)
        except FileExistsError:
            continue
        except OSError:  # the file system doesn't support links
            path = name
            break
        os.unlink(part)
        return name
    os.replace(part, os.path.realpath(path))  # follow links, so that the link itself isn't replaced
    return path


def mode_of(path: str, *, follow_links: bool = True) -> int | None:
    """Return a path's `st_mode`; None if nothing is there.

    Raises OSError if that can't be determined. In that case, nothing may be written to the path.
    """
    try:
        return os.stat(path, follow_symlinks=follow_links).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def part_name() -> str:
    """Return a new temporary name."""
    return f".memreplay-{_boot()}-{os.urandom(6).hex()}.part"


def hold(file: int, path: str) -> bool:
    """Lock a new partial file.

    Returns False if another process's `remove_stale` is removing it.

    Returns True if the file system doesn't support locks.
    """
    return _locked(file) is not False and _is_still(file, path)


def sync(file: int) -> None:
    """Flush a file to disk before it replaces another, if the file system supports it."""
    import errno

    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise


def remove_stale(folder: str, now: float | None, own: str = "") -> None:
    """Remove the partial files in a folder whose writers no longer exist.

    Parameters
    ----------
    folder : str
        Folder to clean.
    now : float or None
        The current time by the file system's clock; None to examine only this machine's partial
        files.
    own : str
        Partial file to leave alone.

    Writers on this machine lock a file as soon as they create it, so an unlocked file has no
    writer. Other machines' locks may not be visible, so their files are removed after a week
    without writes. Other users' files are kept.
    """
    try:
        with os.scandir(folder) as entries:
            names = [one.name for one in islice(entries, _MOST)]
    except OSError:
        return
    boot = _boot()
    for match in filter(None, map(_PART.fullmatch, names)):
        path = os.path.join(folder, match[0])
        is_ours = match[1] == boot != _UNKNOWN
        if path != own and (is_ours or now is not None):
            with suppress(OSError):
                _remove_if_stale(path, now or 0.0, is_ours)


def _remove_if_stale(path: str, now: float, is_ours: bool) -> None:
    status = os.lstat(path)
    is_folder = stat.S_ISDIR(status.st_mode)
    if not is_folder and not stat.S_ISREG(status.st_mode):
        return
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return
    lock = os.path.join(path, LOCK) if is_folder else path
    # an unfinished folder whose lock isn't created yet, or from which everything else was removed
    if not os.path.lexists(lock):
        age_s = time.time() - _newest(path) if is_ours else now - _newest(path)
        if age_s > (_HOUR_S if is_ours else _WEEK_S):
            _remove(path, is_folder)
        return
    if not is_ours and now - _newest(path) < _WEEK_S:
        return
    file = os.open(lock, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        locked = _locked(file)
        if locked is False or not _is_still(file, lock):
            return
        if locked is None and now - _newest(path) < _WEEK_S:
            return
        _remove(path, is_folder)
    finally:
        os.close(file)


def _remove(path: str, is_folder: bool) -> None:
    if is_folder:
        # imported late, because folders are rarely left behind
        from memreplay.io.whole_folder import remove_folder

        remove_folder(path)
    else:
        os.unlink(path)


def _newest(path: str) -> float:
    """Return when a file, or anything in a folder, was last modified."""
    newest = os.lstat(path).st_mtime
    for where, folders, files in os.walk(path):
        for name in (*folders, *files):
            newest = max(newest, os.lstat(os.path.join(where, name)).st_mtime)
    return newest


def _locked(file: int) -> bool | None:
    """Lock an open file.

    Returns False if another process has locked it, None if locks aren't supported.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_still(file: int, path: str) -> bool:
    """Return whether `path` still refers to this open file."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except FileNotFoundError:
        return False


def _boot() -> str:
    """Return an id for the machine's current boot; `_UNKNOWN` if the system doesn't have one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            said = file.read(8)
    except OSError:
        return _UNKNOWN
    return said if re.fullmatch("[0-9a-f]{8}", said) else _UNKNOWN
