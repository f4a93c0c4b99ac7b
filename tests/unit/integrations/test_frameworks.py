"""Each framework's integration, against a stand-in with the framework's interface. The real ones:
tests/frameworks.
"""

from __future__ import annotations

import signal
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.integrations.conftest import Program, fake
from tests.unit.recording.stand_in import OutOfMemoryError


class Base:
    """A framework's base class, all of whose methods do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)


def test_transformers(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "transformers", TrainerCallback=Base)
    module = import_module("memreplay.integrations.transformers")
    callback = module.MemoryCallback(steps="2-3")
    args = SimpleNamespace(output_dir="out")
    state, control = SimpleNamespace(global_step=0), SimpleNamespace()

    def call(event: str) -> None:
        found = getattr(callback, event)(
            args,
            state,
            control,
            model=None,
            optimizer=None,
            lr_scheduler=None,
            processing_class=None,
        )
        assert found is None

    call("on_train_begin")
    for _ in range(4):
        call("on_step_begin")
        program.step()
        call("on_substep_end")
        state.global_step += 1
        call("on_step_end")
    call("on_train_end")
    assert program.files == {"out/memory.rank0.pickle": 2}


def test_axolotl(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "transformers", TrainerCallback=Base)
    fake(monkeypatch, "axolotl.integrations.base", BasePlugin=Base)
    monkeypatch.setenv("MEMREPLAY_OPTIONS", "every=7")
    plugin = import_module("memreplay.integrations.axolotl").MemoryPlugin()
    (callback,) = plugin.add_callbacks_pre_trainer(SimpleNamespace(), object())
    assert callback.recording.options.every == 7
    assert isinstance(callback, Base)


class LightningTrainer:
    """Calls a callback as Lightning's Trainer does."""

    def __init__(self, callback: Any, fn: str = "fit") -> None:
        self.callback = callback
        self.global_step, self.default_root_dir = 0, "logs"
        self.state = SimpleNamespace(fn=fn)

    def call(self, event: str, *args: Any, **given: Any) -> None:
        getattr(self.callback, event)(self, None, *args, **given)


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(program: Program, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    fake(monkeypatch, package, Callback=Base)
    module = import_module("memreplay.integrations.lightning")
    trainer = LightningTrainer(module.MemoryCallback(steps=(2, 3)))
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)
    trainer.call("setup", stage="fit")
    trainer.call("on_train_start")
    for batch in range(8):
        program.forward()
        if batch % 2:  # gradients accumulate over two batches
            program.optimizers.call("adam", (), {})
            trainer.global_step += 1
        trainer.call("on_train_batch_end", None, None, batch)
        trainer.call("on_validation_batch_end", None, None, batch, 0)
    trainer.call("on_train_end")
    trainer.call("teardown", stage="fit")
    assert program.files == {"logs/memory.rank0.pickle": 4}
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)) == handlers


def test_lightning_sets_its_handlers_first(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, Slurm's signal wouldn't requeue the job, and SIGTERM would end it at once."""
    fake(monkeypatch, "lightning.pytorch", Callback=Base)
    module = import_module("memreplay.integrations.lightning")
    trainer = LightningTrainer(module.MemoryCallback())
    names = signal.SIGTERM, signal.SIGUSR1
    before = [signal.getsignal(name) for name in names]
    trainer.call("setup", stage="fit")
    assert [signal.getsignal(name) for name in names] == before
    trainer.call("on_train_start")
    assert signal.getsignal(signal.SIGTERM) == before[0]
    assert signal.getsignal(signal.SIGUSR1) == trainer.callback.recording.session.signalled
    trainer.call("teardown", stage="fit")
    assert [signal.getsignal(name) for name in names] == before


@pytest.mark.parametrize("fn", ["validate", "test", "predict"])
def test_lightnings_other_loops(program: Program, monkeypatch: pytest.MonkeyPatch, fn: str) -> None:
    fake(monkeypatch, "lightning.pytorch", Callback=Base)
    module = import_module("memreplay.integrations.lightning")
    trainer = LightningTrainer(module.MemoryCallback(steps="2"), fn)
    trainer.call("setup", stage=fn)
    loop = "validation" if fn == "validate" else fn
    for batch in range(3):
        program.forward()
        trainer.call(f"on_{loop}_batch_end", None, None, batch, 0)
    trainer.call("teardown", stage=fn)
    assert program.files == {"logs/memory.rank0.pickle": 1}


def test_error_in_lightning(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "lightning.pytorch", Callback=Base)
    module = import_module("memreplay.integrations.lightning")
    trainer = LightningTrainer(module.MemoryCallback())
    trainer.call("setup", stage="fit")
    program.forward()
    with pytest.raises(OutOfMemoryError) as caught:
        program.torch.run_out()
    trainer.call("on_exception", caught.value)
    assert program.files == {"logs/memory.rank0.pickle": 1}


@pytest.mark.parametrize("starts", [True, False])
def test_accelerate(program: Program, monkeypatch: pytest.MonkeyPatch, starts: bool) -> None:
    class Tracker:
        def __init__(self, _blank: bool = False) -> None:
            assert isinstance(self.name, str)  # type: ignore[attr-defined]
            assert not self.requires_logging_directory  # type: ignore[attr-defined]
            assert "tracker" in dir(self)

    fake(monkeypatch, "accelerate.tracking", GeneralTracker=Tracker)
    tracker = import_module("memreplay.integrations.accelerate").MemoryTracker(steps=[2, 3])
    assert not tracker.main_process_only
    if starts:
        tracker.start()
    tracker.store_init_configuration({"lr": 0.1})
    for step in range(4):
        program.step()
        tracker.log({"loss": 1.0}, step=step)
    tracker.finish()
    assert tracker.tracker.path == "memory.rank0.pickle"
    assert program.files == {"memory.rank0.pickle": 2}


def test_torchtitan(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    converters: dict[str, Any] = {}

    def register(kind: Any, name: str) -> None:
        converters[name] = kind

    fake(monkeypatch, "torchtitan.protocols.model_converter", register_model_converter=register)
    monkeypatch.setenv("MEMREPLAY_OPTIONS", "steps=2-3")
    import_module("memreplay.integrations.torchtitan")
    config = SimpleNamespace(job=SimpleNamespace(dump_folder="outputs"))
    converter = converters["memreplay"](config, object())
    assert converter.convert(object()) is None
    for _ in range(4):
        program.step()
        converter.post_optimizer_hook([object()])
    converter.recording.end()
    assert program.files == {"outputs/memory.rank0.pickle": 2}


class Adam:
    """An optimizer."""

    def __init__(self, parameters: list[int], lr: float) -> None:
        self.param_groups = [{"params": parameters, "lr": lr}]


def test_torchtune(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("memreplay.integrations.torchtune")
    monkeypatch.setattr(module, "_recordings", [])
    made = [
        module.optimizer(
            [number], of=f"{__name__}.Adam", memreplay={"steps": "2-3", "path": "a.pickle"}, lr=0.5
        )
        for number in range(2)
    ]
    assert isinstance(made[0], Adam)
    assert made[1].param_groups == [{"params": [1], "lr": 0.5}]
    for _ in range(4):
        program.step(made[0])
    module._recordings[0].end()
    assert program.files == {"a.pickle": 2}


def test_vllm(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("memreplay.integrations.vllm")
    monkeypatch.setattr(module, "_recordings", [])

    class Worker:
        """Has the extension's methods, which must not have the names of the worker's own."""

        def profile(self) -> None: ...

    assert not {name for name in dir(module.WorkerExtension) if name[:2] != "__"} & set(dir(Worker))

    class Extended(Worker, module.WorkerExtension):  # type: ignore[misc, name-defined]
        pass

    worker = Extended()
    assert worker.memreplay_dump() is None
    assert worker.memreplay_stop() is None
    assert worker.memreplay_start(path="a.rank{rank}.pickle") == "a.rank0.pickle"
    assert worker.memreplay_start() == "a.rank0.pickle"
    program.forward()
    assert worker.memreplay_dump() == "a.rank0.now.pickle"
    program.forward()
    assert worker.memreplay_stop() == "a.rank0.pickle"
    assert program.files == {"a.rank0.now.pickle": 1, "a.rank0.pickle": 2}
    # An invalid option isn't raised in the server.
    assert worker.memreplay_start(step=3) is None
