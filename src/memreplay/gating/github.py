"""Write a gate's result as GitHub workflow commands, which annotate files and lines."""

from __future__ import annotations

from memreplay.gating.messages import rule_text, short_name
from memreplay.gating.result import GateReport
from memreplay.gating.worst import rest_text, worst_files
from memreplay.texts import workflow_message, workflow_property


def render_gate_github(report: GateReport, most: int = 0) -> str:
    """Return one command per line for the `most` worst files: errors for failures, and notices.

    A location outside the repository only appears in the message.
    """
    several = len(report.files) > 1
    lines = []
    for file in worst_files(report, most):
        prefix = f"{short_name(file)}: " if several or file.dump else ""
        if file.error:
            lines.append(_command("error", f"{file.file}: {file.error}", "memreplay gate"))
        for finding in file.findings:
            if finding.failed:
                path = finding.repository_file
                line = finding.line or 0
                state = " couldn't be checked" if finding.outcome == "not_judged" else ""
                title = f"memreplay gate: {rule_text(finding)}{state}"
                text = prefix + finding.message
                lines.append(_command("error", text, title, path, line))
        untold = {one.message for one in file.findings if one.failed}
        lines += [
            _command("notice", prefix + note, "memreplay gate")
            for note in file.notes
            if note not in untold
        ]
    lines += [_command("notice", words, "memreplay gate") for words in rest_text(report, most)]
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
