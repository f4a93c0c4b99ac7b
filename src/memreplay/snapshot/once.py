"""Values that are made when they are first asked for, once, whichever thread asks."""

from __future__ import annotations

# Python's own module of threads need not be loaded for a lock.
from _thread import RLock
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import cached_property
from os import getpid
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# Who makes what is not there yet: the process, and the lock that all others of it wait for.
Making = dict[Any, tuple[int, AbstractContextManager[Any]]]

_MISSING: Any = object()


def made(values: dict[K, T], making: Making, key: K, make: Callable[[], T]) -> T:
    """The value of a key: `make` makes it where there is none, once, and other threads that want it
    wait for that.

    Each value has a lock of its own, so threads that make different ones do not wait for each other
    unless one value is made of the other.
    """
    found: T = values.get(key, _MISSING)
    if found is not _MISSING:
        return found
    with _lock(making, key):
        found = values.get(key, _MISSING)
        if found is _MISSING:
            # Two may make it where one of them came out of a fork: all get the same.
            found = values.setdefault(key, make())
    making.pop(key, None)
    return found


def _lock(making: Making, key: object) -> AbstractContextManager[Any]:
    process = getpid()
    found = making.get(key)
    if found is None:
        found = making.setdefault(key, (process, RLock()))
    if found[0] != process:
        # Who held it when this process was forked is not in it, and never lets go.
        found = making[key] = (process, RLock())
    return found[1]


class once(cached_property[T]):  # noqa: N801 - a decorator, as cached_property is one
    """A `cached_property` that threads may ask for at once: all get the same object.

    Python's own makes one for each thread from 3.12 on, and before that lets threads with different
    objects wait for each other.
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
        found: T = made(values, making, name, lambda: self.func(instance))
        return found


class Once(Generic[K, T]):
    """A value for each key, made likewise."""

    def __init__(self) -> None:
        self._values: dict[K, T] = {}
        self._making: Making = {}

    def get(self, key: K, make: Callable[[], T]) -> T:
        """The value; made by `make` where there is none yet."""
        return made(self._values, self._making, key, make)

    def values(self) -> list[T]:
        """Those that have been made."""
        return list(self._values.values())

    def clear(self) -> None:
        """Let go of all; they are made anew when they are asked for."""
        self._values.clear()
