"""Tests of explore/widgets.py: rows are cut where they don't differ."""

from __future__ import annotations

import pytest

from memreplay.explore.widgets import fitted_places
from memreplay.render.document import Place

OWN = Place("allocate", "/me/flexgen/pytorch_backend.py", 190)
OUTER = Place("… init_weight", "/me/flexgen/flex_opt.py", 664)


@pytest.mark.parametrize("width", range(40, 120))
def test_rows_keep_the_location_that_tells_them_apart(width: int) -> None:
    text = fitted_places((OWN, OUTER), width)
    assert len(text) <= width
    assert "flex_opt.py:664" in text
    assert ":190" in text


def test_further_locations_need_room() -> None:
    via = Place("via einops: einsum", "/lib/einops/einops.py", 916)
    assert fitted_places((OWN, via), 36) == "allocate  …/pytorch_backend.py:190"
    assert fitted_places((OWN, via), 60) == (
        "allocate  /me/flexgen/pytorch_backend.py:190  einops.py:916"
    )
    same = Place("… forward", OWN.file, 77)
    assert fitted_places((OWN, same), 44) == "allocate  …/pytorch_backend.py:190  … :77"
