"""staying: no pickle is made of it, and a copy is the thing itself."""

from __future__ import annotations

import copy
import pickle

import pytest

from memreplay.snapshot.staying import Staying


class Thing(Staying):
    """Holds something."""

    def __init__(self) -> None:
        self.held: list[int] = []


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_no_pickle(protocol: int) -> None:
    with pytest.raises(TypeError) as error:
        pickle.dumps(Thing(), protocol)
    assert str(error.value) == (
        "Thing cannot be pickled: in another process open the file again, with memreplay.open"
    )


def test_a_copy_is_the_thing() -> None:
    thing = Thing()
    assert copy.copy(thing) is thing
    assert copy.deepcopy({"a": thing})["a"] is thing
