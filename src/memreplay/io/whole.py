"""A file that gets its name when it is whole; what those left behind that never did is removed."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import BinaryIO

# The first number says since when this machine runs; older versions left it out, and had no
# locks.
_PART = re.compile(r"\.memreplay-(?:([0-9a-f]{8})-)?[0-9a-f]{12}\.part")
_UNKNOWN = "00000000"
_MOST = 10_000  # entries of a folder that are looked through
_HOUR_S = 3_600
_WEEK_S = 7 * 86_400
LOCK = "lock"  # of a folder that is a part


class Whole:
    """A file on its way to `path`: `part` is its name until `finish`.

    `many` others are written into the same folder at the same time: of other machines none is
    looked at, as each of them would look at all. Unless it `sweeps`, what dead writers left is for
    somebody else to remove.

    A lock says that its writer lives, and ends with the process, however that ends. No error of
    `undo` is raised: what went wrong before it is what one wants to know.
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
        """The file to write to. Raises OSError."""
        folder = os.path.dirname(self.path)
        while self._file is None:
            self.part = os.path.join(folder, part_name())
            file = open(self.part, "xb")  # noqa: SIM115 - closed by `finish` and `undo`
            # A second number of the same file: the lock is held until that is closed, too.
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
        """Gives it its name, or one that `free` says, as `give_name` does; which. Raises
        OSError."""
        assert self._file is not None
        there = free is None and mode_of(self.path, follow_links=False) is not None
        if not self._file.closed:
            self._file.flush()
        if there:
            sync(self._held)
        self._file.close()
        if there:
            import shutil  # late: most commands write no file

            shutil.copymode(self.path, self.part)
        name = give_name(self.part, self.path, free)
        self.release()
        return name

    def undo(self) -> None:
        """There is none."""
        if self._file is not None:
            # RuntimeError: a signal came while it is written to, and this is its handler.
            with suppress(OSError, RuntimeError):
                self._file.close()
        if self.part:
            with suppress(OSError):
                os.unlink(self.part)
        self.release()

    @contextmanager
    def written(self) -> Iterator[BinaryIO]:
        """Begins it; finishes it at the end, or undoes it after an error. Raises OSError."""
        try:
            yield self.begin()
            self.finish()
        except BaseException:
            self.undo()
            raise

    def release(self) -> None:
        """The lock is given back."""
        held, self._held = self._held, -1
        if held >= 0:
            with suppress(OSError):
                os.close(held)


@contextmanager
def whole_file(
    path: str | os.PathLike[str], *, many: bool = False, sweeps: bool = True
) -> Iterator[BinaryIO]:
    """Writes a file: whole, or not at all. Raises OSError where that cannot be."""
    with Whole(path, many=many, sweeps=sweeps).written() as file:
        yield file


def give_name(part: str, path: str, free: Callable[[], str] | None = None) -> str:
    """Gives a whole file its name, in place of what has it; which name that is.

    With `free` it is a name that this says and nothing has yet: it is asked again while other
    processes, which look for one, too, are faster. Raises OSError.
    """
    while free is not None:
        name = free()
        try:
            os.link(part, name)
        except FileExistsError:
            continue
        except OSError:  # a disk without links
            path = name
            break
        os.unlink(part)
        return name
    os.replace(part, os.path.realpath(path))  # not a link to it
    return path


def mode_of(path: str, *, follow_links: bool = True) -> int | None:
    """What lies at a path, as `stat` says it; None where nothing does. Raises OSError where that
    cannot be told: nothing may be put there then, as something may be there."""
    try:
        return os.stat(path, follow_symlinks=follow_links).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def part_name() -> str:
    """A new name for what is not whole yet."""
    return f".memreplay-{_boot()}-{os.urandom(6).hex()}.part"


def hold(file: int, path: str) -> bool:
    """Takes the lock of a part that was just made; False where `remove_stale` of another process
    was faster, and removes it. On a disk without locks there is none."""
    return _locked(file) is not False and _is_still(file, path)


def sync(file: int) -> None:
    """Has a file on the disk before it takes the place of another; where a disk can do that."""
    import errno

    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise


def remove_stale(folder: str, now: float | None, own: str = "") -> None:
    """Removes the parts in a folder whose writers are gone. `now` is the time of its disk
    (None: only parts of this machine are looked at), `own` a part that is not looked at.

    A writer of this machine, since it was started, holds a lock as long as it lives: no lock, no
    writer. Others may be on other machines, where not every disk has the same locks; theirs go when
    nothing was written for a week. What belongs to another user stays, as does what is no part.
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
    if not os.path.lexists(lock):  # of a folder: before it was made, or when all else is removed
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
        from memreplay.io.whole_folder import remove_folder  # late: few leave folders

        remove_folder(path)
    else:
        os.unlink(path)


def _newest(path: str) -> float:
    """When something was last written to a file, or in a folder."""
    newest = os.lstat(path).st_mtime
    for where, folders, files in os.walk(path):
        for name in (*folders, *files):
            newest = max(newest, os.lstat(os.path.join(where, name)).st_mtime)
    return newest


def _locked(file: int) -> bool | None:
    """Takes the lock of an open file; False where another process has it, None where there are no
    locks."""
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
    """Whether this is the file of that name."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except FileNotFoundError:
        return False


def _boot() -> str:
    """Since when this machine runs, as a number; that of an unknown one where a system does not
    say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            said = file.read(8)
    except OSError:
        return _UNKNOWN
    return said if re.fullmatch("[0-9a-f]{8}", said) else _UNKNOWN
