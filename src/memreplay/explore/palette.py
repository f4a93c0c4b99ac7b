"""The colours of the explorer, on dark and on light."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style

# Shares from which on a row is warmer.
WARM, HOT, HOTTEST = 0.02, 0.10, 0.25


@dataclass(frozen=True, slots=True)
class Palette:
    """A style for each kind of thing."""

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
    warm: tuple[Style, Style, Style, Style]
    signs: dict[str, str]

    def heat(self, share: float) -> Style:
        """Of a row that holds so much."""
        cold, warm, hot, hottest = self.warm
        if share >= HOTTEST:
            return hottest
        if share >= HOT:
            return hot
        return warm if share >= WARM else cold


def palette_of(*, dark: bool, plain: bool) -> Palette:
    """The one for a background; `plain`: of ASCII alone."""
    cold = Style(color="grey62" if dark else "grey42")
    colours = ("#e6c35c", "#f0883e", "#ff6b5e") if dark else ("#8a6d00", "#b04a00", "#b81d13")
    warm, hot, hottest = (Style(color=one) for one in colours)
    return Palette(
        plain=Style(),
        dim=cold,
        title=Style(bold=True, underline=True),
        sure=Style(color="#5b9bd5" if dark else "#1f6fb2"),
        high=Style(color="#9cc3e6" if dark else "#6fa8d6"),
        ranged=Style(bgcolor="#2f3b52" if dark else "#dbe6f5"),
        cursor=Style(
            color="#ffd866" if dark else "#a15c00", bgcolor="#3d3d46" if dark else "#e6e0cf"
        ),
        mark=cold,
        oom=hottest + Style(bold=True),
        chosen=Style(bgcolor="#3d4f6b" if dark else "#cddff5"),
        found=Style(bold=True, underline=True),
        own=Style(bold=True),
        warm=(cold, warm, hot, hottest + Style(bold=True)),
        signs={"+": "+" if plain else "▸", "-": "-" if plain else "▾"},
    )
