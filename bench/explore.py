"""Measure how fast `memreplay explore` responds: the first screen, many keys, and its memory.

Runs the command in a pseudo-terminal and presses random keys, each after the response to the
previous one, as a person would. Measures the time from the key to the last byte drawn. `memreplay
peak` runs on the same file in alternation, for comparison.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import random
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from typing import NamedTuple

# Keys that change the view. Keys that open a prompt or write files are left out.
KEYS = {
    "left": "\x1b[D", "right": "\x1b[C", "up": "\x1b[A", "down": "\x1b[B", "home": "\x1b[H",
    "end": "\x1b[F", "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "enter": "\r", "tab": "\t",
    **{one: one for one in ",.pPsSoOaA+-zx[]()JKmM12345bBtiHLjkhlgG*_EC{}c"},
}  # fmt: skip
QUIET_S = 0.05  # a response is complete when nothing has arrived for this long
FIRST_S = 120.0


class Answer(NamedTuple):
    """The response to one key: the seconds until its last byte (None without a response), and its
    size.
    """

    key: str
    seconds: float | None
    drawn: int


class Terminal:
    """A program in a pseudo-terminal of a given size."""

    def __init__(self, command: list[str], columns: int, lines: int) -> None:
        self.began = time.perf_counter()
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
            os.execvp(command[0], command)
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    def answer(self, at_most: float, *, wanted: bytes = b"") -> tuple[float | None, bytes]:
        """Read until the output pauses; return it and the time of its last byte. `wanted` must
        appear first.
        """
        found, last = b"", None
        end = time.perf_counter() + at_most
        while time.perf_counter() < end:
            done = wanted in found and bool(found or not wanted)
            ready, _, _ = select.select([self.screen], [], [], QUIET_S if done else 1.0)
            if ready:
                try:
                    part = os.read(self.screen, 1 << 20)
                except OSError:  # the process has ended
                    break
                if not part:
                    break
                found, last = found + part, time.perf_counter()
            elif done:
                break
        return last, found

    def press(self, name: str) -> Answer:
        """Press one key. The response ends when the program waits again and sends nothing more."""
        began = time.perf_counter()
        os.write(self.screen, KEYS[name].encode())
        found, last, idle, spent = 0, None, 0, -1
        while idle < 4 and time.perf_counter() - began < 20:
            ready, _, _ = select.select([self.screen], [], [], 0.005)
            if ready:
                found += len(os.read(self.screen, 1 << 20))
                last, idle = time.perf_counter(), 0
                continue
            now = self.spent()
            idle = idle + 1 if now == spent else 0
            spent = now
        return Answer(name, None if last is None else last - began, found)

    def spent(self) -> int:
        """Return the CPU time of the process's threads in nanoseconds."""
        total = 0
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            with (
                contextlib.suppress(FileNotFoundError),
                open(f"/proc/{self.pid}/task/{thread}/schedstat", encoding="ascii") as file,
            ):
                total += int(file.read().split()[0])
        return total // 100_000

    def resident_mib(self) -> float:
        """Return the memory the process holds now."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

    def quit(self) -> None:
        """Quit the program."""
        os.write(self.screen, b"q")
        self.answer(2.0)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.screen)


def peak(file: str, measure: str = "requested") -> tuple[float, float]:
    """Return the seconds that `peak` takes, and its peak memory in MiB."""
    began = time.perf_counter()
    done = subprocess.Popen(
        [sys.executable, "-m", "memreplay", "peak", file, "--measure", measure],
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(done.pid, 0)
    assert status == 0
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--size", default="160x50")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="only these keys")
    asked = parser.parse_args()
    columns, lines = map(int, asked.size.split("x"))
    command = [sys.executable, "-m", "memreplay", "explore", asked.file]
    firsts, peaks, base = [], [], 0.0
    for i in range(asked.rounds):
        seconds, base = peak(asked.file)
        peaks.append(seconds)
        terminal = Terminal(command, columns, lines)
        last, drawn = terminal.answer(FIRST_S, wanted=b"of the peak")
        if last is None or b"of the peak" not in drawn:
            sys.exit(drawn[-2000:].decode(errors="replace"))
        firsts.append(last - terminal.began)
        if i + 1 < asked.rounds:
            terminal.quit()
    least = terminal.resident_mib()
    pick = random.Random(asked.seed)
    answers = [terminal.press(pick.choice(asked.only or list(KEYS))) for _ in range(asked.keys)]
    most = terminal.resident_mib()
    terminal.quit()
    said = sorted(
        (one for one in answers if one.seconds is not None), key=lambda one: one.seconds or 0.0
    )
    times = [one.seconds * 1e3 for one in said if one.seconds is not None]
    print(f"{asked.file}, {columns} x {lines}")
    print(
        f"first screen {statistics.median(firsts):.2f} s, peak {statistics.median(peaks):.2f} s:"
        f" {statistics.median(f - p for f, p in zip(firsts, peaks, strict=True)):.2f} s more"
    )
    print(
        f"keys {len(answers)}, of which {len(times)} draw: median {statistics.median(times):.1f}"
        f" ms, 95 % {times[int(len(times) * 0.95)]:.1f}, worst {times[-1]:.1f} ({said[-1].key});"
        f" {statistics.median(one.drawn for one in said):,.0f} bytes a key, most"
        f" {max(one.drawn for one in said):,}"
    )
    worst: dict[str, float] = {}
    for one in said:
        worst[one.key] = max(worst.get(one.key, 0.0), (one.seconds or 0) * 1e3)
    slow = sorted(worst.items(), key=lambda item: -item[1])[:8]
    print("slowest", ", ".join(f"{key} {ms:.0f}" for key, ms in slow))
    _, blocks = peak(asked.file, "allocated")
    print(
        f"memory {least:.0f} MiB, {most:.0f} after the keys; peak {base:.0f}, of allocated bytes"
        f" {blocks:.0f}"
    )


if __name__ == "__main__":
    main()
