"""Describe findings and the overall result in one line each."""

from __future__ import annotations

from collections.abc import Sequence

from memreplay.analysis.code.naming import Name, name_of_frame
from memreplay.analysis.comparing.sides import PHASE_WORDS
from memreplay.gating.result import Cause, Finding, GatedFile
from memreplay.render.places import in_place, place_text
from memreplay.render.reasons import REASONS
from memreplay.render.units import count, counted, percent, signed_size, size
from memreplay.snapshot.model import Frame
from memreplay.texts import clean

NOTHING_RESERVED = "the file doesn't say what was reserved"
UNTRUSTED_HINT = "--allow-untrusted checks it anyway"


def headline(files: Sequence[GatedFile]) -> str:
    """Return `FAIL peak held 41.2 GiB > 38 GiB (+3.4 GiB since base; +3.1 GiB in forward
    model.py:212)`, or `PASS …` with the closest limit.

    Each finding has its message.
    """
    several = len(files) > 1
    errors = [one for one in files if one.error]
    failures = _worst_first(files)
    lines = [clean(f"{one.file}: {one.error}") for one in errors]
    lines += [_line(file, finding, several) for file, finding in failures]
    if lines:
        untold = sum(one.outcome == "not_judged" for _, one in failures[not errors :])
        more = len(lines) - 1 - untold
        more_words = _more(more, "more failed") + _more(untold, "more couldn't be checked")
        return f"FAIL {lines[0]}{more_words}"
    kept = [(file, one) for file in files for one in file.findings if one.limit_bytes]
    kept = [(file, one) for file, one in kept if one.outcome == "passed"]
    rest = [
        one
        for file in files
        for one in file.findings
        if one.outcome == "passed" and one.kind != "trust"
    ]
    skipped = [
        one
        for file in files
        for one in file.findings
        if one.outcome == "skipped" and one.kind != "trust"
    ]
    left = _more(len(skipped), "not judged")
    if kept:
        file, closest = max(kept, key=lambda one: _nearness(one[1]))
        return f"PASS {_line(file, closest, several)}{_more(len(rest) - 1, 'more passed')}{left}"
    if rest:
        words = ", ".join(dict.fromkeys(one.message for one in rest))
        return f"PASS {words}{left}"
    return f"PASS nothing to check{left}"


def _worst_first(files: Sequence[GatedFile]) -> list[tuple[GatedFile, Finding]]:
    """Return failures: first doubts, then broken limits, then undecided ones.

    For each limit, return the file and device that broke it by most.
    """
    failures = sorted(
        ((file, one) for file in files for one in file.findings if one.failed),
        key=lambda one: (one[1].kind != "trust", one[1].outcome == "not_judged"),
    )
    if not failures or failures[0][1].kind == "trust" or failures[0][1].outcome == "not_judged":
        return failures
    told = _budget(failures[0][1])
    worst = max((one for one in failures if _budget(one[1]) == told), key=_excess)
    return [worst, *(one for one in failures if one is not worst)]


def _budget(finding: Finding) -> tuple[object, ...]:
    """Return a key that is the same for one limit on several files or devices."""
    scope = finding.measure, finding.category, finding.annotation, finding.phase
    return finding.rule, finding.kind, *scope


def _excess(failure: tuple[GatedFile, Finding]) -> int:
    return (failure[1].actual_bytes or 0) - (failure[1].limit_bytes or 0)


def _line(file: GatedFile, finding: Finding, several: bool) -> str:
    """Describe a finding, including its budget's name, and its file if there are several."""
    name = f"{short_name(file)}: " if several or file.dump else ""
    rule = "" if finding.rule == limit_name(finding) else clean(f" [{finding.rule}]")
    return f"{name}{finding.message}{rule}"


def short_name(file: GatedFile) -> str:
    """Return a file's name, or text such as `rank 3, iteration_10` if ranks have several dumps."""
    if not file.dump:
        return clean(file.file.rpartition("/")[2])
    return clean(file.dump if file.rank is None else f"rank {file.rank}, {file.dump}")


def limit_name(finding: Finding) -> str:
    """Return the limit's name as in the option, e.g. `max-peak`."""
    return finding.kind.replace("_", "-")


def rule_text(finding: Finding) -> str:
    """Return `max-peak` or `my budget: max-peak`."""
    name = limit_name(finding)
    return name if finding.rule == name else f"{finding.rule}: {name}"


def _more(number: int, words: str) -> str:
    return f"; {number} {words}" if number > 0 else ""


def _nearness(finding: Finding) -> float:
    assert finding.limit_bytes is not None
    return (finding.actual_bytes or 0) / finding.limit_bytes


def finding_text(finding: Finding, file: GatedFile | None = None) -> str:
    """Describe one finding: measured value, limit, and cause."""
    if finding.outcome in ("skipped", "not_judged"):
        return clean(_skipped(finding, file))
    if finding.kind == "trust":
        return clean(_trust(finding, file))
    words = {
        "max_fragmentation": _fragmentation,
        "forbid_leaks": _leaks,
        "forbid_oom": _ooms,
        "max_growth": _growth,
        "max_growth_bytes": _growth,
        "max_spread": _spread,
    }.get(finding.kind, _peak)
    return clean(words(finding))


def scope_text(finding: Finding, *, device: bool = False) -> str:
    """Return what is measured: `held`, or `held of activations in ProfilerStep on device 1`.

    `device`: name device 0, too.
    """
    words: str = finding.measure
    if finding.category is not None:
        words += f" of {finding.category}" + (" (partly guessed)" if finding.guessed else "")
    if finding.annotation is not None:
        words += f" in {finding.annotation}"
    if finding.phase is not None:
        words += f" in the {PHASE_WORDS[finding.phase]}"
    return words + (f" on device {finding.device}" if finding.device or device else "")


def phase_rows(file: GatedFile) -> list[tuple[str, str, str]]:
    """If there are several phases, return (peak, change since the base, scope) for each."""
    several = len({(one.device, one.measure) for one in file.phases}) > 1
    rows = []
    for one in file.phases if len(file.phases) > 1 else ():
        of = PHASE_WORDS[one.phase]
        if several:
            of += f", {one.measure} on device {one.device}"
        change = "" if one.change_bytes is None else signed_size(one.change_bytes)
        rows.append((size(one.bytes), change, of))
    return rows


def subject_text(finding: Finding, among: Sequence[Finding] = ()) -> str:
    """Return a row's subject: `peak held`, `device 0`, `base: held: no_events`.

    `among`: the rows for the same file.
    """
    several = len({one.device for one in among}) > 1
    scope = scope_text(finding, device=several)
    if finding.kind == "trust":
        base = "base: " if finding.of_base else ""
        return f"{base}{scope}: {', '.join(finding.reasons)}"
    if finding.kind in ("forbid_oom", "forbid_leaks", "max_fragmentation"):
        return f"device {finding.device}"
    return f"peak {scope}"


def causes_text(finding: Finding) -> str:
    """Return the heading above a failure's causes, e.g. `largest growth`."""
    grown = finding.causes[0].change_bytes is not None
    if finding.kind == "max_spread" and grown:
        return "groups that hold more"
    return {"forbid_leaks": "what leaks", "forbid_oom": "requested at"}.get(
        finding.kind, "largest growth" if grown else "largest holders"
    )


def limit_text(finding: Finding) -> str:
    """Return the limit, much as the user gave it: `38 GiB`, `+2%`."""
    if finding.limit_share is not None:
        share = f"{finding.limit_share * 100:.6g}%"
        return f"+{share}" if finding.kind in ("max_growth", "max_spread") else share
    if finding.kind == "max_growth_bytes":
        return f"+{brief((finding.limit_bytes or 0) - (finding.base_bytes or 0))}"
    if finding.kind in ("forbid_leaks", "forbid_oom"):
        return "none"
    return brief(finding.limit_bytes or 0)


def actual_text(finding: Finding) -> str:
    """Return the measured value in the limit's unit."""
    if finding.actual_bytes is None:
        return ""
    if finding.kind in ("max_growth", "max_growth_bytes"):
        return _signed_share(finding) if finding.kind == "max_growth" else _grown(finding)
    if finding.kind == "max_spread":
        return _over_median(finding)
    if finding.kind == "max_fragmentation":
        return percent(finding.actual_bytes / (finding.reserved_bytes or 1))
    if finding.kind == "forbid_leaks":
        return f"{size(finding.actual_bytes)} a step" if finding.actual_bytes else "none"
    if finding.kind == "forbid_oom":
        return str(finding.count)
    return size(finding.actual_bytes)


def cause_name(cause: Cause) -> Name:
    """Return the name of a cause's location."""
    return name_of_frame(Frame(cause.function, cause.file, cause.line))


def cause_text(cause: Cause) -> str:
    """Return a code location such as `forward model.py:72`, or a label such as `BmmBackward0
    (autograd)`.
    """
    return place_text(cause_name(cause) if cause.file else None, cause.label)


def brief(n_bytes: int) -> str:
    """Return a size without a trailing zero, such as `38 GiB` or `38.5 GiB`."""
    return size(n_bytes).replace(".0 ", " ")


def _peak(finding: Finding) -> str:
    actual, limit = finding.actual_bytes or 0, finding.limit_bytes or 0
    sign = ">" if actual > limit else "<="
    left, right = size(actual), brief(limit)
    if sign == ">" and left.replace(".0 ", " ") == right:
        # The difference is too small for the printed precision.
        left, right = f"{count(actual)} B", f"{count(limit)} B"
    more = []
    if finding.growth_bytes is not None:
        more.append(f"{_grown(finding)} since base")
    more += [*_category(finding), *_causes(finding)]
    return f"peak {scope_text(finding)} {left} {sign} {right}{_in_parentheses(more)}"


def _growth(finding: Finding) -> str:
    base, now = finding.base_bytes or 0, finding.actual_bytes or 0
    actual, limit = size(abs(now - base)), limit_text(finding).removeprefix("+")
    if finding.failed and actual.replace(".0 ", " ") == limit:
        actual = f"{count(now - base)} B"  # the difference is too small for the printed precision
        limit = f"{count((finding.limit_bytes or 0) - base)} B"
    if base:
        actual += f" ({percent(abs(now - base) / base)})"
    verb = "shrank" if now < base else "grew"
    kept = "more than the limit of" if finding.failed else "within the limit of"
    more = [f"{size(base)} -> {size(now)}", *_category(finding), *_causes(finding)]
    words = f"peak {scope_text(finding)} {verb} by {actual}, {kept} {limit}"
    return words + _in_parentheses(more)


def _spread(finding: Finding) -> str:
    sign = ">" if finding.failed else "<="
    actual, limit = _over_median(finding), limit_text(finding)
    if finding.failed and actual.replace(".0%", "%") == limit:
        actual = f"+{count((finding.actual_bytes or 0) - (finding.median_bytes or 0))} B"
        limit = f"+{count((finding.limit_bytes or 0) - (finding.median_bytes or 0))} B"
    what = "device" if finding.of_devices else "file"
    median = f"the median of {counted(finding.count or 0, what)}"
    more = [f"{size(finding.median_bytes or 0)} -> {size(finding.actual_bytes or 0)}"]
    more += _causes(finding)
    words = f"peak {scope_text(finding)} {actual} over {median} {sign} {limit}"
    return words + _in_parentheses(more)


def _over_median(finding: Finding) -> str:
    over = (finding.actual_bytes or 0) - (finding.median_bytes or 0)
    if not finding.median_bytes:
        return f"+{size(over)}"
    return f"+{percent(over / finding.median_bytes)}"


def _fragmentation(finding: Finding) -> str:
    sign = ">" if finding.failed else "<="
    reserved, above = size(finding.reserved_bytes or 0), size(finding.actual_bytes or 0)
    whole = f"peak reserved {reserved} is {above} above peak active"
    where = f" on device {finding.device}" if finding.device else ""
    words = f"fragmentation{where} {actual_text(finding)} {sign} {limit_text(finding)}"
    return f"{words} ({whole})"


def _leaks(finding: Finding) -> str:
    where = f" on device {finding.device}" if finding.device else ""
    steps = counted(finding.count or 0, "step")
    if not finding.failed:
        return f"no leaks{where} over {steps}"
    words = f"leak{where} {size(finding.actual_bytes or 0)} a step over {steps}"
    places = [f"{size(one.bytes)} in {cause_text(one)}" for one in finding.causes[:1]]
    return words + _in_parentheses(places or ["no single stack grows throughout"])


def _ooms(finding: Finding) -> str:
    where = f" on device {finding.device}" if finding.device else ""
    if not finding.failed:
        return f"no out-of-memory event{where}"
    times = counted(finding.count or 0, "request")
    first = "failed, the first" if finding.count != 1 else "failed,"
    first += f" of {size(finding.actual_bytes or 0)}"
    at = "".join(f" in {cause_text(one)}" for one in finding.causes[:1])
    return f"out of memory{where}: {times} {first}{at}"


def _trust(finding: Finding, file: GatedFile | None) -> str:
    whose = _whose(finding, file)
    if not finding.reasons:
        return f"{whose}can be trusted"
    return f"{whose}can't be trusted: {_reasons(finding)}; {UNTRUSTED_HINT}"


def _skipped(finding: Finding, file: GatedFile | None) -> str:
    if finding.kind == "trust":
        whose = _whose(finding, file)
        return f"{whose}can't be trusted, but are checked anyway: {_reasons(finding)}"
    where = f" on device {finding.device}" if finding.device else ""
    if finding.outcome == "not_judged":
        words = f"{limit_name(finding)}{where} couldn't be checked: {finding.detail}"
        judgeable = finding.reasons and finding.detail != NOTHING_RESERVED
        return f"{words}; {UNTRUSTED_HINT}" if judgeable else words
    return f"{finding.rule}{where} wasn't checked: {finding.detail}"


def _whose(finding: Finding, file: GatedFile | None) -> str:
    name = file.base_file if finding.of_base and file is not None else None
    base = f"base {name}: " if name else "base: " if finding.of_base else ""
    where = f" on device {finding.device}" if finding.device else ""
    return f"{base}{finding.measure} bytes{where} "


def _reasons(finding: Finding) -> str:
    return ", ".join(
        f"{name} ({REASONS[name].what})" if name in REASONS else name
        for name in finding.reasons[:1]
    ) + "".join(f", {name}" for name in finding.reasons[1:])


def _grown(finding: Finding) -> str:
    grown = signed_size(finding.growth_bytes or 0)
    return grown if grown != "0 B" else "+0 B"


def _signed_share(finding: Finding) -> str:
    if not finding.base_bytes:
        return _grown(finding)
    share = (finding.growth_bytes or 0) / finding.base_bytes
    return f"{'-' if share < 0 else '+'}{percent(abs(share))}"


def _category(finding: Finding) -> list[str]:
    """Return `+230.6 MiB weights (cast), largest in linear model.py:43`: the category that grew
    most.
    """
    if finding.grown_category is None:
        return []
    words = f"{signed_size(finding.grown_category_bytes or 0)} {finding.grown_category}"
    place = finding.grown_category_cause
    if place is not None and not _same_place(place, finding.causes[:1]):
        words += f", largest {in_place(cause_text(place))}"
    return [words]


def _same_place(place: Cause, causes: Sequence[Cause]) -> bool:
    at = place.file, place.line, place.function
    return any((one.file, one.line, one.function) == at for one in causes)


def _causes(finding: Finding) -> list[str]:
    """Return the causes for the first line: the largest one and, if it has no location, also one in
    code.
    """
    if not finding.causes:
        return []
    told = list(finding.causes[:1])
    if finding.place is not None and finding.place not in told:
        told.append(finding.place)
    words = [_cause_and_bytes(one) for one in told]
    if told[0].change_bytes is None:
        is_most = 2 * told[0].bytes > (finding.actual_bytes or 0)
        words[0] = f"{'most of it' if is_most else 'largest'}: {words[0]}"
    return words


def _cause_and_bytes(cause: Cause) -> str:
    """Return text such as `+120.0 MiB in forward model.py:28`."""
    change = cause.change_bytes
    n_bytes = size(cause.bytes) if change is None else signed_size(change)
    return f"{n_bytes} {in_place(cause_text(cause))}"


def _in_parentheses(parts: list[str]) -> str:
    return f" ({'; '.join(parts)})" if parts else ""
