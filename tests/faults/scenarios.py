"""The commands to disturb, with their inputs and outputs.

Interactive commands (`explore`, `mcp`) and commands that run another program (`record`, `dryrun`)
aren't included.
"""

from __future__ import annotations

import gzip
import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests import build

DATA = Path(__file__).parent.parent / "data"
OLD = b"what was there before\n" * 400


@dataclass(frozen=True)
class Scenario:
    """A command to run: `args`, with {in} and {out} for the two folders. `old` lists files that
    already exist in {out}, and `needs` the packages that it requires. `many`: it reads several
    files, and reports one that fails; `reports`: it writes an unreadable file's outcome as well;
    `appends`: it appends to existing output; `resumes`: it skips finished work; `early`: all calls
    are counted, not only those after the first file was opened; `once`: a second run is an error;
    `large`: it uses the large file.
    """

    name: str
    args: str
    old: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    stdin: str = ""
    exits: int = 0
    many: bool = False
    reports: bool = False
    appends: bool = False
    resumes: bool = False
    early: bool = False
    once: bool = False
    large: bool = False
    quick: bool = False
    env: tuple[tuple[str, str], ...] = ()

    @property
    def command(self) -> str:
        return self.args.split()[0]

    @property
    def is_possible(self) -> bool:
        return all(find_spec(one) for one in self.needs)


TABLES = ("events", "allocations", "stacks", "frames", "segments", "blocks", "annotations", "usage")
PARQUET = tuple(f"tables/{name}.parquet" for name in TABLES)
RANKED = tuple(f"set/{name}/rank={n}/r{n}.parquet" for name in ("events", "frames") for n in (0, 1))


def _file(name: str, args: str, out: str, needs: str = "", **more: bool | int) -> Scenario:
    """Return a scenario that replaces a file."""
    return Scenario(
        name,
        f"{args} -o {{out}}/{out} --force",
        (out,),
        tuple(needs.split()),
        **more,  # type: ignore[arg-type]
    )


SCENARIOS = (
    Scenario("peak", "peak {in}/plain.pickle", quick=True),
    # The large file needs memory blocks so large that malloc maps them.
    Scenario("peak of a large file", "peak {in}/large.pickle", large=True),
    Scenario(
        "slice of a large file", "export {in}/large.pickle -o {out}/a.pkl", large=True, once=True
    ),
    Scenario("peak of gzip, as JSON", "peak {in}/snap.pkl.gz --json --by category,file"),
    Scenario("peak of stdin", "peak -", stdin="plain.pickle", early=True),
    Scenario("summary", "summary {in}/snap.pkl.gz"),
    Scenario("summary of several", "summary {in}/ranks/r0.pkl.gz {in}/ranks/r1.pkl.gz", many=True),
    Scenario("report", "report {in}/snap.pkl.gz"),
    Scenario("diff", "diff {in}/snap.pkl.gz {in}/other.pkl.gz"),
    Scenario("diff of JSON", "diff {in}/base.json {in}/snap.pkl.gz"),
    Scenario("oom", "oom {in}/oom.pkl.gz"),
    Scenario("fragmentation", "fragmentation {in}/oom.pkl.gz"),
    Scenario("fits", "fits {in}/oom.pkl.gz"),
    Scenario("simulate, all settings", "simulate {in}/oom.pkl.gz --search settings"),
    Scenario("leaks", "leaks {in}/leaky.pkl.gz"),
    Scenario("steps", "steps {in}/leaky.pkl.gz --json"),
    Scenario("at", "at {in}/snap.pkl.gz end --list"),
    Scenario("timeline", "timeline {in}/snap.pkl.gz"),
    Scenario("allocations", "allocations {in}/snap.pkl.gz"),
    Scenario("rules", "peak {in}/snap.pkl.gz --rules"),
    Scenario("modules", "modules {in}/small.pickle"),
    Scenario("segments", "segments {in}/snap.pkl.gz"),
    Scenario("watch", "watch {in}/ranks --until now", many=True),
    Scenario("dump", "export {in}/small.pickle --format txt"),
    _file("dump into a file", "export {in}/small.pickle", "dump.txt"),
    _file("report into a file", "report {in}/snap.pkl.gz --format markdown", "report.md"),
    _file("slice", "export {in}/plain.pickle --to 1000", "part.pickle", quick=True),
    _file("slice, compressed", "export {in}/snap.pkl.gz --to 1000", "part.pkl.xz"),
    Scenario("slice, anew", "export {in}/snap.pkl.gz --from 0 -o {out}/part.json", once=True),
    _file("convert", "export {in}/snap.pkl.gz", "copy.pickle"),
    _file("convert into JSON", "export {in}/plain.pickle", "copy.json.gz"),
    _file("convert, zstd", "export {in}/plain.pickle", "copy.pkl.zst", "zstandard"),
    Scenario(
        "convert, refused", "export {in}/plain.pickle -o {out}/copy.pkl", ("copy.pkl",), exits=2
    ),
    Scenario(
        "gate base",
        "gate {in}/snap.pkl.gz --save-base {out}/base.json --force",
        ("base.json",),
    ),
    Scenario(
        "gate",
        "gate {in}/snap.pkl.gz --base {in}/base.json --max-growth 2% --write junit={out}/gate.xml"
        " --write sarif={out}/gate.sarif",
        ("gate.xml",),
        many=True,
        reports=True,
        env=(("GITHUB_STEP_SUMMARY", ""),),
    ),
    Scenario(
        "gate with a summary of GitHub",
        "gate {in}/snap.pkl.gz --max-peak 64GiB",
        ("summary.md",),
        many=True,
        appends=True,
        env=(("GITHUB_STEP_SUMMARY", "{out}/summary.md"),),
    ),
    Scenario("gate of ranks", "gate {in}/ranks --max-peak 1MiB --workers 2", exits=1, many=True),
    _file("timeline, CSV", "timeline {in}/snap.pkl.gz --format csv", "time.csv"),
    _file("timeline, SVG", "timeline {in}/snap.pkl.gz --by file", "time.svg", "matplotlib"),
    _file(
        "fragmentation, SVG", "fragmentation {in}/oom.pkl.gz --format svg", "map.svg", "matplotlib"
    ),
    Scenario(
        "simulate",
        "simulate {in}/oom.pkl.gz -o {out}/sim.pkl --force",
        ("sim.pkl",),
    ),
    _file("view", "view {in}/snap.pkl.gz", "page.html"),
    _file("view of two", "view {in}/snap.pkl.gz {in}/other.pkl.gz", "page.html"),
    _file("view of ranks", "view {in}/ranks", "page.html", many=True, reports=True),
    _file("export, Perfetto", "export {in}/snap.pkl.gz", "trace.perfetto-trace"),
    _file("export, Chrome", "export {in}/snap.pkl.gz --format chrome", "trace.json.gz"),
    _file("export, speedscope", "export {in}/snap.pkl.gz --format speedscope", "one.json"),
    _file("export, collapsed", "export {in}/snap.pkl.gz --format collapsed", "one.txt"),
    _file("export, pprof", "export {in}/snap.pkl.gz --format pprof", "one.pb.gz"),
    _file("export, timeline", "export {in}/snap.pkl.gz --format memory-timeline", "one.json"),
    _file("export, Parquet", "export {in}/snap.pkl.gz", "events.parquet", "pyarrow"),
    _file("export, Arrow", "export {in}/snap.pkl.gz", "events.arrow", "pyarrow"),
    _file("export, CSV", "export {in}/small.pickle", "events.csv", "pyarrow"),
    _file("export, NDJSON", "export {in}/small.pickle", "events.ndjson", "pyarrow"),
    Scenario(
        "export, folder",
        "export {in}/snap.pkl.gz -o {out}/tables/ --force",
        (*PARQUET[:3], "tables/theirs.txt"),
        ("pyarrow",),
    ),
    Scenario(
        "export, new folder",
        "export {in}/small.pickle --format csv -o {out}/tables/",
        needs=("pyarrow",),
        once=True,
    ),
    Scenario(
        "export, dataset",
        "export {in}/ranks/r0.pkl.gz {in}/ranks/r1.pkl.gz"
        " --tables events,frames -o {out}/set/ --force",
        RANKED[:3],
        ("pyarrow",),
        many=True,
    ),
    Scenario("fleet", "fleet {in}/ranks --workers 1", many=True),
    Scenario(
        "fleet, page",
        "fleet {in}/ranks --workers 1 --write html={out}/page.html --force",
        ("page.html",),
        many=True,
        reports=True,
    ),
    Scenario(
        "fleet, dataset",
        "fleet {in}/ranks --workers 1 --tables events -o {out}/set",
        (),
        ("pyarrow",),
        many=True,
        resumes=True,
    ),
    Scenario(
        "sql",
        # The query has no spaces, because arguments are split at spaces.
        "sql {in}/small.pickle -o {out}/rows.csv --force select\tcount(*)\tfrom\tevents",
        ("rows.csv",),
        ("duckdb", "pyarrow"),
    ),
)
QUICK = tuple(one for one in SCENARIOS if one.quick)


def inputs(folder: Path, *, large: bool) -> None:
    """Create the snapshots that the scenarios read, one of them large."""
    folder.mkdir(parents=True)
    (folder / "ranks").mkdir()
    example = DATA / "transformer_step.pkl.gz"
    other = DATA / "transformer_deeper.pkl.gz"
    shutil.copy(example, folder / "snap.pkl.gz")
    shutil.copy(other, folder / "other.pkl.gz")
    shutil.copy(example, folder / "ranks/r0.pkl.gz")
    shutil.copy(other, folder / "ranks/r1.pkl.gz")
    shutil.copy(DATA / "serving_oom.pkl.gz", folder / "oom.pkl.gz")
    shutil.copy(DATA / "leaky_training.pkl.gz", folder / "leaky.pkl.gz")
    (folder / "plain.pickle").write_bytes(gzip.decompress(example.read_bytes()))
    small = DATA / "recorded_gpt.pkl.gz"
    (folder / "small.pickle").write_bytes(gzip.decompress(small.read_bytes()))
    if large:
        (folder / "large.pickle").write_bytes(_large())


def _large() -> bytes:
    made = build.SnapshotBuilder()
    for at in range(400_000):
        made.alloc(0x1000 + 512 * at, at, frames=[("f", "x.py", at % 1000)])
    return build.dump(made.build())


def before(scenario: Scenario, folder: Path) -> None:
    """Fill the output folder with the scenario's old files, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in scenario.old:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(OLD)


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files in a folder by name, without empty folders."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found
