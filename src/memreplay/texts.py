r"""Text that others wrote, as each kind of output may show it: no character of it acts.

Names in a snapshot, and names of files, are whatever somebody wrote there. What is shown goes
through here, whatever shows it (docs/texts.md):

- `clean` for all of them: what a terminal obeys, what turns the direction of text and what nobody
  sees is spelled out (`\x1b`, `\u202e`). It stands in one line, and XML 1.0 can say it.
- `log_line` for a line of a log, which the runner of a CI job reads, too.
- `markdown_text`, `workflow_message`, `html_text`, `sarif_text` … for what has a syntax of its own.

Data (JSON, CSV, Parquet) holds the exact text: there `json_inert` writes it another way, and
changes nothing. CSV has no other way: on a terminal it goes through `clean_lines`.
"""

from __future__ import annotations

import re

# Marks above or below one letter: of more, which no script needs, a terminal makes a tower.
MOST_MARKS = 8
# What Python calls printable and nobody sees: fillers of Hangul, a joiner of graphemes, Khmer's
# inherent vowels, selectors of variations, Mongolian's among them. All others that Unicode ignores
# by default are of a kind that is not printable (Cf, Cn).
_UNSEEN = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# Runners look for these anywhere in a line: `##[group]`, `##vso[task.setvariable …]`,
# `##teamcity[…]`.
_BRACKETED = r"##(?=\w*\[)"
# GitHub's runner looks for this at the begin of a line, behind spaces: `::error file=a.py::words`.
_COMMAND = r"(?m)^([^\S\n]*):(?=:[^\n]*::)"


def clean(text: str) -> str:
    r"""Text in one line that does nothing: controls, surrogates, marks of direction and all else
    that is not seen are written as their numbers (`\x1b`). What is clean stays as it is."""
    if not text.isascii():
        if not text.isprintable() or re.search(_UNSEEN, text):
            text = "".join(
                one if one.isprintable() and not re.match(_UNSEEN, one) else _spelled(one)
                for one in text
            )
        if len(text) > MOST_MARKS and not text.isascii():
            text = _without_towers(text)
    elif not text.isprintable():
        text = "".join(one if one.isprintable() else _spelled(one) for one in text)
    return re.sub(_BRACKETED, r"#\\x23", text) if "##" in text else text


def _spelled(one: str) -> str:
    return one.encode("unicode_escape").decode()


def _without_towers(text: str) -> str:
    from unicodedata import category  # late: most names are ASCII

    found = []
    run = 0
    for one in text:
        run = run + 1 if one > "\u02ff" and category(one) in ("Mn", "Me") else 0
        found.append(one if run <= MOST_MARKS else _spelled(one))
    return "".join(found) if len(found) < sum(map(len, found)) else text


def clean_short(text: str, most: int) -> str:
    """A clean text in at most so many characters, however long it was."""
    found = clean(text[: most + 1])
    return found if len(found) <= most else found[: most - 1] + "…"


def clean_lines(text: str) -> str:
    """Data that is seen on a terminal, which stays in its lines: each is clean."""
    return "\n".join(map(clean, text.split("\n")))


def log_line(line: str) -> str:
    r"""Lines of a report or a log: none is a command of a CI job's runner. The colon that would
    make it one is written as its number (`\x3a`)."""
    # Most lines with colons are of C++: to compile the pattern for them takes longer than to look.
    if "::" in line and ("\n" in line or line.lstrip().startswith("::")):
        line = re.sub(_COMMAND, r"\1\\x3a", line)
    return re.sub(_BRACKETED, r"#\\x23", line) if "##" in line else line


# ---- Markdown ------------------------------------------------------------------------------------

# What GitHub and GitLab make links, people and pictures of, wherever it stands and however it is
# escaped, as they look at the text of the page that Markdown became. They leave code alone.
_LIVE = (
    r"(?i)@|://|www\.|mailto:|xmpp:|GH-\d|[#!%&~$^]\d|~\w|[%~]\""
    r"|:(?=[\w+-]*[a-z]|[+-]1:|100:|1234:)[\w+-]+:"
)
_MARKUP = str.maketrans(
    {one: f"\\{one}" for one in r"\*_[]|~$#"}
    | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "&#96;"}
)


def markdown_line(text: str) -> str:
    """As `markdown_text`, for a line of its own: it is no heading, list, rule or block of code."""
    return re.sub(r"^([+=:-]|\d+(?=[.)]))", _first, markdown_text(clean(text).lstrip()))


def _first(match: re.Match[str]) -> str:
    # Of a number it is the sign behind that makes a list.
    return f"\\{match[0]}" if not match[0].isdecimal() else f"{match[0]}\\"


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, in a table too: no markup, link, mention or HTML. A word
    that a page would make a link of is shown as code."""
    return re.sub(r"[^\s|`<>&]+|[|`<>&]", _word, clean(text))


def _word(match: re.Match[str]) -> str:
    word = match[0]
    if not re.search(_LIVE, word):
        return word.translate(_MARKUP)
    # Brackets around it and what ends a sentence are no part of it.
    begun = word.lstrip("([{'\"")
    before = word[: len(word) - len(begun)]
    code = begun.rstrip(".,;:'\"" + (")]}" if before else ""))
    behind = begun[len(code) :]
    return f"{before.translate(_MARKUP)}`{code}`{behind.translate(_MARKUP)}"


def markdown_fence(lines: list[str]) -> str:
    """The lines as they are, in a fence that is longer than any run of backticks in them."""
    text = "\n".join(log_line(clean(line)) for line in lines)
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


# ---- what CI jobs read ---------------------------------------------------------------------------


def workflow_message(text: str) -> str:
    """What stands behind the second `::` of a workflow command of GitHub's."""
    return clean(text).replace("%", "%25")


def workflow_property(text: str) -> str:
    """The value of a property of a workflow command."""
    return workflow_message(text).replace(":", "%3A").replace(",", "%2C")


def sarif_text(text: str) -> str:
    """A message of SARIF, in which `[words](target)` is a link: a space parts the two."""
    return clean(text).replace("](", "] (")


# ---- XML, HTML, JSON -----------------------------------------------------------------------------


def xml_inert(xml: str) -> str:
    """XML that says the same, and has no command of a CI job's runner in any of its lines."""
    return re.sub(_BRACKETED, "#&#35;", re.sub(_COMMAND, r"\1&#58;", xml))


def html_text(text: str) -> str:
    """Text between tags of HTML, or in the quotes of an attribute."""
    found = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return found.replace('"', "&quot;").replace("'", "&#x27;")


def json_inert(json: str) -> str:
    r"""JSON that says the same, and has no `##[…]` of a CI job's runner; `##` stands in strings
    alone."""
    return json.replace("##", "#\\u0023") if "##" in json else json


def script_json(json: str) -> str:
    """JSON in ASCII as it may stand in a script of HTML, which no text of it ends."""
    return json_inert(json).replace("<", "\\u003c")


# ---- stacks in a line ----------------------------------------------------------------------------


def collapsed_name(text: str) -> str:
    """A name in a line of frames that `;` parts, which no reader has a way to escape."""
    return clean(text).replace(";", ":").strip()
