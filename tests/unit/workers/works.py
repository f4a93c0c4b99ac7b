"""Functions that tests run on workers. They have their own module, which imports quickly."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path


class OddError(Exception):
    """An error that can't be unpickled, because it takes two arguments but passes on only one."""

    def __init__(self, text: str, held: object) -> None:
        super().__init__(text)
        self.held = held


class WordlessError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def square(number: int) -> int:
    return number * number


def mixed(number: int) -> tuple[int, str]:
    """Do a bit of work that may fail. The same number always fails in the same way."""
    chosen = random.Random(number)
    time.sleep(chosen.random() * 0.002)
    if chosen.random() < 0.1:
        raise ValueError(f"{number} is not to be done")
    return number, "x" * chosen.randrange(100_000 if number % 50 == 0 else 100)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_of_threes(number: int) -> int:
    if number % 10 == 3:
        die()
    return number


def dies_once(asked: tuple[str, int]) -> int:
    """Return the number. For some numbers, die at the first call, which a file records."""
    folder, number = asked
    flag = Path(folder, str(number))
    if number % 10 == 3 and not flag.exists():
        flag.touch()
        die()
    return number


def odd(kind: str) -> object:
    if kind == "lines":
        raise ValueError("one\ntwo\r\n\x1b[31mthree\x00")
    if kind == "unpicklable error":
        raise OddError("odd", lambda: None)
    if kind == "wordless":
        raise WordlessError
    if kind == "exit":
        sys.exit(3)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "unpicklable result":
        return lambda: None
    if kind == "long":
        raise ValueError("long " * 1000)
    if kind == "surrogate":
        raise OSError(2, "No such file", "\udc80\u202e.pickle")
    return kind


def takes(count: int) -> int:
    """Allocate this many bytes, at once if the number is even, otherwise little by little."""
    if count % 2 == 0:
        return len(bytearray(count))
    kept = [bytes(1000) for _ in range(count // 1000)]
    return len(kept) * 1000


def leaves_and_takes(count: int) -> int:
    """Keep the allocated memory, so that less is left for the next item."""
    LEFT.append(bytearray(count))
    return len(LEFT)


LEFT: list[bytearray] = []


def short_once(asked: tuple[str, int]) -> int:
    """Fail to allocate on the first call for a number, as if in another library; then succeed."""
    folder, number = asked
    first = Path(folder, str(number))
    if not first.exists():
        first.touch()
        raise MemoryError
    return number


def complains(number: int) -> int:
    """Print directly to file descriptor 2, if it's open, bypassing Python."""
    with suppress(OSError):
        os.write(2, b"complaint" * 10)
    return number


def who(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def notes_and_sleeps(asked: tuple[str, int]) -> None:
    """Write this process's ID, then stay busy for a long time."""
    folder, number = asked
    Path(folder, f"{number}.part").write_text(str(os.getpid()))
    Path(folder, f"{number}.part").rename(Path(folder, f"{number}.pid"))
    time.sleep(60)


def how_many_at_once(asked: tuple[str, bool]) -> int:
    """Return the number of other items in progress; an item that kills its worker first writes this
    number to a file.
    """
    folder, dies = asked
    mine = Path(folder, str(os.getpid()))
    mine.touch()
    time.sleep(0.02)
    count = sum(_lives(int(one.name)) for one in Path(folder).iterdir())
    if dies:
        Path(folder).with_name(f"{time.time_ns():020}").write_text(str(count - 1))
        die()
    mine.unlink()
    return count - 1


def prints(number: int) -> int:
    print("noise", number)
    return number


def _lives(number: int) -> bool:
    try:
        os.kill(number, 0)
    except OSError:
        return False
    return True


def shut(_: object) -> None:
    """Close all descriptors, like a careless daemon."""
    os.closerange(3, 100)


def first_ends(asked: tuple[str, int]) -> None:
    """Kill the first process once two others exist, which sleep."""
    folder, number = asked
    if number:
        notes_and_sleeps(asked)
    while len(list(Path(folder).glob("*.pid"))) < 2:
        time.sleep(0.01)
