"""The explorer's colours, on dark and light backgrounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rich.style import Style

from memreplay.explore.rows.row import Tone

# Rows with at least these shares get warmer colours.
WARM, HOT, HOTTEST = 0.02, 0.10, 0.25


@dataclass(frozen=True, slots=True)
class Palette:
    """A style for each element."""

    plain: Style
    dim: Style
    title: Style
    sure: Style
    high: Style
    ranged: Style
    cursor: Style
    mark: Style
    oom: Style
    chosen: Style
    found: Style
    own: Style
    tab: Style
    rose: Style  # increased; in use
    fell: Style  # decreased; free
    warm: tuple[Style, Style, Style, Style]
    signs: dict[str, str]

    def tone(self, name: Tone) -> Style:
        """Return the style with this name."""
        found: Style = getattr(self, name)
        return found

    def heat(self, share: float) -> Style:
        """Return the style for a row with this share."""
        cold, warm, hot, hottest = self.warm
        if share >= HOTTEST:
            return hottest
        if share >= HOT:
            return hot
        return warm if share >= WARM else cold


@cache
def palette_of(*, dark: bool, plain: bool) -> Palette:
    """Return the palette for a background; `plain`: for ASCII terminals."""
    cold = Style(color="grey62" if dark else "grey42")
    colours = ("#e6c35c", "#f0883e", "#ff6b5e") if dark else ("#8a6d00", "#b04a00", "#b81d13")
    warm, hot, hottest = (Style(color=one) for one in colours)
    return Palette(
        plain=Style(),
        dim=cold,
        title=Style(bold=True, underline=True),
        sure=Style(color="#5998d6" if dark else "#1f60b8"),
        high=Style(color="#90cff2" if dark else "#57a8d6"),
        ranged=Style(bgcolor="#2f3b52" if dark else "#dbe6f5"),
        cursor=Style(
            color="#ffd866" if dark else "#a15c00", bgcolor="#3d3d46" if dark else "#e6e0cf"
        ),
        mark=cold,
        oom=hottest + Style(bold=True),
        chosen=Style(bgcolor="#3d4f6b" if dark else "#cddff5"),
        found=Style(bold=True, underline=True),
        own=Style(bold=True),
        tab=Style(bold=True, reverse=True),
        rose=hottest,
        fell=Style(color="#60aaff" if dark else "#0b55b0"),
        warm=(cold, warm, hot, hottest + Style(bold=True)),
        signs={"+": "+" if plain else "▸", "-": "-" if plain else "▾"},
    )
