"""Tests of inside/memreplay_changing.py with a torch of a few lines. tests/integration/ has tests
with the real one.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memreplay.programs.inside import memreplay_changing as changing
from memreplay.recording import module_names


class Tensor:
    def __init__(self, requires_grad: bool = False) -> None:
        self.requires_grad = requires_grad


def fake_torch() -> Any:
    """Return a torch with modules, optimizers and autocast. `calls` has checkpointed calls."""

    class Module:
        training = True

        def __init__(self, **inner: Any) -> None:
            self._modules, self._parameters = inner, {"weight": 1}

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self.forward(*args, **kwargs)

        def _forward_unimplemented(self, *args: Any) -> None:
            raise NotImplementedError

        forward: Any = _forward_unimplemented

        def zero_grad(self, set_to_none: bool = True) -> bool:
            return set_to_none

    class Optimizer(Module):
        def __init__(self, groups: list[dict[str, Any]]) -> None:
            self.param_groups: list[dict[str, Any]] = []
            self.state: dict[Any, Any] = {}
            for group in groups:
                self.add_param_group(group)

        def add_param_group(self, group: dict[str, Any]) -> None:
            self.param_groups.append(group)

    class Autocast:
        def __init__(self, enabled: bool, cache: bool) -> None:
            self._enabled, self._cache_enabled = enabled, cache

        def __enter__(self) -> bool:
            return self._cache_enabled

    class Adagrad(Optimizer):
        pass

    core = SimpleNamespace(_get_tracing_state=lambda: None, _current_graph_task_id=lambda: -1)
    return SimpleNamespace(
        Tensor=Tensor,
        nn=SimpleNamespace(Module=Module),
        optim=SimpleNamespace(Optimizer=Optimizer, Adagrad=Adagrad),
        autocast=Autocast,
        _C=core,
        is_grad_enabled=lambda: True,
        calls=[],
    )


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake = fake_torch()
    fake.hooks = []
    checkpoints = ModuleType("torch.utils.checkpoint")

    def checkpoint(function: Any, *args: Any, use_reentrant: bool, **kwargs: Any) -> Any:
        assert not use_reentrant
        out = function(*args, **kwargs)
        fake.calls.append(lambda: function(*args, **kwargs))
        return out

    # Its file isn't this one, whose functions call modules.
    checkpoint.__code__ = checkpoint.__code__.replace(co_filename="checkpoint.py")
    checkpoints.checkpoint = checkpoint  # type: ignore[attr-defined]
    optimizers = ModuleType("torch.optim.optimizer")
    optimizers.register_optimizer_step_pre_hook = fake.hooks.append  # type: ignore[attr-defined]
    for name in ("torch", "torch.utils", "torch.optim"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "torch.utils.checkpoint", checkpoints)
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", optimizers)
    return fake


def network(torch: Any) -> Any:
    """Return a network of three layers, each with a part."""

    class Part(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, debug: Any = None) -> Any:
            return self._modules["part"](x), debug

    class Net(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, **more: Any) -> Any:
            for layer in self._modules["h"]._modules.values():
                layer(x, **more)
            return x

    layers = torch.nn.Module(**{str(i): Layer(part=Part()) for i in range(3)})
    return Net(h=layers, last=Part())


def changed(torch: Any, *changes: str) -> Any:
    return changing.install(torch, [one.split("=", 1) for one in changes], module_names)


@pytest.mark.parametrize(
    "pattern, names",
    [
        ("h.*", "h.0 h.1 h.2"),
        ("Net.h.*", "h.0 h.1 h.2"),
        ("*.h.*", "h.0 h.1 h.2"),
        ("Layer", "h.0 h.1 h.2"),
        ("h.*[::2]", "h.0 h.2"),
        ("h.*[1:]", "h.1 h.2"),
        ("h.*[-1:]", "h.2"),
        ("h.[12]", "h.1 h.2"),
        ("h.2,h.0", "h.0 h.2"),
        ("h.1.part,h.*[:2]", "h.0 h.1"),
        ("Part", "h.0.part h.1.part h.2.part"),  # `last` never runs
        ("Net", "Net"),
    ],
)
def test_patterns_choose_outermost_modules(torch: Any, pattern: str, names: str) -> None:
    said = changed(torch, f"checkpoint={pattern}")
    network(torch)(Tensor())
    (noted,) = said()
    assert noted["names"] == [f"Net.{one}" if one != "Net" else one for one in names.split()]
    assert noted["calls"] == len(torch.calls) == len(noted["names"])
    assert noted["missing"] == []
    assert noted["unused"] == (["Net.last"] if pattern == "Part" else [])


def test_unknown_names_have_suggestions(torch: Any) -> None:
    said = changed(torch, "checkpoint=h.*,layers.*", "checkpoint=Lyer")
    network(torch)(Tensor())
    first, second = said()
    assert (first["missing"], first["similar"]) == (["layers.*"], ["h.*"])
    assert (second["missing"], second["similar"][0]) == (["Lyer"], "Layer")


def test_recomputation_calls_the_module_again(torch: Any) -> None:
    said = changed(torch, "checkpoint=h.0")
    inner = torch.nn.Module.__call__
    entered: list[str] = []

    def recorder(module: Any, *args: Any, **kwargs: Any) -> Any:
        entered.append(type(module).__name__)
        return inner(module, *args, **kwargs)

    torch.nn.Module.__call__ = recorder
    network(torch)(Tensor(), debug=7)
    entered.clear()
    (again,) = torch.calls
    assert again()[1] == 7
    assert entered == ["Layer", "Part"]
    assert said()[0]["calls"] == 1


def test_only_training_is_checkpointed(torch: Any) -> None:
    said = changed(torch, "checkpoint=Layer")
    net = network(torch)
    torch.is_grad_enabled = lambda: False
    net(Tensor())
    torch.is_grad_enabled = lambda: True
    torch._C._current_graph_task_id = lambda: 3  # the program recomputes something
    net(Tensor())
    torch._C._current_graph_task_id = lambda: -1
    for layer in net._modules["h"]._modules.values():
        layer.training = False
    net(Tensor())
    assert (said()[0]["calls"], len(said()[0]["unused"])) == (0, 3)
    net(Tensor(requires_grad=True))
    assert (said()[0]["calls"], said()[0]["unused"]) == (3, [])


def test_modules_that_are_checkpointed_already_are_left_alone(torch: Any) -> None:
    said = changed(torch, "checkpoint=Layer")
    net = network(torch)
    sys.modules["torch.utils.checkpoint"].checkpoint(net, Tensor(), use_reentrant=False)
    (noted,) = said()
    assert (noted["names"], noted["already"], noted["calls"]) == ([], True, 0)


def test_models_are_named_by_what_contains_them(torch: Any) -> None:
    said = changed(torch, "checkpoint=model.h.*[:1]")
    trainer = type("Trainer", (torch.nn.Module,), {})(model=network(torch))
    trainer._modules["model"](Tensor())
    assert said()[0]["names"] == ["Trainer.model.h.0"]


def test_added_modules_are_found_later(torch: Any) -> None:
    said = changed(torch, "checkpoint=h.*")
    net = network(torch)
    net(Tensor())
    layers = net._modules["h"]._modules
    layers["3"] = type(layers["0"])(part=layers["0"]._modules["part"])
    net(Tensor())
    assert said()[0]["names"] == [f"Net.h.{i}" for i in range(4)]


def test_parts_of_compiled_modules_are_not_changed(torch: Any) -> None:
    said = changed(torch, "checkpoint=h.*")
    kind = type("OptimizedModule", (torch.nn.Module,), {"forward": lambda _, x: x})
    kind(_orig_mod=network(torch))(Tensor())
    (noted,) = said()
    assert (noted["names"], len(noted["unused"]), noted["compiled"]) == ([], 3, True)


def test_compiled_modules_are_changed_as_a_whole(torch: Any) -> None:
    said = changed(torch, "checkpoint=h.*")
    kind = type("OptimizedModule", (torch.nn.Module,), {})
    net = network(torch)
    layers = net._modules["h"]._modules
    for name in layers:
        layers[name] = kind(_orig_mod=layers[name])
        layers[name].forward = lambda x: x
    net(Tensor())
    assert said()[0]["names"] == ["Net.h.0", "Net.h.1", "Net.h.2"]


def test_transformers_cache_is_left_out(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    caches, models = ModuleType("caches"), ModuleType("models")
    caches.Cache = type("Cache", (), {})  # type: ignore[attr-defined]
    got: list[Any] = []

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            got.append((args, kwargs))

    class Model(torch.nn.Module):  # type: ignore[misc]
        config = SimpleNamespace(use_cache=True)

        def forward(self, x: Any, use_cache: Any = None) -> Any:
            cache = caches.Cache()
            self._modules["layer"](x, cache, past=cache, use_cache=True)
            got.append(use_cache)

    models.PreTrainedModel = Model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers.cache_utils", caches)
    monkeypatch.setitem(sys.modules, "transformers.modeling_utils", models)
    changed(torch, "checkpoint=layer")
    Model(layer=Layer())(1)
    assert got == [((1, None), {"past": None, "use_cache": False}), False]
    Layer._can_checkpoint_with_cache = True
    Model(layer=Layer())(1)
    assert got[2][1]["use_cache"] is True


def test_foreach_is_turned_off(torch: Any) -> None:
    said = changed(torch, "foreach=off")
    groups: list[dict[str, Any]] = [{"foreach": None}, {"foreach": False}, {}]
    first = torch.optim.Optimizer(groups)
    assert [one.get("foreach") for one in first.param_groups] == [False, False, None]
    second = torch.optim.Optimizer([{"foreach": True}])
    torch.optim.Optimizer([{"foreach": True, "fused": True}])
    assert said() == [{"names": ["Optimizer", "Optimizer#2"], "calls": 2}]
    second.param_groups[0]["foreach"] = True  # by a loaded state
    for hook in torch.hooks:
        hook(second, (), {})
    assert second.param_groups[0]["foreach"] is False
    assert said()[0]["calls"] == 2


def test_fused_is_turned_on(torch: Any) -> None:
    said = changed(torch, "fused=on")
    group: dict[str, Any] = {"fused": None, "foreach": True, "params": []}
    torch.optim.Adagrad([dict(group)])  # its fused kernel is for CPUs
    torch.optim.Optimizer([{**group, "fused": True}])
    torch.optim.Optimizer([{"foreach": None}])
    assert said()[0]["names"] == []
    optimizer = torch.optim.Optimizer([group])
    assert (group["fused"], group["foreach"]) == (True, False)
    assert optimizer._step_supports_amp_scaling
    assert said()[0]["names"] == ["Optimizer"]


def test_gradients_are_set_to_none(torch: Any) -> None:
    said = changed(torch, "set-to-none=on")
    optimizer, module = torch.optim.Optimizer([]), torch.nn.Module()
    assert [optimizer.zero_grad(), module.zero_grad(set_to_none=False)] == [True, True]
    assert optimizer.zero_grad(False) is True
    assert said()[0] == {"names": ["Module.zero_grad", "Optimizer.zero_grad"], "calls": 2}


def test_autocast_has_no_cache(torch: Any) -> None:
    said = changed(torch, "autocast-cache=off")
    cached = [torch.autocast(*args).__enter__() for args in ((True, True), (True, False))]
    assert cached == [False, False]
    assert torch.autocast(False, True).__enter__() is True
    assert said() == [{"names": ["autocast"], "calls": 1}]
