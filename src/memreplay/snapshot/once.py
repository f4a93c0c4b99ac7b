"""Values computed once, on first access, from any thread."""

from __future__ import annotations

# `_thread` avoids importing `threading` just for a lock.
from _thread import RLock
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import cached_property
from os import getpid
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# For each value that is being computed: the process that computes it, and the lock that other
# threads wait for.
Making = dict[Any, tuple[int, AbstractContextManager[Any]]]

_MISSING: Any = object()


def compute_once(values: dict[K, T], making: Making, key: K, make: Callable[[], T]) -> T:
    """Return a key's value.

    If it's missing, `make` computes it once, while other threads wait.

    Each value has its own lock, so threads that compute different values don't wait for each other,
    unless one value depends on the other.
    """
    found: T = values.get(key, _MISSING)
    if found is not _MISSING:
        return found
    with _lock(making, key):
        found = values.get(key, _MISSING)
        if found is _MISSING:
            # After a fork, two threads may compute the value. All get the same object.
            found = values.setdefault(key, make())
    making.pop(key, None)
    return found


def _lock(making: Making, key: object) -> AbstractContextManager[Any]:
    process = getpid()
    found = making.get(key)
    if found is None:
        found = making.setdefault(key, (process, RLock()))
    if found[0] != process:
        # The thread that owns the lock doesn't exist in this forked process and never releases the
        # lock.
        found = making[key] = (process, RLock())
    return found[1]


class once(cached_property[T]):  # noqa: N801 - a decorator, as cached_property is one
    """A thread-safe `cached_property`: all threads get the same object.

    From Python 3.12 on, the standard one may compute a value in each thread. In earlier versions,
    threads wait for each other even if they use different objects.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> once[T] | T:
        if instance is None:
            return self
        name = self.attrname
        assert name is not None
        values = instance.__dict__
        making = values.get("_making")
        if making is None:
            making = values.setdefault("_making", {})
        found: T = compute_once(values, making, name, lambda: self.func(instance))
        return found


class Once(Generic[K, T]):
    """A thread-safe cache with one value per key."""

    def __init__(self) -> None:
        self._values: dict[K, T] = {}
        self._making: Making = {}

    def get(self, key: K, make: Callable[[], T]) -> T:
        """Return the value, computing it with `make` if missing."""
        return compute_once(self._values, self._making, key, make)

    def values(self) -> list[T]:
        """Return the values computed so far."""
        return list(self._values.values())

    def clear(self) -> None:
        """Drop all values; they are recomputed on access."""
        self._values.clear()
