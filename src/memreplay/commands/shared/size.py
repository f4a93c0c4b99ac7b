"""Options that take a size in bytes or a share, as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _SizeType = click.ParamType[int]
    _ShareType = click.ParamType[float]
else:
    _SizeType = _ShareType = click.ParamType  # generic from click 8.4 on only


class SizeType(_SizeType):
    """`80GiB`, `64K`, `4096B`; see `analysis.sizes.parse_size`. `least` is the smallest."""

    name = "size"

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes; a usage error where the text is no size, or too small a one."""
        if isinstance(value, int) and value >= self.least:  # an option's default
            return value
        from memreplay.analysis.selecting.sizes import SizeError, parse_size

        if isinstance(value, int):  # a default, which is bytes
            return value
        try:
            size = parse_size(value)
        except SizeError as error:
            self.fail(str(error), param, ctx)
        if size < self.least:
            self.fail(f"{value!r} is too small here", param, ctx)
        return size


class ShareType(_ShareType):
    """`2%`; see `analysis.sizes.parse_share`."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The share, 1.0 for 100%; a usage error where the text is none."""
        from memreplay.analysis.selecting.sizes import SizeError, parse_share

        if isinstance(value, float):
            return value
        try:
            return parse_share(value)
        except SizeError as error:
            self.fail(str(error), param, ctx)
