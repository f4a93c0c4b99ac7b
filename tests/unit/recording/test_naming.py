"""The way from a variable to an object is spelled as in Python."""

from __future__ import annotations

import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memreplay.recording import naming
from memreplay.recording.naming import Place, Way, spelled

END = object()


class Plain:
    """An object with attributes."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, _: str) -> Any:
        raise AttributeError


class Slotted:
    """An object with slots, one of them empty."""

    __slots__ = ("empty", "held")

    def __init__(self) -> None:
        self.held = END


def closing() -> Callable[[], object]:
    kept = END
    return lambda: kept


def defaulting(kept: object = END) -> object:
    return kept


def suspended() -> Iterator[int]:
    kept = END
    yield 1
    yield id(kept)


def raised() -> ValueError:
    def fail(kept: object) -> None:
        raise ValueError(id(kept))

    try:
        fail(END)
    except ValueError as error:
        return error
    raise AssertionError


def spell(*chain: object) -> str:
    return spelled(Way("x", Place()), chain, naming.Keys()).text


def test_containers_and_attributes() -> None:
    inner = [END]
    assert spell(inner, END) == "x[…]"
    assert spell({END}, END) == "x[…]"
    assert spell({"k": END}, END) == "x['k']"
    variables = {"KEPT": inner}
    assert spelled(Way("", Place()), (variables, inner, END), naming.Keys()).text == ".KEPT[…]"
    owner = Plain(cache={"k": inner})
    assert spell(owner, owner.cache, inner, END) == "x.cache['k'][…]"
    assert spell(owner, owner.__dict__, owner.cache, inner, END) == "x.cache['k'][…]"
    assert spell([{5: END}], {5: END}, END) == "x[…][…]"
    assert spell(Slotted(), END) == "x.held"


def test_parts_of_modules_are_attributes() -> None:
    layer = Plain(_parameters={"weight": END})
    net = Plain(_modules=OrderedDict(first=layer))
    assert spell(net, net._modules, layer, layer._parameters, END) == "x.first.weight"
    assert spell(net, net.__dict__, net._modules, layer) == "x.first"


def test_closures_defaults_and_generators() -> None:
    function: Any = closing()
    cells = function.__closure__
    assert spell([function], function, cells, cells[0], END) == (
        "x[…] → closing.<locals>.<lambda>().kept"
    )
    defaults = defaulting.__defaults__
    assert spell(defaulting, defaults, END) == "x → defaulting()"
    running = suspended()
    next(running)
    assert spell(running, END) == "x → kept in suspended()"


def test_tracebacks_name_their_functions() -> None:
    error = raised()
    trace = error.__traceback__
    assert trace is not None
    inner = trace.tb_next
    assert inner is not None
    frame = inner.tb_frame
    assert spell(error, trace, inner, frame, END) == "x → traceback → fail()"


def test_long_and_odd_keys_are_left_out() -> None:
    for key in ("k" * 100, "a\nb", 7, (1, 2), END):
        assert naming.index(key) == "[…]"
    assert naming.index("layer.0") == "['layer.0']"


def test_variables_of_own_functions_come_first() -> None:
    mine = END

    def library(theirs: object) -> dict[int, naming.Local]:
        frames = naming.running(sys._getframe())
        here = sys._getframe()
        return naming.local_variables([here, *frames], lambda _: False) if theirs else {}

    found = library(mine)
    assert found[id(mine)].name == "theirs"  # the innermost one
    frames = naming.running(sys._getframe())
    found = naming.local_variables(frames, lambda file: file != __file__)
    assert all(found[key].frame.f_code.co_filename for key in found)


def test_variables_arent_kept_alive() -> None:
    def look() -> list[tuple[str, object]]:
        held = Plain()
        names = naming.locals_of(sys._getframe())
        del held
        return [(name, sys.getrefcount(value)) for name, value in names if name == "held"]

    ((_, count),) = look()
    probe = [("held", Plain())]
    assert [count] == [sys.getrefcount(value) for _, value in probe]


def test_values_of_modules_and_classes_are_left_alone() -> None:
    code = compile("seen = locals_of(frame())", "<string>", "exec")
    space: dict[str, Any] = {"locals_of": naming.locals_of, "frame": sys._getframe}
    exec(code, space)
    assert space["seen"] == []
    assert "frame" in space


@pytest.mark.parametrize("kind", [types.ModuleType])
def test_modules_are_found_by_their_variables(kind: type) -> None:
    module = sys.modules[__name__]
    assert isinstance(module, kind)
    assert naming.module_variables()[id(module.__dict__)] is module


def test_keys_are_found_by_identity() -> None:
    class Hostile:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise AssertionError

    first, second = Hostile(), Hostile()
    keys, found = naming.Keys(), {"a": first, "b": second, "again": first}
    assert (keys.of(found, first), keys.of(found, second)) == ("a", "b")
    assert keys.of(found, Hostile()) is None
    other = {"c": first}
    assert keys.of(other, first) == "c"


def test_items_of_large_dicts_are_all_alike() -> None:
    end = object()
    small = {str(i): end if i == 3 else i for i in range(naming.MANY)}
    large = {**small, "more": 1}
    owner = types.SimpleNamespace()
    assert spelled(Way("x", Place()), (small, end), naming.Keys()).text == "x['3']"
    assert spelled(Way("x", Place()), (large, end), naming.Keys()).text == "x[…]"
    assert not naming.names_all_alike(small, owner)
    assert naming.names_all_alike(large, owner)
    assert naming.names_all_alike([end], owner)
    owner.__dict__.update(large)
    assert not naming.names_all_alike(owner.__dict__, owner)
    assert not naming.names_all_alike(owner, None)


def test_main_file_is_known_after_python_deletes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("__main__")
    monkeypatch.setattr(naming, "MAIN", "/home/ana/train.py")
    assert naming.module_place(module).file == "/home/ana/train.py"
    assert naming.module_place(types.ModuleType("other")).file == "other"


def test_variable_of_a_suspended_generator_has_its_name() -> None:
    def work() -> Iterator[int]:
        mine = object()
        yield id(mine)
        yield id(mine)

    running = work()
    next(running)
    frame = naming.frame_of(running)
    assert frame is not None
    (mine,) = frame.f_locals.values()
    assert naming.local_name(frame, mine) == "mine"
    assert naming.local_name(frame, object()) == "…"
    list(running)
    assert naming.frame_of(running) is None
    assert naming.local_name(None, mine) == "…"
