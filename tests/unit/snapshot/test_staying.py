"""staying: objects that can't be pickled; copying one returns the same object."""

from __future__ import annotations

import copy
import pickle

import pytest

from memreplay.snapshot.staying import Staying


class Thing(Staying):
    """An object that holds a value."""

    def __init__(self) -> None:
        self.held: list[int] = []


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_object_cannot_be_pickled(protocol: int) -> None:
    with pytest.raises(TypeError) as error:
        pickle.dumps(Thing(), protocol)
    assert str(error.value) == (
        "Thing can't be pickled: in another process, open the file again with memreplay.open"
    )


def test_copy_returns_the_same_object() -> None:
    thing = Thing()
    assert copy.copy(thing) is thing
    assert copy.deepcopy({"a": thing})["a"] is thing
