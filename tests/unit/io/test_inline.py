"""Tests of io/inline.py: an executor without threads behaves like one with a thread."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from threading import get_ident

import pytest

from memreplay.io.inline import Inline


@pytest.mark.parametrize("kind", [Inline, ThreadPoolExecutor])
def test_functions_give_results_and_errors(kind: type[Executor]) -> None:
    with kind() as pool:
        assert pool.submit(pow, 2, exp=5).result() == 32
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
        failed = pool.submit(divmod, 1, 0)
        assert isinstance(failed.exception(), ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            failed.result()


def test_functions_run_in_the_same_thread() -> None:
    with Inline() as pool:
        assert pool.submit(get_ident).result() == get_ident()


def test_signals_arent_taken_as_errors() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with Inline() as pool, pytest.raises(KeyboardInterrupt):
        pool.submit(stop)
