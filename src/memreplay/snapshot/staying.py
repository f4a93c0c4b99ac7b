"""Immutable objects that can't be pickled. Copying one returns the same object."""

from __future__ import annotations

from typing import Any, NoReturn


class Staying:
    """Base class of objects that hold engine columns."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} can't be pickled: in another process, open the file again with"
            " memreplay.open"
        )

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Any:
        return self
