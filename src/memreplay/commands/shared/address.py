"""Reads an address as people write it: in hexadecimal or decimal, and which of its allocations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memreplay.snapshot.model import When

    _ParamType = click.ParamType[When]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only

_ADDRESS = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|\d{1,20})(?:#(-?\d{1,15}))?", re.ASCII)
# What PyTorch's viewer shows of a block, as b7f12a0000000_3 or b'7f12a0000000_3; people leave the
# b, or what follows the `_`, out. Hexadecimal without 0x: no short number, which may be a typo.
_VIEWER = re.compile(
    r"(?:b'?(?:0[xX])?(?P<block>[0-9a-fA-F]{1,16})|0[xX](?P<marked>[0-9a-fA-F]{1,16})"
    r"|(?P<bare>[0-9a-fA-F]{8,16}))(?P<number>_\d{1,15})?",
    re.ASCII,
)
_SEGMENT = re.compile(r"s'?[0-9a-fA-F]{1,16}(?:_\d{1,15})?", re.ASCII)


class AddressType(_ParamType):
    """`0x7f12a0000000`, `139…`, each with `#k`, or a block as PyTorch's viewer names it: the moment
    at which it is allocated."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> When:
        """The moment; a usage error where the text is no address."""
        from memreplay.snapshot.model import When

        if isinstance(value, When):
            return value
        text = str(value).strip()
        if match := _ADDRESS.fullmatch(text):
            address = int(match[1], 16 if match[1][:2] in ("0x", "0X") else 10)
            number = match[2]
        elif match := _VIEWER.fullmatch(text):
            address = int(match["block"] or match["marked"] or match["bare"], 16)
            number = match["number"]
        elif _SEGMENT.fullmatch(text):
            self.fail(
                f"{value!r} is a segment in PyTorch's viewer, not a block: memreplay segments shows"
                " segments",
                param,
                ctx,
            )
        if not match or address >> 64:
            self.fail(
                f"{value!r} is not an address: give 0x7f12a0000000, or with #2, or a block as"
                " PyTorch's viewer shows it, b7f12a0000000_2",
                param,
                ctx,
            )
        return When("address", address, name=number or None)
