"""Writes what a gate found as GitHub's workflow commands: annotations on files and lines."""

from __future__ import annotations

from memreplay.gating.result import GateReport
from memreplay.gating.shown import rest_words, shown_files
from memreplay.gating.words import rule_words, short_name
from memreplay.texts import workflow_message, workflow_property


def render_gate_github(report: GateReport, most: int = 0) -> str:
    """A command a line: an error for each that failed, and notices; for the `most` worst files.

    A place outside of the repository is in the message alone.
    """
    several = len(report.files) > 1
    lines = []
    for file in shown_files(report, most):
        prefix = f"{short_name(file)}: " if several or file.dump else ""
        if file.error:
            lines.append(_command("error", f"{file.file}: {file.error}", "memreplay gate"))
        for finding in file.findings:
            if finding.failed:
                path = finding.repository_file
                line = finding.line or 0
                state = " could not be judged" if finding.outcome == "not_judged" else ""
                title = f"memreplay gate: {rule_words(finding)}{state}"
                text = prefix + finding.message
                lines.append(_command("error", text, title, path, line))
        untold = {one.message for one in file.findings if one.failed}
        lines += [
            _command("notice", prefix + note, "memreplay gate")
            for note in file.notes
            if note not in untold
        ]
    lines += [_command("notice", words, "memreplay gate") for words in rest_words(report, most)]
    if report.passed:
        lines.append(_command("notice", report.headline, "memreplay gate"))
    return "\n".join(lines)


def _command(kind: str, text: str, title: str, path: str | None = None, line: int = 0) -> str:
    properties = []
    if path is not None:
        properties.append(f"file={workflow_property(path)}")
        if line > 0:
            properties.append(f"line={line}")
    properties.append(f"title={workflow_property(title)}")
    return f"::{kind} {','.join(properties)}::{workflow_message(text)}"
