"""Tests of recording/outside.py and ending.py: a process is recorded to its end, however it
ends.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memreplay.programs.starting import INSIDE
from memreplay.render.units import size
from tests.conftest import ROOT

TORCH = f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.unit.recording.stand_in import Torch
made = Torch()
made._queued = []
class Cuda:
    _queued_calls = made._queued
    started = False
    def __getattr__(self, name):
        return getattr(made.devices(True), name)
    def is_initialized(self):
        return self.started
    def init(self):
        self.started = True
        for call, _ in self._queued_calls:
            call()
made.cuda = Cuda()
cuda, xpu = made.cuda, made.xpu
made.init, made.take = made.cuda.init, made.memory.take
sys.modules["torch"] = made
"""


class Outside:
    """A folder with the fake torch, and the output of programs run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self.notes.mkdir()
        (folder / "tmp").mkdir()
        (folder / "torch.py").write_text(TORCH)

    def run(
        self, code: str, *, recorded: bool = True, **more: object
    ) -> subprocess.CompletedProcess[str]:
        """Run a program. `recorded`: as `memreplay record` does."""
        told = {"folder": str(self.notes), "path": str(self.folder / "snap.pickle"), **more}
        return subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ
            | ({"MEMREPLAY_RECORD": json.dumps(told)} if recorded else {})
            | {
                "TMPDIR": str(self.folder / "tmp"),
                "PYTHONPATH": os.pathsep.join([str(INSIDE), str(self.folder)]),
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def temporary(self) -> list[str]:
        """Return the names in the folder for temporary files."""
        return sorted(path.name for path in (self.folder / "tmp").iterdir())

    @property
    def events(self) -> dict[str, int]:
        """Return the number of events in each snapshot. A note has the snapshot's path."""
        found = {
            path.name: len(pickle.loads(path.read_bytes())["device_traces"][0])
            for path in self.folder.glob("*.pickle")
        }
        notes = {Path(path.read_text()).name for path in self.notes.iterdir()}
        assert notes <= set(found)
        return found


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path)


@pytest.mark.parametrize(
    "end, code",
    [
        ("", 0),
        ("sys.exit(4)", 4),
        ("os._exit(6)", 6),
        ("raise KeyError('own')", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_snapshot_is_written_however_the_program_ends(
    outside: Outside, end: str, code: int
) -> None:
    done = outside.run(f"import os, signal, sys, torch\ntorch.init()\ntorch.take()\n{end}")
    assert (done.returncode, outside.events) == (code, {"snap.pickle": 1}), done.stderr
    assert len(list(outside.notes.iterdir())) == 1
    assert ("Traceback" in done.stderr) == ("KeyError" in end)
    path = outside.folder / "snap.pickle"
    assert done.stderr.endswith(f"memreplay: wrote {path} ({size(path.stat().st_size)})\n")


def test_sigterm_during_the_write(outside: Outside) -> None:
    """The snapshot is written completely, then the signal ends the process."""
    done = outside.run(
        "import os, pickle, signal, torch\n"
        "torch.init()\n"
        "torch.take()\n"
        "dump = pickle.dump\n"
        "def slow(*args, **more):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    dump(*args)\n"
        "pickle.dump = slow"
    )
    assert (done.returncode, outside.events) == (-signal.SIGTERM, {"snap.pickle": 1}), done.stderr
    assert not list(outside.folder.glob("*.part"))


@pytest.mark.parametrize(
    "end, said",
    [
        ("", "wrote "),
        ("torch.run_out()", "out of memory: the snapshot of that moment, "),
        ("import os; os.rmdir('there')", "No such file or directory; wrote "),
    ],
)
def test_recording_that_is_never_closed_is_written(outside: Outside, end: str, said: str) -> None:
    """The recording then ends with the program."""
    (outside.folder / "there").mkdir()
    done = outside.run(
        "import memreplay, torch\n"
        "memreplay.record('there/own.pickle').__enter__()\n"
        f"torch.take()\n{end}"
    )
    assert done.returncode == ("run_out" in end), done.stderr
    assert said in done.stderr
    assert ("Traceback" in done.stderr) == ("run_out" in end)
    if "rmdir" in end:
        assert outside.temporary() == ["own.pickle.gz"]
    else:
        assert (outside.folder / "there" / "own.pickle").exists()


def test_out_of_memory_at_the_end_is_recorded(outside: Outside) -> None:
    done = outside.run("import torch\ntorch.init()\ntorch.take()\ntorch.run_out()")
    assert done.returncode == 1
    assert outside.events == {"snap.pickle": 1}
    assert "out of memory: the snapshot of that moment, " in done.stderr


def test_process_without_a_device_writes_nothing(outside: Outside) -> None:
    done = outside.run("import torch; print(1)")
    assert (done.stdout, done.stderr, outside.events) == ("1\n", "", {})
    done = outside.run("print(2)")
    assert (done.stdout, done.stderr, outside.events) == ("2\n", "", {})


def test_forked_child_writes_nothing(outside: Outside) -> None:
    done = outside.run(
        "import os, torch\ntorch.init()\nif os.fork():\n    os.wait()\nelse:\n    os._exit(0)"
    )
    assert (done.returncode, outside.events) == (0, {"snap.pickle": 0}), done.stderr


def test_target_python_needs_only_torch(outside: Outside) -> None:
    """memreplay is imported from its own installation, without its dependencies."""
    done = outside.run(
        "import sys\n"
        "for name in ('click', 'msgspec', 'numpy'):\n"
        "    sys.modules[name] = None\n"
        "import torch\n"
        "torch.init()\n"
        "torch.take()"
    )
    assert (done.returncode, outside.events) == (0, {"snap.pickle": 1}), done.stderr


def test_program_runs_even_if_it_cannot_be_recorded(outside: Outside) -> None:
    done = outside.run("import torch\ntorch.init()\nprint(3)", every=0)
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert done.stderr.startswith("memreplay: nothing is recorded: every: ")
    done = outside.run(
        "import sys\nsys.modules['memreplay'] = None\nimport torch\ntorch.init()\nprint(4)"
    )
    assert (done.returncode, done.stdout) == (0, "4\n")
    assert "this Python" in done.stderr
    assert outside.events == {}


# Lock a C mutex twice: the main thread then never runs Python code again, as in a collective.
BLOCKED = """
import ctypes, os, signal, threading, torch
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
"""
WAIT = """
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
libc.pthread_mutex_lock(mutex)
"""


def test_sigterm_is_handled_while_the_main_thread_waits_in_c(outside: Outside) -> None:
    done = outside.run(f"{BLOCKED}torch.init()\ntorch.take()\n{WAIT}")
    assert (done.returncode, outside.events) == (-signal.SIGTERM, {"snap.pickle": 1}), done.stderr


def test_signals_of_a_forked_child_do_not_end_its_parent(outside: Outside) -> None:
    """The child writes to the parent's socket, but the kernel says that it isn't the parent."""
    done = outside.run(
        "import os, signal, time, torch\n"
        "from memreplay.recording import ending\n"
        "torch.init()\n"
        "torch.take()\n"
        "_, sender = ending.shared().wakes\n"
        "if not os.fork():\n"
        "    os.write(sender.fileno(), bytes([signal.SIGTERM]))\n"
        "    os._exit(0)\n"
        "time.sleep(ending.PATIENCE_S + 1)\n"
        "print('survived')"
    )
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr
    assert outside.events == {"snap.pickle": 1}


@pytest.mark.parametrize(
    "end, code",
    [
        ("os._exit(6)", 6),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("recorder.stop(); os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_own_recording_is_written_however_the_program_ends(
    outside: Outside, end: str, code: int
) -> None:
    done = outside.run(
        "import memreplay, os, signal, torch\n"
        "recorder = memreplay.record('own.pickle').start()\n"
        f"torch.take()\n{end}",
        recorded=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.count("wrote own.pickle") == 1
    assert outside.events == {"own.pickle": 1}


def test_sigterm_has_its_default_action_again_after_the_recording(outside: Outside) -> None:
    done = outside.run(
        "import memreplay, signal, torch\n"
        "for number in range(3):\n"
        "    with memreplay.record('own.pickle', overwrite=True):\n"
        "        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL\n"
        "    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n"
        "    assert signal.set_wakeup_fd(-1) == -1",
        recorded=False,
    )
    assert done.returncode == 0, done.stderr


UNDONE = """
import atexit, gc, memreplay, os, signal, socket, threading, time, torch
end, threads = os._exit, threading.active_count()
for number in range(3):
    recorder = memreplay.record("own.pickle", overwrite=True).start()
    assert os._exit is not end
    torch.take()
    recorder.stop()
    assert os._exit is end
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    limit = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < limit:
        time.sleep(0.01)
    assert threading.active_count() == threads
    assert not [one for one in gc.get_objects() if type(one) is socket.socket and one.fileno() >= 0]
    assert atexit._ncallbacks() == before if number else True
    before = atexit._ncallbacks()
"""


def test_everything_is_undone_when_the_recording_stops(outside: Outside) -> None:
    done = outside.run(UNDONE, recorded=False)
    assert done.returncode == 0, done.stderr


LOOPED = """
import asyncio, memreplay, os, signal, torch
recorder = memreplay.record("own.pickle").start()
async def main():
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGUSR2):
        loop.add_signal_handler(number, print)
asyncio.run(main())
assert signal.set_wakeup_fd(-1) == -1
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
recorder.step()
torch.take()
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGTERM)", BLOCKED + WAIT])
def test_sigterm_is_handled_after_an_event_loop(outside: Outside, end: str) -> None:
    done = outside.run(f"{LOOPED}{end}", recorded=False)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert outside.events == {"own.pickle": 1}


TWICE = """
import memreplay, os, torch
torch.init() if INIT else None
with memreplay.record("own.pickle", every=1) as recorder:
    torch.take()
    recorder.step()
    torch.init()
    recorder.dump("now.pickle")
    assert recorder.recording and recorder.path == "own.pickle"
    assert len(recorder.snapshot()["device_traces"][0]) == 1
assert not recorder.recording
torch.take()
with memreplay.record("again.pickle", quiet=True):
    torch.take()
left = memreplay.record("left.pickle").start()
torch.take()
"""


@pytest.mark.parametrize("begun", [True, False])
def test_program_that_records_itself_shares_the_recording(outside: Outside, begun: bool) -> None:
    done = outside.run(TWICE.replace("INIT", str(begun)))
    assert done.returncode == 0, done.stderr
    assert outside.events == {
        "own.pickle": 1,
        "own.step-1.pickle": 1,
        "now.pickle": 1,
        "again.pickle": 3,
        "left.pickle": 4,
        "snap.pickle": 4,
    }
    assert done.stderr.count("memreplay record is recording already") == 1
    assert "Traceback" not in done.stderr


def test_program_may_use_the_same_name(outside: Outside) -> None:
    done = outside.run(
        "import memreplay, torch\n"
        "with memreplay.record('snap.pickle', overwrite=True):\n"
        "    torch.take()\n"
        "torch.take()",
        overwrite=True,
    )
    assert done.returncode == 0, done.stderr
    assert outside.events == {"snap.pickle": 1, "snap-1.pickle": 2}


def test_nothing_is_recorded_twice_without_a_device(outside: Outside) -> None:
    code = "import torch; torch.cuda = torch.devices(False); import memreplay\n"
    done = outside.run(f"{code}with memreplay.record('own.pickle'): pass")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nothing is recorded") == 1
