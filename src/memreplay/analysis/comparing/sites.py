"""Match the functions of two snapshots, even if paths, files or names changed.

A site is a function in a file. Sites that only one side has are looked for on the other side: first
the file, under another root or name; then the function, in another file or under another name in
the same file. A match needs a single best candidate.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from memreplay.analysis.code.plumbing import LIBRARY, file_rank

Site = tuple[str, str]  # (file, function)
Calls = dict[Site, set[Site]]  # maps each site to its callers
LinesOf = Mapping[Site, set[int]]  # maps each site to its known lines

# Maximum number of files to compare pairwise if they have the same name or exist on one side only.
MOST_OF_A_NAME = 64
_ALIKE = 0.5  # minimum share of functions that the two versions of a renamed file have in common

# Generated files whose names change in each run.
_GENERATED = (
    (re.compile(r"^.*[/\\]torchinductor_[^/\\]*[/\\].*$"), "<torchinductor>"),
    (re.compile(r"^<eval_with_key>\.\d+.*$"), "<eval_with_key>"),
    (re.compile(r"^<(ipython-input|stdin|string)-\d+-\w+>$"), r"<\1>"),
    (re.compile(r"^(.*[/\\])ipykernel_\d+([/\\].*)$"), r"\1ipykernel\2"),
)


def same_sites(
    base: Iterable[Site],
    new: Iterable[Site],
    calls: Callable[[], tuple[Calls, Calls]],
    lines: tuple[LinesOf, LinesOf] | None = None,
) -> tuple[dict[Site, Site], dict[Site, Site]]:
    """Return canonical names for the sites of each side. The same code has the same name on both
    sides.

    `calls` returns each side's callers, and is only called if these are needed. `lines`: recorded
    lines. If a file's other functions are still at the same lines, a renamed function must be at
    the same line, too.
    """
    ours, theirs = ({site: site for site in side} for side in (base, new))
    for names in (ours, theirs):
        _rename_files(names, {file: unnumbered(file) for file in {file for file, _ in names}})
    _level_names(ours, theirs)
    files = align_paths({file for file, _ in ours.values()}, {file for file, _ in theirs.values()})
    _rename_files(theirs, files)
    _rename_files(theirs, _same_content(set(ours.values()), set(theirs.values())))
    # First match functions that moved to another file, then functions renamed within a file. If
    # several functions were renamed, match those with the same callers.
    for key in ("function", "file", "callers"):
        lost, found = set(ours.values()), set(theirs.values())
        lost, found = lost - found, found - lost
        if not lost or not found:
            break
        callers: Calls = {}
        if key == "callers":
            for called, names, some in zip(calls(), (ours, theirs), (lost, found), strict=True):
                callers |= _called(called, names, some)
        before, after = _by_key(lost, key, callers), _by_key(found, key, callers)
        again = {
            after[at][0]: before[at][0]
            for at in before.keys() & after.keys()
            if len(before[at]) == len(after[at]) == 1
        }
        if lines is not None and key != "function":
            of = _by_name_now(ours, lines[0]), _by_name_now(theirs, lines[1])
            again = {
                name: old
                for name, old in again.items()
                if of[0][old] & of[1][name] or not _stood(name[0], *of)
            }
        for site, name in theirs.items():
            theirs[site] = again.get(name, name)
    return ours, theirs


def _by_name_now(names: dict[Site, Site], lines: LinesOf) -> dict[Site, set[int]]:
    """Return the lines of each function, by canonical name."""
    found: dict[Site, set[int]] = defaultdict(set)
    for site, name in names.items():
        found[name].update(lines[site])
    return found


def _stood(file: str, base: LinesOf, new: LinesOf) -> bool:
    """Return whether most lines stayed in place, in the functions that both versions of a file
    have.
    """
    same = ours = theirs = 0
    for site, before in base.items():
        if site[0] == file and site in new:
            same += len(before & new[site])
            ours, theirs = ours + len(before), theirs + len(new[site])
    return 2 * same > min(ours, theirs)


def unnumbered(file: str) -> str:
    """Return a file name without the parts that vary from run to run (for generated code)."""
    for pattern, name in _GENERATED:
        file = pattern.sub(name, file)
    return file


def _level_names(ours: dict[Site, Site], theirs: dict[Site, Site]) -> None:
    """Treat `Block.forward` and `forward` as equal if only one side has class names."""
    sides = [any(_qualified(site) for site in names.values()) for names in (ours, theirs)]
    if sides[0] is not sides[1]:
        for names in (ours, theirs):
            for site, name in names.items():
                if _qualified(name):
                    names[site] = name[0], name[1].rpartition(".")[2]


def _qualified(site: Site) -> bool:
    return site[0].endswith(".py") and "." in site[1]


def _rename_files(names: dict[Site, Site], files: dict[str, str]) -> None:
    for site, (file, function) in names.items():
        if files.get(file, file) != file:
            names[site] = files[file], function


def _called(calls: Calls, names: dict[Site, Site], some: set[Site]) -> Calls:
    """Return the callers of some sites, all by canonical name."""
    found: Calls = {site: set() for site in some}
    for site, callers in calls.items():
        if names[site] in some:
            found[names[site]].update(names[one] for one in callers)
    return found


def _by_key(sites: set[Site], key: str, callers: Calls) -> dict[Hashable, list[Site]]:
    """Group sites by what must be equal for them to match. Leave out sites without a file or
    function.
    """
    found: dict[Hashable, list[Site]] = defaultdict(list)
    for site in sites:
        # Leave out plumbing, because all C++ functions may be in "??" or in one library.
        if site[0] and site[1] and (key == "function" or file_rank(site[0]) <= LIBRARY):
            at: dict[str, Hashable] = {
                "function": site[1],
                "file": site[0],
                "callers": (site[0], frozenset(callers.get(site, ()))),
            }
            found[at[key]].append(site)
    return found


def _same_content(base: set[Site], new: set[Site]) -> dict[str, str]:
    """Match renamed files, which are those with mostly the same functions."""
    ours, theirs = _functions(base), _functions(new)
    lost = sorted(ours.keys() - theirs.keys())[:MOST_OF_A_NAME]
    found = sorted(theirs.keys() - ours.keys())[:MOST_OF_A_NAME]
    candidates = []
    for old in lost:
        for path in found:
            both = len(ours[old] & theirs[path])
            if both and both >= _ALIKE * len(ours[old] | theirs[path]):
                candidates.append((both, old, path))
    candidates.sort(key=lambda one: (-one[0], one[1], one[2]))
    return _taken_once((old, path) for _, old, path in candidates)


def _functions(sites: set[Site]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for file, function in sites:
        if function:
            found[file].add(function)
    return found


def _taken_once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a mapping from new to old names that uses each name only once."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for old, path in pairs:
        if path not in found and old not in taken:
            found[path] = old
            taken.add(old)
    return found


def align_paths(base: set[str], new: set[str]) -> dict[str, str]:
    """Return a mapping from new to base paths, for renamed or moved files.

    Only considers paths that one side has, and matches files with the same name. The longest common
    suffix wins; in a tie, the pair of roots that most files agree on.
    """
    only_base = _by_name(base - new)
    only_new = _by_name(new - base)
    candidates = []
    roots: Counter[tuple[tuple[str, ...], tuple[str, ...]]] = Counter()
    for name in only_base.keys() & only_new.keys():
        for old, a in only_base[name]:
            for path, b in only_new[name]:
                same = _common_end(a, b)
                root = a[: len(a) - same], b[: len(b) - same]
                roots[root] += 1
                candidates.append((same, root, old, path))
    candidates.sort(key=lambda one: (-one[0], -roots[one[1]], one[2], one[3]))
    return _taken_once((old, path) for _, _, old, path in candidates)


def _by_name(paths: Iterable[str]) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Group paths, with their components, by file name. Windows paths are supported."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for path in sorted(paths):
        parts = tuple(path.replace("\\", "/").split("/"))
        name = parts[-1]
        if name and name != "??" and len(found[name]) < MOST_OF_A_NAME:
            found[name].append((path, parts))
    return found


def _common_end(a: Sequence[str], b: Sequence[str]) -> int:
    same = 0
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if x != y:
            break
        same += 1
    return same
