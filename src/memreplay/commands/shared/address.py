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

_ADDRESS = r"(0[xX][0-9a-fA-F]{1,16}|\d{1,20})(?:#(-?\d{1,15}))?"


class AddressType(_ParamType):
    """`0x7f12a0000000`, `139…`, each with `#k`: the moment at which it is allocated."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> When:
        """The moment; a usage error where the text is no address."""
        from memreplay.snapshot.model import When

        if isinstance(value, When):
            return value
        match = re.fullmatch(_ADDRESS, str(value).strip(), re.ASCII)
        if (
            not match
            or (address := int(match[1], 16 if match[1][:2] in ("0x", "0X") else 10)) >> 64
        ):
            self.fail(f"{value!r} is not an address: give 0x7f12a0000000, or with #2", param, ctx)
        return When("address", address, name=match[2] or None)
