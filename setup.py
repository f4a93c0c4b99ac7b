"""List the extensions and their compiler directives. Environment variables change the build:

MEMREPLAY_DEBUG=1       bounds checks and debug symbols, no optimisation
MEMREPLAY_SANITIZE=1    AddressSanitizer and UndefinedBehaviorSanitizer. A list of the engine's
                        folders ("base,read") sanitizes only these; "guided" builds with clang and
                        instrumentation for libFuzzer; "thread" uses ThreadSanitizer.
MEMREPLAY_COVERAGE=1    coverage with gcov; ci/native_coverage.py maps it to .pyx and .pxd lines
MEMREPLAY_PORTABLE=1    plain C11 instead of compiler- or system-specific code, to test it
MEMREPLAY_NATIVE=0      no extensions: for an editable install, where pip would compile one module
                        after another; run `build_ext --inplace` instead
MEMREPLAY_STABLE_ABI=0  build only for this Python. By default, a build with 3.11 or later works for
                        all later versions, except free-threaded ones, which have no stable ABI yet.
"""

import json
import os
import platform
import shlex
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
# The first Python version whose stable ABI includes the buffer protocol (Py_buffer), which columns
# need. Extensions built with it work with every later version.
STABLE = (3, 11)
STABLE_ABI = (
    switched("STABLE_ABI", "1")
    and not (DEBUG or COVERAGE)
    and sys.version_info >= STABLE
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
    and platform.python_implementation() == "CPython"
)
# Tools that build for Pyodide set this variable: the target isn't this machine.
PYODIDE = "PYODIDE" in os.environ
# Only where PyTorch has a CUDA build. ThreadSanitizer builds don't load PyTorch.
DRYRUN = (
    not (THREADS or PYODIDE)
    and sys.platform == "linux"
    and platform.machine() in ("x86_64", "aarch64")
    and platform.libc_ver()[0] == "glibc"
)


def is_gcc() -> bool:
    """Return whether C is compiled with gcc itself; on macOS, `gcc` is clang."""
    if os.name != "posix":
        return False
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    told = subprocess.run(
        [*shlex.split(command), "--version"], capture_output=True, text=True, check=False
    )
    return "Free Software Foundation" in told.stdout


# Without -g0, Python's own flags add debug symbols, which take a third of the compile time and most
# of a wheel's size.
compile_args = ["-O0", "-g3"] if DEBUG else ["-O3", "-g0"]
if os.name == "posix":  # Python's own flags enable it, and Cython's C mixes signedness
    compile_args += ["-Wno-sign-compare"]
if is_gcc():
    # By default gcc lets a file grow by 40%. Past that, the loop that reads events would call the
    # functions it should inline, and take 6% more instructions.
    compile_args += ["--param=inline-unit-growth=100"]
standard = ["-std=c11"] if PORTABLE and os.name == "posix" else []
if PYODIDE:  # people download it: -O3 makes it larger, and no faster
    compile_args += ["-O2"]
if PORTABLE:  # -O1 takes half as long to compile
    compile_args = [*compile_args, "-O1", *standard]
link_args: list[str] = []
if COVERAGE:
    compile_args, link_args = ["-O0", "-g1", "-Wno-sign-compare", "--coverage"], ["--coverage"]
flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
if THREADS:
    flags = ["-fsanitize=thread"]
# -O1 keeps all checks and takes a third of the time to compile. Reports only need line numbers.
sanitized = ["-O1", "-g1", *standard, *flags, "-fno-omit-frame-pointer"], [*link_args, *flags]
sanitized[0].append("-Wno-sign-compare")
GUIDED = os.environ.get("MEMREPLAY_SANITIZE") == "guided"
# Tests use these hooks to make memory allocations fail.
HOOKS = "tests/faults/memory.h"
hooked = ["-include", HOOKS]
if SANITIZE and not (GUIDED or THREADS):
    compile_args += hooked
    sanitized[0].extend(hooked)
if GUIDED:
    # Most of what clang reports as pointer overflow is adding 0 to a null pointer. gcc's build
    # checks the rest.
    sanitized[0].extend(["-fsanitize=fuzzer-no-link", "-fno-sanitize=pointer-overflow"])


def compiler_flags(source: Path) -> list[str]:
    """Return one module's compiler flags."""
    asked = os.environ.get("MEMREPLAY_SANITIZE", "").split(",")
    if THREADS or (SANITIZE and (GUIDED or "1" in asked or source.parent.name in asked)):
        return sanitized[0]
    # These are mostly entry points that Python calls. The loops are in the other modules, where -O3
    # pays.
    if source.name.startswith("_") or source.stem == SHARED.rpartition(".")[2]:
        return [flag if flag != "-O3" else "-O1" for flag in compile_args]
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

# The utility code, mostly memoryviews, that Cython would otherwise write into each module that
# needs it. Sharing it halves what the compiler has to read.
SHARED = "memreplay.engine.base.utility"

# Libraries are built under this placeholder and renamed later. Its length is the maximum for the
# new name.
LONG_NAME = "memreplay_name_" + 50 * "_"
BARE = ["-nostartfiles", "-nostdlib", "-Wl,--hash-style=sysv"]

sources = sorted(Path("src/memreplay").rglob("*.pyx"))
# All modules are in one library, which loads faster than one library per module. engine/__init__.py
# finds them in it.
library = Extension(
    "memreplay._core",
    [path.as_posix() for path in sources],
    extra_link_args=sanitized[1] if SANITIZE else link_args,
    py_limited_api=STABLE_ABI,
)

# The libraries that replace a missing GPU in dry runs. They don't use Python. `_gpu` answers a
# program's calls to the runtime and the driver. The others are renamed before each run.
GPU = Path("src/memreplay/dryrun/gpu")
# Listed one by one, so that a source distribution with a missing file fails to build.
CARD = (
    "addresses",
    "arrivals",
    "calls",
    "card",
    "collectives",
    "compiled",
    "contents",
    "convolutions",
    "cudnn",
    "descriptors",
    "fourier",
    "host",
    "images",
    "kernels",
    "libraries",
    "malloc",
    "measured",
    "members",
    "messages",
    "nvml",
    "outside",
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
    "values",
    "virtual",
)
HEADERS = (
    "arrivals",
    "contents",
    "convolutions",
    "gpu",
    "members",
    "messages",
    "tensors",
    "unknown",
)
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
        # Built with the longest name that fits, and with the symbol name table that dryrun/elf.py
        # rewrites.
        ("_unanswered", LONG_NAME, [GPU / "unanswered.c"], [], BARE),
        ("_thin", LONG_NAME, [GPU / "unanswered.c"], [("THIN", "1")], BARE),
        # A module for the program's Python.
        ("_operators", "libmemreplay_operators.so", [GPU / "operators.c"], [], ["-ldl"]),
    )
]

MACROS: list[tuple[str, str | None]] = []
if STABLE_ABI:
    MACROS.append(("Py_LIMITED_API", f"0x{STABLE[0]:02x}{STABLE[1]:02x}0000"))
if PORTABLE:
    MACROS.append(("MEMREPLAY_PORTABLE", "1"))

# Debug builds need different C code, so they have their own folder.
c_folder = "build/c-" + ("debug" if DEBUG else "release")
# These builds share the C code but need separate object files.
object_folder = "-".join(["stable" if STABLE_ABI else "one", *(["portable"] if PORTABLE else [])])

PROCESSES = os.cpu_count() or 1

# Translates modules to C, in a separate process. cythonize() would take twice as long, because it
# follows each module's dependencies. So would the garbage collector, as Cython makes few cycles.
TRANSLATE = """
import gc, json, sys
from Cython.Compiler.Main import compile
gc.set_threshold(200_000, 50, 1000)
asked = json.loads(sys.argv[1])
for source, made in asked.pop("modules"):
    if compile(source, output_file=made, **asked).num_errors:
        sys.exit(1)
"""


def cached_c(path: Path) -> Path | None:
    """Return where to keep a module's C code for other builds, or None. It depends on the module,
    all headers and this file.
    """
    if "CYTHON_CACHE_DIR" not in os.environ:
        return None
    content = sha256()
    for part in (path, Path("setup.py"), *sorted(Path("src/memreplay").rglob("*.pxd"))):
        content.update(part.as_posix().encode() + b"\0" + part.read_bytes() + b"\0")
    return Path(os.environ["CYTHON_CACHE_DIR"], f"{content.hexdigest()[:32]}.c")


def in_c(path: Path) -> Path:
    """Return the path of a module's C code."""
    return Path(c_folder, path.with_suffix(".c"))


def made_at(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0


class Progress:
    """A line of progress, extended by a number after every ten modules, both in logs and on
    terminals.
    """

    def __init__(self, steps: int) -> None:
        self.steps, self.done, self.lock = steps, 0, Lock()

    def add(self, count: int) -> None:
        """Count a finished module, and print the progress."""
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
    """Compile the .pyx files to C first. Only builds need this; metadata and sdists don't."""

    def build_extension(self, extension: Extension) -> None:
        """Build one library, compiling several sources at once."""
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
        elif extension.name.endswith("._thin"):  # this links to the first library by name
            first = self.get_ext_fullpath("memreplay.dryrun._gpu")
            extension.extra_link_args += ["-Wl,--no-as-needed", first]
        super().build_extension(extension)

    def build_extensions(self) -> None:
        # With ccache, a second build takes a tenth of the time.
        if "CC" not in os.environ and os.name == "posix" and shutil.which("ccache"):
            self.compiler.set_executable("compiler_so", ["ccache", *self.compiler.compiler_so])
        super().build_extensions()

    def modules(self) -> list[str]:
        """Return all modules' object files; compiling C overlaps with translating other modules to
        C.
        """
        # Cython tracks what a module includes, but misses `from package cimport module as name`, so
        # retranslate every module that's older than the newest header.
        newest = max(path.stat().st_mtime for path in Path("src/memreplay").rglob("*.pxd"))
        stale = [path for path in sources if made_at(in_c(path)) < max(newest, made_at(path))]
        # Start with the largest, so that no processor sits idle at the end. Each process gets
        # several, because Cython takes half a second to start.
        stale.sort(key=os.path.getsize, reverse=True)
        batches = min(2 * PROCESSES, len(stale))
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
            # The other modules already have C code, but perhaps no object files in this folder.
            return [self.utility(), *pool.map(self.module, sources)]

    def batch(self, paths: list[Path], progress: Progress) -> None:
        """Translate some modules to C, and compile them."""
        kept = {path: cached_c(path) for path in paths}
        for path in paths:
            in_c(path).parent.mkdir(parents=True, exist_ok=True)
        anew = []
        for path, copy in kept.items():
            if copy is not None and copy.exists():
                shutil.copyfile(copy, in_c(path))
            else:
                anew.append(path)
        if anew:
            asked = {
                "modules": [(path.as_posix(), in_c(path).as_posix()) for path in anew],
                "compiler_directives": directives,
                "include_path": ["src"],
                "shared_utility_qualified_name": SHARED,
            }
            run([sys.executable, "-c", TRANSLATE, json.dumps(asked)])
        for path in paths:
            copy = kept[path]
            if copy is not None and path in anew:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(in_c(path), copy)
            self.module(path)
            progress.add(1)

    def module(self, path: Path) -> str:
        """Compile one module to an object file."""
        flags = compiler_flags(path)
        return self.compiled(str(in_c(path)), flags, [HOOKS] if HOOKS in flags else None)

    def utility(self) -> str:
        """Compile the code that the modules share."""
        path = Path("src", *SHARED.split(".")).with_suffix(".pyx")  # generated by Cython, not ours
        source = in_c(path)
        if not source.exists():
            source.parent.mkdir(parents=True, exist_ok=True)
            made = f"--generate-shared={source.as_posix()}"
            run([sys.executable, "-m", "cython", "-3", "-Xfreethreading_compatible=True", made])
        return self.module(path)

    def compiled(self, source: str, flags: list[str], headers: list[str] | None = None) -> str:
        """Return a source's object file; compile it if it's older than the source or a header."""
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
    """Run a build step; print its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}")


setup(
    cmdclass={"build_ext": Compiled},
    ext_modules=[library, *(dryrun if DRYRUN else [])] if switched("NATIVE", "1") else [],
    options={"bdist_wheel": {"py_limited_api": f"cp{STABLE[0]}{STABLE[1]}"}} if STABLE_ABI else {},
)
