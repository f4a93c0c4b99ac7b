"""The extension list, the compiler directives, and the switches that the environment sets for them.

MEMREPLAY_DEBUG=1      bounds checks and debug symbols, no optimisation
MEMREPLAY_SANITIZE=1   AddressSanitizer and UndefinedBehaviorSanitizer; a list of folders of the
                       engine ("base,read") for these alone
MEMREPLAY_COVERAGE=1   line tracing for coverage
MEMREPLAY_NATIVE=0     no extensions: for an editable install whose native modules
                       `build_ext --inplace` makes: pip would make all of them, one by one
"""

import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def switched(name: str, otherwise: str = "0") -> bool:
    return os.environ.get(f"MEMREPLAY_{name}", otherwise) not in ("", "0")


DEBUG, SANITIZE, COVERAGE = switched("DEBUG"), switched("SANITIZE"), switched("COVERAGE")
# Where PyTorch has a CUDA build.
DRYRUN = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")

# Python's own flags ask for debug symbols: a third of the compiler's time and most of a wheel.
compile_args = ["-O0", "-g3"] if DEBUG else ["-O3", "-g0"]
link_args: list[str] = []
flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
# -O1 keeps all checks and compiles in a third of the time; lines are all that reports need.
sanitized = ["-O1", "-g1", *flags, "-fno-omit-frame-pointer"], [*link_args, *flags]


def compiler_flags(source: Path) -> list[str]:
    """Those of one module."""
    asked = os.environ.get("MEMREPLAY_SANITIZE", "").split(",")
    if SANITIZE and ("1" in asked or source.parent.name in asked):
        return sanitized[0]
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
    "linetrace": COVERAGE,
}

# Of libraries that get another name: its length is the most that one may have.
LONG_NAME = "memreplay_name_" + 50 * "_"
BARE = ["-nostartfiles", "-nostdlib", "-Wl,--hash-style=sysv"]

sources = sorted(Path("src/memreplay").rglob("*.pyx"))
# All modules in one library, which starts faster than one for each: engine/__init__.py finds them.
library = Extension(
    "memreplay._core",
    [path.as_posix() for path in sources],
    extra_link_args=sanitized[1] if SANITIZE else link_args,
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

# Debug and coverage need C code of their own; kept apart, so that no mode takes another's.
c_folder = "build/c-" + "-".join(
    [name for name, on in (("debug", DEBUG), ("coverage", COVERAGE)) if on] or ["release"]
)

# Several modules at once where processes are forked: elsewhere each would run this file again.
forks = sys.platform == "linux" and sys.version_info < (3, 14)
PROCESSES = os.cpu_count() or 1


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


class Compiled(build_ext):
    """Makes C of the .pyx files first: only a build needs it, metadata and an sdist do not."""

    def build_extension(self, extension: Extension) -> None:
        if extension is not library:
            if extension.name.endswith("._thin"):  # it needs the first one, by that one's name
                first = self.get_ext_fullpath("memreplay.dryrun._gpu")
                extension.extra_link_args += ["-Wl,--no-as-needed", first]
            super().build_extension(extension)
            return
        # cythonize() does not follow `from package cimport module as name`: whatever is older than
        # the newest header is made again.
        headers = [path.stat().st_mtime for path in Path("src/memreplay").rglob("*.pxd")]
        made = [path.stat().st_mtime for path in Path(c_folder).rglob("*.c")]
        modules = cythonize(
            [
                Extension(".".join(path.with_suffix("").parts[1:]), [path.as_posix()])
                for path in sources
            ],
            compiler_directives=directives,
            include_path=["src"],
            build_dir=c_folder,
            nthreads=PROCESSES if forks else 0,
            force=bool(made) and max(headers) > min(made),
            cache=cache_folder(),
        )
        # The largest first, so that no processor waits for one at the end.
        in_c = sorted((one.sources[0] for one in modules), key=os.path.getsize, reverse=True)
        with ThreadPoolExecutor(PROCESSES) as pool:
            extension.extra_objects = sorted(pool.map(self.compiled, in_c))
        extension.depends, extension.sources = extension.extra_objects, []
        super().build_extension(extension)

    def compiled(self, source: str) -> str:
        """The object file of one module; compiled if it is older than its C code."""
        (made,) = self.compiler.object_filenames([source], output_dir=self.build_temp)
        path = Path(made)
        if self.force or not path.exists() or path.stat().st_mtime < os.path.getmtime(source):
            self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                macros=[("CYTHON_TRACE", "1")] if COVERAGE else [],
                include_dirs=self.include_dirs,
                extra_postargs=compiler_flags(Path(source)),
            )
        return made


setup(
    cmdclass={"build_ext": Compiled},
    ext_modules=[library, *(dryrun if DRYRUN else [])] if switched("NATIVE", "1") else [],
)
