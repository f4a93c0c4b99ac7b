"""What stays in its process: it is not pickled, and never changes, so a copy of it is it itself."""

from __future__ import annotations

from typing import Any, NoReturn


class Staying:
    """Base of what holds the engine's columns."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled: in another process open the file again, with"
            " memreplay.open"
        )

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Any:
        return self
