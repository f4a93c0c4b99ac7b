"""Write a gate's result as JUnit XML, which Jenkins and GitLab show as tests."""

from __future__ import annotations

from xml.etree import ElementTree

from memreplay.gating.messages import cause_name, rule_text, scope_text
from memreplay.gating.result import Finding, GatedFile, GateReport
from memreplay.texts import clean, xml_inert


def render_gate_junit(report: GateReport) -> str:
    """Return a suite per file and a case per limit.

    Limits that couldn't be judged and unreadable files are errors.
    """
    root = ElementTree.Element("testsuites", name="memreplay gate")
    for file in report.files:
        root.append(_suite(file))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root)
    # `clean` has removed all characters that XML can't represent.
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml_inert(text)}'


def _suite(file: GatedFile) -> ElementTree.Element:
    cases = [_case(file, finding) for finding in file.findings]
    if file.error:
        case = ElementTree.Element("testcase", name="read", classname=clean(file.file))
        ElementTree.SubElement(case, "error", type="error", message=clean(file.error))
        cases.append(case)
    suite = ElementTree.Element(
        "testsuite",
        name=clean(file.file),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
    )
    suite.extend(cases)
    if file.notes:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(file.notes)
    return suite


def _case(file: GatedFile, finding: Finding) -> ElementTree.Element:
    base = "base " if finding.of_base else ""
    name = clean(f"{rule_text(finding)} ({base}{scope_text(finding)})")
    case = ElementTree.Element("testcase", name=name, classname=clean(file.file))
    words = finding.message
    if finding.outcome == "not_judged":
        ElementTree.SubElement(case, "error", type="not_judged", message=words)
    elif finding.failed:
        failure = ElementTree.SubElement(case, "failure", type=finding.kind, message=words)
        failure.text = "\n".join(
            clean(cause_name(one).words if one.file else one.label) for one in finding.causes
        )
    elif finding.outcome == "skipped":
        ElementTree.SubElement(case, "skipped", message=words)
    else:
        ElementTree.SubElement(case, "system-out").text = words
    return case
