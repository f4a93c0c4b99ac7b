"""What the tests let workers do: a module of its own, which workers load in no time."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path


class OddError(Exception):
    """No other process can load it: it takes two arguments, and tells one."""

    def __init__(self, text: str, held: object) -> None:
        super().__init__(text)
        self.held = held


class WordlessError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def square(number: int) -> int:
    return number * number


def mixed(number: int) -> tuple[int, str]:
    """A bit of work that may fail; the same for the same number."""
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
    """The first time, as a file tells."""
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
    """So many bytes, at once if that is even, else little by little."""
    if count % 2 == 0:
        return len(bytearray(count))
    kept = [bytes(1000) for _ in range(count // 1000)]
    return len(kept) * 1000


def leaves_and_takes(count: int) -> int:
    """What is taken stays, so that the next has less."""
    LEFT.append(bytearray(count))
    return len(LEFT)


LEFT: list[bytearray] = []


def short_once(asked: tuple[str, int]) -> int:
    """No memory the first time that it is asked for a number, as others have it; then enough."""
    folder, number = asked
    first = Path(folder, str(number))
    if not first.exists():
        first.touch()
        raise MemoryError
    return number


def complains(number: int) -> int:
    """On stderr, past Python, if there is one."""
    with suppress(OSError):
        os.write(2, b"complaint" * 10)
    return number


def who(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def notes_and_sleeps(asked: tuple[str, int]) -> None:
    """Write which process this is, and be busy for long."""
    folder, number = asked
    Path(folder, f"{number}.part").write_text(str(os.getpid()))
    Path(folder, f"{number}.part").rename(Path(folder, f"{number}.pid"))
    time.sleep(60)


def how_many_at_once(asked: tuple[str, bool]) -> int:
    """How many others are at work now; who is to kill its worker notes that before."""
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
    """Close all that is open, as a careless daemon does."""
    os.closerange(3, 100)


def first_ends(asked: tuple[str, int]) -> None:
    """The first ends as soon as two others are there, which sleep."""
    folder, number = asked
    if number:
        notes_and_sleeps(asked)
    while len(list(Path(folder).glob("*.pid"))) < 2:
        time.sleep(0.01)
