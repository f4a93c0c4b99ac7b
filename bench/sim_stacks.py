"""Generate the call stacks of a simulated training program, as recorded with `stacks="all"`.

Innermost first, a stack consists of the unwinder, the allocator, ATen, the dispatcher and autograd;
then the user's Python frames with the interpreter's C frames in between; then the process's start.
Each frame has a rank. To reach the requested depth, the frames with the highest ranks are dropped
first; those of rank 0 always stay.
"""

from __future__ import annotations

PROJECT = "/home/ana/gpt"
SITE = f"{PROJECT}/.venv/lib/python3.12/site-packages/torch"
RUNPY = "<frozen runpy>"

# Depth of a stack relative to `--depth`. The autograd engine's own frees are shallow, and forward
# allocations under four modules are deep. On average, the depth is as requested.
SCALE = {"forward": 1.2, "free": 1.12, "backward": 1.06, "engine": 0.61, "plain": 1.0}

Part = tuple[int, str, str, int]  # rank, function, file, line
Frame = dict[str, str | int]


def cpp(name: str, file: str = "??", rank: int = 0) -> Part:
    return (rank, name, file, 0)


def fresh(text: str) -> str:
    """Return an equal string that is a separate object, because PyTorch creates new strings for
    each frame.
    """
    return text.encode().decode()


_ALLOC = "c10::cuda::CUDACachingAllocator::Native::"
_INTS, _TENSOR = "c10::ArrayRef<long>", "at::Tensor const&"
_READY_QUEUE = "std::shared_ptr<torch::autograd::ReadyQueue> const&"

GATHER = (
    cpp("torch::unwind::unwind()"),
    cpp("torch::CapturedTraceback::gather(bool, bool, bool)"),
    cpp("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp"),
)
MALLOC = (
    cpp(
        f"{_ALLOC}DeviceCachingAllocator::malloc(unsigned long, CUstream_st*)",
        "CUDACachingAllocator.cpp",
    ),
    cpp(
        f"{_ALLOC}NativeCachingAllocator::malloc(void**, signed char, unsigned long, CUstream_st*)",
        "",
        1,
    ),
    cpp(f"{_ALLOC}NativeCachingAllocator::allocate(unsigned long)", "", 1),
    cpp(
        f"at::detail::empty_generic({_INTS}, c10::Allocator*, c10::DispatchKeySet, "
        "c10::ScalarType, std::optional<c10::MemoryFormat>)",
        rank=2,
    ),
    cpp(f"at::detail::empty_cuda({_INTS}, c10::TensorOptions const&)", rank=1),
)
RELEASE = (
    cpp(
        f"{_ALLOC}DeviceCachingAllocator::free({_ALLOC}(anonymous namespace)::Block*)",
        "CUDACachingAllocator.cpp",
    ),
    cpp(f"{_ALLOC}local_raw_delete(void*)", "CUDACachingAllocator.cpp", 1),
    cpp("c10::StorageImpl::~StorageImpl()", "", 1),
    cpp(
        "c10::intrusive_ptr<c10::StorageImpl, "
        "c10::detail::intrusive_target_default_null_type<c10::StorageImpl> >::reset_()",
        "",
        2,
    ),
    cpp("c10::TensorImpl::~TensorImpl()", "TensorImpl.cpp"),
)
DEALLOC = (
    cpp("THPVariable_clear(THPVariable*)", "python_variable.cpp", 1),
    cpp("THPVariable_subclass_dealloc(_object*)", "python_variable.cpp", 1),
    cpp("subtype_dealloc", rank=3),
)
ENGINE = (
    cpp(
        "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&, "
        f"torch::autograd::Node*, torch::autograd::InputBuffer&, {_READY_QUEUE})"
    ),
    cpp("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"),
    cpp(f"torch::autograd::Engine::thread_init(int, {_READY_QUEUE}, bool)", rank=1),
    cpp(f"torch::autograd::python::PythonEngine::thread_init(int, {_READY_QUEUE}, bool)", rank=1),
    cpp("execute_native_thread_routine", "thread48.o", 2),
    cpp("start_thread", rank=2),
    cpp("__clone3", rank=1),
)
# The ways in which the autograd engine releases a gradient.
GRADIENT_FREED: tuple[tuple[Part, ...], ...] = (
    (cpp("std::vector<at::Tensor, std::allocator<at::Tensor> >::~vector()"),),
    (cpp("torch::autograd::InputBuffer::~InputBuffer()", "input_buffer.cpp"),),
    (
        cpp("torch::autograd::InputMetadata::reduce_grad(at::Tensor&) const"),
        cpp(
            "void torch::autograd::validate_outputs_impl<torch::autograd::Edge>("
            "std::vector<torch::autograd::Edge, std::allocator<torch::autograd::Edge> > const&, "
            "std::vector<at::Tensor, std::allocator<at::Tensor> >&)",
            "engine.cpp",
            1,
        ),
    ),
    (
        cpp("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)"),
        cpp("torch::autograd::Node::operator()(std::vector<at::Tensor>&&)", rank=1),
    ),
    (
        cpp("torch::autograd::InputBuffer::accumulate(std::vector<at::Tensor>&, unsigned long)"),
        cpp("torch::autograd::InputBuffer::add(unsigned long, at::Tensor&&)", rank=1),
    ),
)
PROCESS_START = (
    cpp("PyEval_EvalCode", rank=2),
    cpp("run_mod", rank=4),
    cpp("pyrun_file", rank=4),
    cpp("_PyRun_SimpleFileObject", rank=4),
    cpp("_PyRun_AnyFileObject", rank=4),
    cpp("pymain_run_file", rank=3),
    cpp("Py_RunMain", rank=2),
    cpp("Py_BytesMain", rank=2),
    cpp("__libc_start_call_main", rank=3),
    cpp("__libc_start_main", rank=2),
    cpp("_start", rank=1),
)


def operator(op: str, shape: str) -> tuple[Part, ...]:
    """Return the frames between an operator's call from Python (or autograd) and its allocation."""
    head: tuple[Part, ...]
    if shape == "empty":
        head = (cpp(f"at::native::{op}({_TENSOR})", f"{op.strip('_').title()}.cpp"),)
    else:
        head = (
            cpp(
                f"at::(anonymous namespace)::create_out({_INTS}, {_INTS}, "
                "c10::TensorOptions const&)",
                "RegisterCUDA_0.cpp",
                3,
            ),
            cpp(
                f"at::(anonymous namespace)::structured_{op}_out_functional::"
                f"set_output_raw_strided(long, {_INTS}, {_INTS}, c10::TensorOptions, "
                "c10::ArrayRef<at::Dimname>)",
                "RegisterCUDA_0.cpp",
                1,
            ),
        )
    if shape == "iterator":
        head += (
            cpp("at::TensorIteratorBase::allocate_or_resize_outputs()", rank=2),
            cpp("at::TensorIteratorBase::build(at::TensorIteratorConfig&)", rank=2),
        )
    part = sum(op.encode()) % 5
    return (
        *head,
        cpp(f"at::(anonymous namespace)::wrapper_CUDA_{op}({_TENSOR})", "RegisterCUDA_0.cpp", 2),
        cpp(
            "c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::"
            "WrapFunctionIntoFunctor_<c10::CompileTimeFunctionPointer<at::Tensor "
            f"({_TENSOR}), &at::(anonymous namespace)::wrapper_CUDA_{op}> > >::call("
            f"c10::OperatorKernel*, c10::DispatchKeySet, {_TENSOR})",
            "RegisterCUDA_0.cpp",
            3,
        ),
        cpp(f"at::_ops::{op}::redispatch(c10::DispatchKeySet, {_TENSOR})", rank=2),
        cpp(
            f"torch::autograd::VariableType::(anonymous namespace)::{op}("
            f"c10::DispatchKeySet, {_TENSOR})",
            f"VariableType_{part}.cpp",
            1,
        ),
        cpp(f"at::_ops::{op}::call({_TENSOR})"),
    )


def binding(op: str) -> tuple[Part, ...]:
    """Return the frames from the interpreter into an operator."""
    return (
        cpp(
            f"torch::autograd::THPVariable_{op}(_object*, _object*, _object*)",
            f"python_torch_functions_{sum(op.encode()) % 3}.cpp",
            1,
        ),
        cpp("cfunction_call", rank=3),
    )


def node(backward: str) -> tuple[Part, ...]:
    """Return the frames of an autograd node in the engine's thread."""
    return (
        cpp(
            f"torch::autograd::generated::{backward}::apply("
            "std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
            f"Functions_{sum(backward.encode()) % 4}.cpp",
        ),
        cpp(
            "torch::autograd::Node::operator()("
            "std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
            rank=1,
        ),
    )


def python(*calls: tuple[str, int, str]) -> tuple[Part, ...]:
    """Return Python frames, each followed by the interpreter's C frames."""
    parts: list[Part] = []
    for file, line, name in calls:
        parts.append((0, name, file, line))
        parts.append(cpp("_PyEval_EvalFrameDefault", rank=3))
        parts.append(cpp("method_vectorcall", rank=4))
    return tuple(parts)


CALL = (
    (0, "_call_impl", f"{SITE}/nn/modules/module.py", 1784),
    cpp("_PyEval_EvalFrameDefault", rank=3),
    cpp("PyObject_Vectorcall", rank=4),
    (0, "_wrapped_call_impl", f"{SITE}/nn/modules/module.py", 1773),
    cpp("_PyEval_EvalFrameDefault", rank=3),
    cpp("_PyObject_Call_Prepend", rank=4),
    cpp("slot_tp_call", rank=3),
    cpp("_PyObject_MakeTpCall", rank=3),
)

MODEL, TRAIN, DATA = f"{PROJECT}/model.py", f"{PROJECT}/train.py", f"{PROJECT}/data.py"
EVALUATE = f"{PROJECT}/evaluate.py"

MODULE_RUN = (
    (0, "<module>", TRAIN, 231),
    (2, "_run_code", RUNPY, 88),
    (2, "_run_module_as_main", RUNPY, 198),
    *PROCESS_START,
)
ROOTS = {
    "build": (*python((TRAIN, 118, "main")), *MODULE_RUN),
    "train": (*python((TRAIN, 164, "train_step"), (TRAIN, 214, "main")), *MODULE_RUN),
    "accumulate": (
        *python((TRAIN, 149, "accumulate"), (TRAIN, 161, "train_step"), (TRAIN, 214, "main")),
        *MODULE_RUN,
    ),
    "sample": (
        *python((MODEL, 236, "generate"), (EVALUATE, 66, "sample"), (TRAIN, 209, "main")),
        *MODULE_RUN,
    ),
    "eval": (
        *python((EVALUATE, 41, "estimate_loss")),
        *python((f"{SITE}/utils/_contextlib.py", 120, "decorate_context"), (TRAIN, 207, "main")),
        *MODULE_RUN,
    ),
}


def _module(*layers: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the frames of `forward` methods, innermost first, each called through nn.Module."""
    parts: tuple[Part, ...] = ()
    for layer in layers:
        parts += layer + CALL
    return parts


_GPT_LOOP = python((MODEL, 187, "forward"))
_BLOCK_ATTENTION = (python((MODEL, 121, "forward")), _GPT_LOOP)
_BLOCK_MLP = (python((MODEL, 122, "forward")), _GPT_LOOP)
_LINEAR = python((f"{SITE}/nn/modules/linear.py", 134, "forward"))
_DROPOUT = (
    *python((f"{SITE}/nn/functional.py", 1448, "dropout")),
    *python((f"{SITE}/nn/modules/dropout.py", 73, "forward")),
)
_NORM = (
    *python((f"{SITE}/nn/functional.py", 2942, "layer_norm")),
    *python((MODEL, 29, "forward")),
)


def _attention(line: int) -> tuple[Part, ...]:
    return _module(python((MODEL, line, "forward")), *_BLOCK_ATTENTION)


def _mlp(line: int) -> tuple[Part, ...]:
    return _module(python((MODEL, line, "forward")), *_BLOCK_MLP)


def _adamw(line: int, name: str) -> tuple[Part, ...]:
    optim = f"{SITE}/optim"
    return python(
        (f"{optim}/adam.py", line, name),
        (f"{optim}/adam.py", 949, "adam"),
        (f"{optim}/optimizer.py", 149, "maybe_fallback"),
        (f"{optim}/adam.py", 247, "step"),
        (f"{optim}/optimizer.py", 79, "_use_grad"),
        (f"{optim}/optimizer.py", 517, "wrapper"),
    )


# Call sites in the user's program. Each is the Python part of a stack down to the root.
PLACES: dict[str, tuple[Part, ...]] = {
    "ln1": _module(_NORM, python((MODEL, 121, "forward")), _GPT_LOOP),
    "ln2": _module(_NORM, python((MODEL, 122, "forward")), _GPT_LOOP),
    "ln_f": _module(_NORM, python((MODEL, 188, "forward"))),
    "attn.qkv": _module(_LINEAR, python((MODEL, 61, "forward")), *_BLOCK_ATTENTION),
    "attn.split": _attention(62),
    "attn.scores": _attention(70),
    "attn.scale": _attention(70),
    "attn.mask": _attention(71),
    "attn.softmax": (
        *python((f"{SITE}/nn/functional.py", 2133, "softmax")),
        *_attention(72),
    ),
    "attn.drop": _module(_DROPOUT, python((MODEL, 73, "forward")), *_BLOCK_ATTENTION),
    "attn.value": _attention(74),
    "attn.merge": _attention(75),
    "attn.proj": _module(_LINEAR, python((MODEL, 78, "forward")), *_BLOCK_ATTENTION),
    "attn.resid": _module(_DROPOUT, python((MODEL, 78, "forward")), *_BLOCK_ATTENTION),
    "attn.add": _module(*_BLOCK_ATTENTION),
    "mlp.fc": _module(_LINEAR, python((MODEL, 98, "forward")), *_BLOCK_MLP),
    "mlp.gelu": _module(
        python((MODEL, 41, "forward")), python((MODEL, 99, "forward")), *_BLOCK_MLP
    ),
    "mlp.proj": _module(_LINEAR, python((MODEL, 100, "forward")), *_BLOCK_MLP),
    "mlp.drop": _module(_DROPOUT, python((MODEL, 101, "forward")), *_BLOCK_MLP),
    "mlp.add": _module(*_BLOCK_MLP),
    "embed.tok": _module(
        (
            *python((f"{SITE}/nn/functional.py", 2546, "embedding")),
            *python((f"{SITE}/nn/modules/sparse.py", 192, "forward")),
        ),
        python((MODEL, 183, "forward")),
    ),
    "embed.pos": _module(python((MODEL, 182, "forward"))),
    "embed.add": _module(python((MODEL, 185, "forward"))),
    "head": _module(_LINEAR, python((MODEL, 192, "forward"))),
    "loss": (
        *python((f"{SITE}/nn/functional.py", 3494, "cross_entropy")),
        *_module(python((MODEL, 193, "forward"))),
    ),
    "batch": python((DATA, 57, "next_batch"), (TRAIN, 159, "train_step")),
    "prefetch": python((DATA, 49, "_prefetch"), (DATA, 58, "next_batch")),
    "backward": python(
        (f"{SITE}/autograd/__init__.py", 199, "_make_grads"),
        (f"{SITE}/autograd/__init__.py", 346, "backward"),
        (f"{SITE}/_tensor.py", 625, "backward"),
        (TRAIN, 168, "backward_pass"),
    ),
    "clip.norm": python(
        (f"{SITE}/nn/utils/clip_grad.py", 92, "_get_total_norm"),
        (f"{SITE}/nn/utils/clip_grad.py", 38, "_no_grad_wrapper"),
        (f"{SITE}/nn/utils/clip_grad.py", 221, "clip_grad_norm_"),
    ),
    "clip.scale": python(
        (f"{SITE}/nn/utils/clip_grad.py", 155, "_clip_grads_with_norm_"),
        (f"{SITE}/nn/utils/clip_grad.py", 222, "clip_grad_norm_"),
    ),
    "adamw.init": python(
        (f"{SITE}/optim/adam.py", 182, "_init_group"),
        (f"{SITE}/optim/adam.py", 232, "step"),
        (f"{SITE}/optim/optimizer.py", 517, "wrapper"),
    ),
    "adamw.denom": _adamw(501, "_single_tensor_adam"),
    "adamw.update": _adamw(514, "_single_tensor_adam"),
    "zero_grad": python(
        (f"{SITE}/optim/optimizer.py", 1035, "zero_grad"), (TRAIN, 156, "zero_grads")
    ),
    "log": python((TRAIN, 176, "log_metrics")),
    "autocast": python((f"{SITE}/amp/autocast_mode.py", 393, "__exit__")),
    "init": (
        *python((f"{SITE}/nn/modules/module.py", 1355, "convert")),
        *python((f"{SITE}/nn/modules/module.py", 942, "_apply")),
        *python((f"{SITE}/nn/modules/module.py", 1369, "to")),
        *python((MODEL, 161, "from_config")),
    ),
    "step": (),
    "empty_cache": python((f"{SITE}/cuda/memory.py", 236, "empty_cache")),
    "gc": python((f"{PROJECT}/utils.py", 33, "_on_gc"), (TRAIN, 172, "after_step")),
}


class Stacks:
    """A program's stacks at one depth. Each is a tuple of frame numbers, created on demand."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.frames: list[Frame] = []
        self.stacks: list[tuple[int, ...]] = []
        self._frame_ids: dict[tuple[str, str, int, int], int] = {}
        self._stack_ids: dict[tuple[str, ...], int] = {}

    def _frame(self, part: Part, variant: int) -> int:
        _, name, file, line = part
        key = (name, file, line, variant)
        number = self._frame_ids.get(key)
        if number is None:
            number = self._frame_ids[key] = len(self.frames)
            self.frames.append({"name": fresh(name), "filename": fresh(file), "line": line})
        return number

    def _add(self, key: tuple[str, ...], parts: tuple[Part, ...], scale: str) -> int:
        want = max(1, round(self.depth * SCALE[scale]))
        kept = list(parts)
        for rank in (4, 3, 2, 1):
            excess = len(kept) - want
            if excess <= 0:
                break
            # Drop the outermost frames first, so that the part that tells stacks apart remains.
            drop = [i for i in range(len(kept) - 1, -1, -1) if kept[i][0] == rank][:excess]
            for i in drop:
                del kept[i]
        # The interpreter's loop is one function with many return addresses, so real files contain
        # several equal dicts for it.
        frames = tuple(
            self._frame(part, i % 3 if part[1] == "_PyEval_EvalFrameDefault" else 0)
            for i, part in enumerate(kept[:want])
        )
        number = self._stack_ids[key] = len(self.stacks)
        self.stacks.append(frames)
        return number

    def alloc(self, op: str, shape: str, place: str, root: str) -> int:
        """Return the stack of an allocation by operator `op`, called from Python at `place`."""
        key = ("alloc", op, place, root)
        known = self._stack_ids.get(key)
        if known is not None:
            return known
        parts = GATHER + MALLOC + operator(op, shape) + binding(op) + PLACES[place] + ROOTS[root]
        return self._add(key, parts, "forward")

    def free(self, place: str, root: str) -> int:
        """Return the stack of a tensor freed by Python at `place`."""
        key = ("free", place, root)
        known = self._stack_ids.get(key)
        if known is not None:
            return known
        return self._add(key, GATHER + RELEASE + DEALLOC + PLACES[place] + ROOTS[root], "free")

    def backward(self, op: str, shape: str, autograd_node: str) -> int:
        """Return the stack of an allocation by operator `op` in the autograd engine."""
        key = ("backward", op, autograd_node)
        known = self._stack_ids.get(key)
        if known is not None:
            return known
        parts = GATHER + MALLOC + operator(op, shape) + node(autograd_node) + ENGINE
        return self._add(key, parts, "backward")

    def released(self, autograd_node: str) -> int:
        """Return the stack with which the engine frees a tensor saved by `autograd_node`."""
        key = ("released", autograd_node)
        known = self._stack_ids.get(key)
        if known is not None:
            return known
        parts = (
            *GATHER,
            *RELEASE,
            cpp("torch::autograd::SavedVariable::reset_data()", rank=1),
            cpp(
                f"torch::autograd::generated::{autograd_node}::release_variables()",
                f"Functions_{sum(autograd_node.encode()) % 4}.cpp",
            ),
        )
        return self._add(key, parts + ENGINE, "engine")

    def gradient_freed(self, autograd_node: str) -> int:
        """Return the stack that frees a gradient from `autograd_node` after its use."""
        way = sum(autograd_node.encode()) % len(GRADIENT_FREED)
        key = ("gradient", str(way))
        known = self._stack_ids.get(key)
        if known is not None:
            return known
        return self._add(key, GATHER + RELEASE + GRADIENT_FREED[way] + ENGINE, "engine")

    def bare(self, place: str, root: str) -> int:
        """Return the stack of a direct call of the allocator, such as empty_cache."""
        key = ("bare", place, root)
        known = self._stack_ids.get(key)
        if known is not None:
            return known
        parts = (
            *GATHER,
            cpp(f"{_ALLOC}DeviceCachingAllocator::emptyCache()", "CUDACachingAllocator.cpp"),
            cpp("THCPModule_emptyCache(_object*, _object*)", "Module.cpp"),
            *PLACES[place],
            *ROOTS[root],
        )
        return self._add(key, parts, "plain")
