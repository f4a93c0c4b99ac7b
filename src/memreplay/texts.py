r"""Escape untrusted text for each kind of output.

Names in snapshots and file names are untrusted. Everything that is shown goes through this module
(docs/texts.md):

- `clean` for all kinds of output: escapes characters that a terminal interprets, that change the
  text direction, or that are invisible (e.g. `\x1b`, `\u202e`). The result is one line that XML
  1.0 can represent.
- `log_line` for lines in a log, which a CI runner reads, too.
- `markdown_text`, `workflow_message`, `html_text`, `sarif_text` … for formats with a syntax.

Data (JSON, CSV, Parquet) keeps the exact text. `json_inert` only spells it differently. CSV has no
escapes, so on a terminal it's passed through `clean_lines`.
"""

from __future__ import annotations

import re

# Maximum number of combining marks per character. No script needs more, and terminals would stack
# them.
MOST_MARKS = 8
# Invisible characters that Python considers printable: Hangul fillers, the grapheme joiner, Khmer
# inherent vowels, and variation selectors including the Mongolian ones. Unicode's other default
# ignorables aren't printable (Cf, Cn).
_UNSEEN = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# CI runners look for these anywhere in a line: `##[group]`, `##vso[task.setvariable …]`,
# `##teamcity[…]`.
_BRACKETED = r"##(?=\w*\[)"
# GitHub's runner looks for this at the start of a line, after any spaces: `::error
# file=a.py::words`.
_COMMAND = r"(?m)^([^\S\n]*):(?=:[^\n]*::)"


def clean(text: str) -> str:
    r"""Return text on one line with control characters, surrogates, bidi marks and invisible
    characters escaped (`\x1b`). Clean text is unchanged.
    """
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
    from unicodedata import category  # imported late, because most names are ASCII

    found = []
    run = 0
    for one in text:
        run = run + 1 if one > "\u02ff" and category(one) in ("Mn", "Me") else 0
        found.append(one if run <= MOST_MARKS else _spelled(one))
    return "".join(found) if len(found) < sum(map(len, found)) else text


def clean_short(text: str, most: int) -> str:
    """Clean and shorten text to this many characters."""
    found = clean(text[: most + 1])
    return found if len(found) <= most else found[: most - 1] + "…"


def clean_lines(text: str) -> str:
    """Clean data for a terminal, line by line."""
    return "\n".join(map(clean, text.split("\n")))


def log_line(line: str) -> str:
    r"""Escape the colon of CI runner commands in lines of a report or log (`\x3a`)."""
    # Most lines with colons contain C++ names, and this search is faster than compiling the
    # pattern.
    if "::" in line and ("\n" in line or line.lstrip().startswith("::")):
        line = re.sub(_COMMAND, r"\1\\x3a", line)
    return re.sub(_BRACKETED, r"#\\x23", line) if "##" in line else line


# ---- Markdown ------------------------------------------------------------------------------------

# Text that GitHub and GitLab turn into links, mentions and images even if it's escaped, because
# they process the rendered Markdown. Both sites skip code.
_LIVE = (
    r"(?i)@|://|www\.|mailto:|xmpp:|GH-\d|[#!%&~$^]\d|~\w|[%~]\""
    r"|:(?=[\w+-]*[a-z]|[+-]1:|100:|1234:)[\w+-]+:"
)
_MARKUP = str.maketrans(
    {one: f"\\{one}" for one in r"\*_[]|~$#"}
    | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "&#96;"}
)


def markdown_line(text: str) -> str:
    """Like `markdown_text`, but for a line of its own, which must not become a heading, list, rule
    or code block.
    """
    return re.sub(r"^([+=:-]|\d+(?=[.)]))", _first, markdown_text(clean(text).lstrip()))


def _first(match: re.Match[str]) -> str:
    # A number starts a list only if this character follows it, so escape the character.
    return f"\\{match[0]}" if not match[0].isdecimal() else f"{match[0]}\\"


def markdown_text(text: str) -> str:
    """Escape text for Markdown, including tables: no markup, links, mentions or HTML.

    A word that a page would turn into a link is shown as code.
    """
    return re.sub(r"[^\s|`<>&]+|[|`<>&]", _word, clean(text))


def _word(match: re.Match[str]) -> str:
    word = match[0]
    if not re.search(_LIVE, word):
        return word.translate(_MARKUP)
    # Brackets around a link and punctuation after it aren't part of the link.
    begun = word.lstrip("([{'\"")
    before = word[: len(word) - len(begun)]
    code = begun.rstrip(".,;:'\"" + (")]}" if before else ""))
    behind = begun[len(code) :]
    return f"{before.translate(_MARKUP)}`{code}`{behind.translate(_MARKUP)}"


def markdown_fence(lines: list[str]) -> str:
    """Put lines in a fence longer than any run of backticks in them."""
    text = "\n".join(log_line(clean(line)) for line in lines)
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


# ---- output for CI jobs -----------------------------------------------------------------------


def workflow_message(text: str) -> str:
    """Escape the message of a GitHub workflow command, after the second `::`."""
    return clean(text).replace("%", "%25")


def workflow_property(text: str) -> str:
    """Escape a property value of a GitHub workflow command."""
    return workflow_message(text).replace(":", "%3A").replace(",", "%2C")


def sarif_text(text: str) -> str:
    """Escape a SARIF message, in which `[words](target)` is a link; a space prevents that."""
    return clean(text).replace("](", "] (")


# ---- XML, HTML, JSON -----------------------------------------------------------------------------


def xml_inert(xml: str) -> str:
    """Return equivalent XML without CI runner commands in any line."""
    return re.sub(_BRACKETED, "#&#35;", re.sub(_COMMAND, r"\1&#58;", xml))


def html_text(text: str) -> str:
    """Escape text for HTML, between tags or in a quoted attribute."""
    found = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return found.replace('"', "&quot;").replace("'", "&#x27;")


def json_inert(json: str) -> str:
    r"""Return equivalent JSON without `##[…]` of CI runners; `##` only occurs in strings."""
    return json.replace("##", "#\\u0023") if "##" in json else json


def script_json(json: str) -> str:
    """Return ASCII JSON that can't end the script element around it."""
    return json_inert(json).replace("<", "\\u003c")


# ---- stacks in a line ----------------------------------------------------------------------------


def collapsed_name(text: str) -> str:
    """Replace `;`, which separates frames in a line and can't be escaped."""
    return clean(text).replace(";", ":").strip()
