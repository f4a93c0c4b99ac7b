"""The extension list, the compiler directives, and the switches that the environment sets for them.

MEMREPLAY_DEBUG=1      bounds checks and debug symbols, no optimisation
MEMREPLAY_SANITIZE=1   AddressSanitizer and UndefinedBehaviorSanitizer; a list of folders of the
                       engine ("base,read") for these alone; "guided" for clang, with what
                       libFuzzer follows; "thread": ThreadSanitizer
MEMREPLAY_COVERAGE=1   for gcov, of which ci/native_coverage.py makes lines of .pyx and .pxd files
MEMREPLAY_PORTABLE=1   plain C11 in place of what one compiler or one system has, to test it
MEMREPLAY_NATIVE=0     no extensions: for an editable install whose native modules
                       `build_ext --inplace` makes: pip would make all of them, one by one
MEMREPLAY_STABLE_ABI=0 for this Python alone: by default, a build by 3.11 or later is good for all
                       that follow (those without a GIL have no such ABI yet)
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def switched(name: str, otherwise: str = "0") -> bool:
    return os.environ.get(f"MEMREPLAY_{name}", otherwise) not in ("", "0")


DEBUG, SANITIZE, COVERAGE = switched("DEBUG"), switched("SANITIZE"), switched("COVERAGE")
PORTABLE = switched("PORTABLE")
THREADS = os.environ.get("MEMREPLAY_SANITIZE") == "thread"
# The first Python whose stable ABI has buffers, of which columns are made (PEP 384, PEP 688's
# Py_buffer): what is built with it is good for each later one.
STABLE = (3, 11)
STABLE_ABI = (
    switched("STABLE_ABI", "1")
    and not (DEBUG or COVERAGE)
    and sys.version_info >= STABLE
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
    and platform.python_implementation() == "CPython"
)
# Where PyTorch has a CUDA build; none is loaded beside ThreadSanitizer.
DRYRUN = (
    not THREADS
    and sys.platform == "linux"
    and platform.machine() in ("x86_64", "aarch64")
    and platform.libc_ver()[0] == "glibc"
)

# Python's own flags ask for debug symbols: a third of the compiler's time and most of a wheel.
compile_args = ["-O0", "-g3"] if DEBUG else ["-O3", "-g0"]
if os.name == "posix":  # Python's own flags ask for it, and C that Cython makes mixes both
    compile_args += ["-Wno-sign-compare"]
standard = ["-std=c11"] if PORTABLE and os.name == "posix" else []
if PORTABLE:  # -O1 compiles in half of the time
    compile_args = [*compile_args, "-O1", *standard]
link_args: list[str] = []
if COVERAGE:
    compile_args, link_args = ["-O0", "-g1", "-Wno-sign-compare", "--coverage"], ["--coverage"]
flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
if THREADS:
    flags = ["-fsanitize=thread"]
# -O1 keeps all checks and compiles in a third of the time; lines are all that reports need.
sanitized = ["-O1", "-g1", *standard, *flags, "-fno-omit-frame-pointer"], [*link_args, *flags]
sanitized[0].append("-Wno-sign-compare")
GUIDED = os.environ.get("MEMREPLAY_SANITIZE") == "guided"
# Memory can be made to fail, for tests.
HOOKS = "tests/faults/memory.h"
hooked = ["-include", HOOKS]
if SANITIZE and not (GUIDED or THREADS):
    compile_args += hooked
    sanitized[0].extend(hooked)
if GUIDED:
    # Of what clang calls an overflow most is nothing added to no pointer; gcc's build has the rest.
    sanitized[0].extend(["-fsanitize=fuzzer-no-link", "-fno-sanitize=pointer-overflow"])


def compiler_flags(source: Path) -> list[str]:
    """Those of one module."""
    asked = os.environ.get("MEMREPLAY_SANITIZE", "").split(",")
    if THREADS or (SANITIZE and (GUIDED or "1" in asked or source.parent.name in asked)):
        return sanitized[0]
    # What Python calls, for the most part: the loops are in the modules below, where -O3 pays.
    if source.name.startswith("_") or source.stem == SHARED.rpartition(".")[2]:
        return [flag if flag != "-O3" else "-O2" for flag in compile_args]
    return compile_args


directives = {
    "language_level": 3,
    "binding": True,
    "boundscheck": DEBUG,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": DEBUG,
    "embedsignature": True,
    "freethreading_compatible": True,
}

# What Cython would write into each module that needs it, memoryviews above all: once for all of
# them it is half of what the compiler reads.
SHARED = "memreplay.engine.base.utility"

# Of libraries that get another name: its length is the most that one may have.
LONG_NAME = "memreplay_name_" + 50 * "_"
BARE = ["-nostartfiles", "-nostdlib", "-Wl,--hash-style=sysv"]

sources = sorted(Path("src/memreplay").rglob("*.pyx"))
# All modules in one library, which starts faster than one for each: engine/__init__.py finds them.
library = Extension(
    "memreplay._core",
    [path.as_posix() for path in sources],
    extra_link_args=sanitized[1] if SANITIZE else link_args,
    py_limited_api=STABLE_ABI,
)

# What stands for a card that is not there, for dry runs: no Python in it. `_gpu` answers what a
# program asks of the runtime and the driver, the others get other names before each run.
GPU = Path("src/memreplay/dryrun/gpu")
# Named one by one: a source distribution that lacks one cannot be built.
CARD = (
    "addresses",
    "arrivals",
    "calls",
    "card",
    "collectives",
    "compiled",
    "contents",
    "cudnn",
    "fourier",
    "host",
    "images",
    "kernels",
    "libraries",
    "messages",
    "places",
    "reads",
    "recording",
    "recurrent",
    "solver",
    "sparse",
    "streams",
    "tensors",
    "touched",
    "trace",
    "unknown",
    "virtual",
)
HEADERS = ("arrivals", "gpu", "messages", "tensors", "unknown")
dryrun = [
    Extension(
        f"memreplay.dryrun.{name}",
        [path.as_posix() for path in c_sources],
        depends=[(GPU / f"{header}.h").as_posix() for header in HEADERS],
        define_macros=macros,
        extra_compile_args=["-O2", "-g0", "-fvisibility=hidden"],
        extra_link_args=[f"-Wl,-soname,{soname}", *more],
        py_limited_api=STABLE_ABI,
    )
    for name, soname, c_sources, macros, more in (
        (
            "_gpu",
            "libmemreplay_gpu.so",
            [GPU / f"{name}.c" for name in CARD],
            [],
            ["-lpthread", "-ldl"],
        ),
        # The longest names that fit, and the table of names that dryrun/elf.py makes anew.
        ("_unanswered", LONG_NAME, [GPU / "unanswered.c"], [], BARE),
        ("_thin", LONG_NAME, [GPU / "unanswered.c"], [("THIN", "1")], BARE),
    )
]

MACROS: list[tuple[str, str | None]] = []
if STABLE_ABI:
    MACROS.append(("Py_LIMITED_API", f"0x{STABLE[0]:02x}{STABLE[1]:02x}0000"))
if PORTABLE:
    MACROS.append(("MEMREPLAY_PORTABLE", "1"))

# Debug needs C code of its own; kept apart, so that no mode takes another's.
c_folder = "build/c-" + ("debug" if DEBUG else "release")
# Of the same C code, object files of their own.
object_folder = "-".join(["stable" if STABLE_ABI else "one", *(["portable"] if PORTABLE else [])])

PROCESSES = os.cpu_count() or 1

# Cython in processes of its own, which begin on any platform; each makes C of some modules.
CYTHONIZE = """
import json, sys
from Cython.Build import cythonize
cythonize(**json.loads(sys.argv[1]), quiet=True)
"""


def cache_folder() -> str | bool:
    """Where the C code of earlier builds is, by what it is made of; False where nobody wants any.

    Cython looks for a header that a module was made with as cythonize() does, and misses the same
    ones: each set of headers has a folder of its own.
    """
    if "CYTHON_CACHE_DIR" not in os.environ:
        return False
    headers = sha256()
    for path in sorted(Path("src/memreplay").rglob("*.pxd")):
        headers.update(path.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return os.path.join(os.environ["CYTHON_CACHE_DIR"], headers.hexdigest()[:16])


def in_c(path: Path) -> Path:
    """Where the C code of a module is."""
    return Path(c_folder, path.with_suffix(".c"))


def made_at(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0


class Progress:
    """One line that grows by a number for each ten modules, in a log as on a terminal."""

    def __init__(self, steps: int) -> None:
        self.steps, self.done, self.lock = steps, 0, Lock()

    def add(self, count: int) -> None:
        """Counts what is done, and says so."""
        with self.lock:
            modules = "module" if self.steps == 1 else "modules"
            told = "" if self.done else f"compiling {self.steps} {modules}:"
            self.done += count
            if self.done == self.steps:
                told += " done\n"
            elif self.done % 10 == 0:
                told += f" {self.done}"
            sys.stderr.write(told)
            sys.stderr.flush()


class Compiled(build_ext):
    """Makes C of the .pyx files first: only a build needs it, metadata and an sdist do not."""

    def build_extension(self, extension: Extension) -> None:
        """One library, of whose sources several are compiled at once."""
        if extension is library:
            extension.extra_objects = sorted(self.modules())
            extension.depends, extension.sources = extension.extra_objects, []
        elif extension.name.endswith("._gpu"):
            compile_one = partial(
                self.compiled, flags=extension.extra_compile_args, headers=extension.depends
            )
            with ThreadPoolExecutor(PROCESSES) as pool:
                extension.extra_objects = list(pool.map(compile_one, extension.sources))
            extension.depends, extension.sources = extension.extra_objects, []
        elif extension.name.endswith("._thin"):  # it needs the first one, by that one's name
            first = self.get_ext_fullpath("memreplay.dryrun._gpu")
            extension.extra_link_args += ["-Wl,--no-as-needed", first]
        super().build_extension(extension)

    def build_extensions(self) -> None:
        # The second of two builds takes a tenth of the time.
        if "CC" not in os.environ and os.name == "posix" and shutil.which("ccache"):
            self.compiler.set_executable("compiler_so", ["ccache", *self.compiler.compiler_so])
        super().build_extensions()

    def modules(self) -> list[str]:
        """The object files of all modules: while one is compiled, C code of others is made."""
        # What a module includes Cython tells for itself, and misses `from package cimport module as
        # name`: whatever is older than the newest header is made again.
        newest = max(path.stat().st_mtime for path in Path("src/memreplay").rglob("*.pxd"))
        stale = [path for path in sources if made_at(in_c(path)) < max(newest, made_at(path))]
        # The largest first, so that no processor waits for one at the end, and several to a
        # process, as Cython takes half a second to start.
        stale.sort(key=os.path.getsize, reverse=True)
        batches = min(4 * PROCESSES, len(stale))
        progress = Progress(len(stale))
        with ThreadPoolExecutor(PROCESSES) as pool:
            dealt = [stale[at::batches] for at in range(batches)]
            running = [pool.submit(self.batch, paths, progress) for paths in dealt]
            running.append(pool.submit(self.utility))
            try:
                for one in as_completed(running):
                    one.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            # Of the others C code is there, but in another folder perhaps no object files.
            return [self.utility(), *pool.map(self.module, sources)]

    def batch(self, paths: list[Path], progress: Progress) -> None:
        """Makes C code and object files of some modules."""
        asked = {
            "module_list": [path.as_posix() for path in paths],
            "compiler_directives": directives,
            "include_path": ["src"],
            "build_dir": c_folder,
            "shared_utility_qualified_name": SHARED,
            "force": True,
            "cache": cache_folder(),
        }
        run([sys.executable, "-c", CYTHONIZE, json.dumps(asked)])
        for path in paths:
            os.utime(in_c(path))  # what comes out of a cache is older
            self.module(path)
            progress.add(1)

    def module(self, path: Path) -> str:
        """The object file of one module."""
        flags = compiler_flags(path)
        return self.compiled(str(in_c(path)), flags, [HOOKS] if HOOKS in flags else None)

    def utility(self) -> str:
        """The object file of what the modules share."""
        path = Path("src", *SHARED.split(".")).with_suffix(".pyx")  # which is none of ours
        source = in_c(path)
        if not source.exists():
            source.parent.mkdir(parents=True, exist_ok=True)
            made = f"--generate-shared={source.as_posix()}"
            run([sys.executable, "-m", "cython", "-3", "-Xfreethreading_compatible=True", made])
        return self.module(path)

    def compiled(self, source: str, flags: list[str], headers: list[str] | None = None) -> str:
        """The object file of one source; compiled if it is older than that or a header."""
        folder = os.path.join(self.build_temp, object_folder)
        (made,) = self.compiler.object_filenames([source], output_dir=folder)
        path = Path(made)
        if self.force or made_at(path) < max(map(os.path.getmtime, [source, *(headers or [])])):
            self.compiler.compile(
                [source],
                output_dir=folder,
                macros=MACROS,
                include_dirs=self.include_dirs,
                extra_postargs=flags,
            )
        return made


def run(command: list[str]) -> None:
    """Runs a part of the build; what it said is told where it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}")


setup(
    cmdclass={"build_ext": Compiled},
    ext_modules=[library, *(dryrun if DRYRUN else [])] if switched("NATIVE", "1") else [],
    options={"bdist_wheel": {"py_limited_api": f"cp{STABLE[0]}{STABLE[1]}"}} if STABLE_ABI else {},
)
