"""Python interface to converting a snapshot's bytes."""

from typing import Final, final

PLAIN: Final[str]

@final
class Transcoder:
    """Rewrite a pickle in another protocol: bytes in, bytes out."""

    def __new__(cls, protocol: int) -> Transcoder: ...
    @property
    def ended(self) -> bool: ...
    def feed(self, data: bytes) -> bytes: ...

@final
class Spelled:
    """A pickle as JSON: an iterator over bytes that can be restarted.

    Holds the whole text in memory.
    """

    def __new__(cls, data: bytes) -> Spelled: ...
    def __iter__(self) -> Spelled: ...
    def __next__(self) -> bytes: ...

@final
class Pickled:
    """JSON as a pickle: an iterator over bytes."""

    def __new__(cls, data: bytes, protocol: int) -> Pickled: ...
    def __iter__(self) -> Pickled: ...
    def __next__(self) -> bytes: ...
