"""Compute a dry run's integers, booleans and small floats on the host.

No kernel computes anything in a dry run, so masks, lengths, indices and stopping criteria would all
be zero, and everything whose size depends on them would be wrong. But they are small, and most of
them come from the host or from operators such as arange. So a hook runs each operator of PyTorch
that handles them a second time, on CPU tensors over the same memory: device memory is address space
of this process. gpu/contents.c remembers which of it is known.

The operator itself runs as it is, so every allocation happens as before. If it reads values that it
needs for sizes (nonzero, a boolean mask), it reads what the host has computed (gpu/values.c).

The hook is a function in C (dryrun/gpu/operators.c) at a dispatch key above all others, so that
recorded stacks don't have frames of it.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

KEY = "TESTING_ONLY_GenericMode"
# c10::impl::tls_is_dispatch_key_included(DispatchKey)
IS_INCLUDED = "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE"
# at::isRecordFunctionEnabled(), at::enableRecordFunction(bool): whether profilers see operators
IS_SEEN, SET_SEEN = "_ZN2at23isRecordFunctionEnabledEv", "_ZN2at20enableRecordFunctionEb"
# Tensors with more bytes aren't computed.
MOST_FLOAT_BYTES = 1 << 16
MOST_BYTES = 32 << 20
MOST_RUNS = 1 << 12  # of elements that follow each other
TRIMMED_BYTES = 64 << 20
PARALLEL = 1 << 15  # elements; PyTorch uses several threads for more
UNKNOWN, KNOWN, SAMPLED, ASSUMED, CHOSEN, BLANK, DOUBTFUL = range(7)  # as in gpu/messages.h
FACTORY, COPIES, TESTS, WRITES, READS, FIRST, MASKED, SHAPES, OVERWRITES, FILLS, PICKS, NEVER = (
    1 << i for i in range(12)
)  # as in operators.c
NOTED, NOT_NOTED = 1, 2  # as in operators.c

# The operators that are computed; those that end with an underscore write into an argument.
FACTORIES = (
    "arange full zeros ones eye tril_indices triu_indices scalar_tensor linspace randint randperm"
)
TESTING = """
eq ne lt le gt ge isin any all argmax argmin equal isnan isinf isfinite searchsorted bucketize
count_nonzero logical_not logical_and logical_or logical_xor nonzero
"""
COPYING = "copy_ _to_copy"
READING = """
nonzero masked_select index index_put index_put_ _index_put_impl_ bincount repeat_interleave equal
_unique _unique2 unique_dim unique_consecutive
"""
OTHERS = """
zeros_like ones_like full_like new_zeros new_ones new_full randint_like
eq_ ne_ lt_ le_ gt_ ge_ logical_and_ logical_or_ logical_not_ logical_xor_
bitwise_and bitwise_or bitwise_not bitwise_xor bitwise_and_ bitwise_or_ bitwise_not_ bitwise_xor_
__and__ __or__ __xor__ __iand__ __ior__ __ixor__
__lshift__ __rshift__ bitwise_left_shift bitwise_right_shift
add add_ sub sub_ rsub mul mul_ div div_ floor_divide floor_divide_ remainder remainder_ fmod
neg neg_ abs abs_ sign clamp clamp_ clamp_min clamp_max clamp_min_ clamp_max_ minimum maximum
where masked_fill masked_fill_ ceil floor round
sum prod max min amax amin cumsum cumsum_ cumprod cummax cummin logcumsumexp mean
cat stack repeat roll flip index_select gather scatter scatter_ scatter_add scatter_add_
scatter_reduce scatter_reduce_ take index_fill index_fill_ index_copy index_copy_ index_add
index_add_ masked_scatter masked_scatter_ sort argsort topk kthvalue tril triu tril_ triu_
constant_pad_nd clone fill_ zero_ histc normal_ random_
uniform_ bernoulli bernoulli_ multinomial
"""
RANDOM = {
    *("randint", "randint_like", "randperm", "random_", "normal_"),
    *("uniform_", "bernoulli", "bernoulli_", "multinomial"),
}
# These overwrite all of their argument, which needn't be known before.
OVERWRITING = {"fill_", "zero_", "random_", "normal_", "copy_", "uniform_", "bernoulli_"}
# The second argument of these is a mask, or may contain masks.
MASKING = {"index", "index_put", "index_put_", "_index_put_impl_", "masked_select"}
# These write a number where a mask says so.
FILLING = {"where", "masked_fill", "masked_fill_"}
# These choose indices by floats.
PICKING = {"topk", "argmax", "argmin", "max", "min", "multinomial"}
# Operators that write into arguments although their schemas don't say so.
SILENT = """
batch_norm native_batch_norm cudnn_batch_norm instance_norm _batch_norm_impl_index
batch_norm_update_stats batch_norm_gather_stats batch_norm_gather_stats_with_counts
"""
# Operators that change a tensor, but not its memory.
RESHAPING = """
as_strided_ detach_ rename_ requires_grad_ resize_ resize_as_ set_ set_data squeeze_ swapaxes_
swapdims_ t_ transpose_ unsqueeze_ _resize_output_ record_stream retain_grad
"""
# Python code that the dispatcher doesn't call with an operator's arguments.
NOT_HOOKED = {
    "aten::where",
    "aten::repeat_interleave.self_Tensor",
    "aten::repeat_interleave.self_int",
}


class CannotError(Exception):
    """An operator's result can't be computed."""


# Errors of PyTorch, too: its operator also fails on the card, or isn't implemented for the host.
CANNOT = (CannotError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)


class Values:
    """The values of one process, and the hooks around PyTorch's operators."""

    def __init__(self, torch: Any, card: str, *, even: bool = True) -> None:
        """`even`: whether choices by unknown values are spread evenly, rather than all the same."""
        self.torch, self.even = torch, even
        self.tensors = [torch.Tensor, torch.nn.Parameter]
        types = {one for one in vars(torch).values() if isinstance(one, torch.dtype)}
        self.floats = {one for one in types if one.is_floating_point or one.is_complex}
        self.cpu = torch.device("cpu")
        self.generator = torch.Generator().manual_seed(0)
        self.library = ctypes.CDLL(card)
        where = [ctypes.c_uint64, ctypes.c_uint64]
        self.library.memreplay_knowledge.argtypes = where
        self.library.memreplay_is_any_known.argtypes = where
        self.library.memreplay_is_on_card.argtypes = where[:1]
        self.library.memreplay_last_page.restype = where[0]
        self.library.memreplay_know.argtypes = [*where, ctypes.c_int]
        self.trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        self.computed_bytes = 0  # since the last trim
        self.registered: list[Any] = []
        self.operators: Any = None  # the library
        self.is_on = False  # whether operators are hooked

    # --- tensors

    def is_ours(self, it: Any) -> bool:
        """Return whether a tensor is in the fake card's memory, and nothing but memory."""
        return type(it) in self.tensors and it.is_cuda and it.layout is self.torch.strided

    def place(self, tensor: Any) -> tuple[int, int]:
        """Return the address of a tensor's first element, and the bytes up to its last one."""
        elements = 1
        for size, stride in zip(tensor.shape, tensor.stride()):  # noqa: B905 - of Python 3.10
            if not size:
                return 0, 0
            elements += (size - 1) * stride
        at = tensor.data_ptr()
        if not self.library.memreplay_is_on_card(at):  # it has no memory of its own
            raise CannotError
        return at, elements * tensor.element_size()

    def runs(self, tensor: Any, place: tuple[int, int]) -> list[tuple[int, int]]:
        """Return the address and bytes of each run of elements; nothing if they are too many."""
        run, count, outer = 1, 1, []
        for stride, size in sorted(zip(tensor.stride(), tensor.shape)):  # noqa: B905
            if stride <= run:
                run += (size - 1) * stride
            elif size > 1:
                outer.append((stride, size))
                count *= size
        if count == 1:
            return [place]
        if count > MOST_RUNS:
            return []
        one = tensor.element_size()
        starts = [place[0]]
        for stride, size in outer:
            starts = [start + i * stride * one for start in starts for i in range(size)]
        return [(start, run * one) for start in starts]

    def knowledge(self, tensor: Any, place: tuple[int, int]) -> int:
        """Return how far a tensor's values are known."""
        found: int = self.library.memreplay_knowledge(*place)
        if found != UNKNOWN or tensor.numel() * tensor.element_size() == place[1]:
            return found
        runs = self.runs(tensor, place)
        if len(runs) < 2:  # nothing lies between
            return UNKNOWN
        for one in runs:
            its = self.library.memreplay_knowledge(*one)
            if its == UNKNOWN:
                return UNKNOWN
            found = max(found, its)
        return found

    def on_host(self, tensor: Any, place: tuple[int, int]) -> Any:
        """Return a CPU tensor over the same memory."""
        at, n_bytes = place
        if not n_bytes:
            return self.torch.empty(tensor.shape, dtype=tensor.dtype, device=self.cpu)
        memory = (ctypes.c_char * n_bytes).from_address(at)
        flat = self.torch.frombuffer(memory, dtype=tensor.dtype)
        return flat.as_strided(tensor.shape, tensor.stride())

    def note(self, tensor: Any, state: int) -> None:
        """Note that a tensor's values are known, doubtful, or unknown."""
        place = self.place(tensor)
        if not place[1] or (state == UNKNOWN and not self.library.memreplay_is_any_known(*place)):
            return
        runs = self.runs(tensor, place)
        if not runs:  # what lies between them is forgotten, or as it was
            runs = [place]
            if not self.library.memreplay_knowledge(*place):
                state = UNKNOWN
        for at, n_bytes in runs:
            self.library.memreplay_know(at, n_bytes, state)

    def count(self, n_bytes: int) -> None:
        """Return the host's memory now and then: large results leave holes in its heap."""
        self.computed_bytes += n_bytes
        if self.computed_bytes > TRIMMED_BYTES:
            self.computed_bytes = 0
            if self.trim:
                self.trim(0)

    # --- hooks

    def begin(self, native: Any, core: str) -> bool:
        """Hook the operators. Return whether that's possible with this PyTorch."""
        c = self.torch._C
        key, modes = (int(c._dispatch_key_parse(name).value) for name in (KEY, "Python"))
        most = MOST_FLOAT_BYTES // 4, MOST_BYTES
        card = self.library._name
        masks = {self.torch.bool, self.torch.uint8}
        compiler = getattr(getattr(c, "_dynamo", None), "eval_frame", None)
        set_compiler = getattr(compiler, "set_eval_frame", lambda _: None)
        tensors = self.tensors, self.torch.Tensor, self.floats, masks, set_compiler
        if not native.begin(key, modes, card, core, *tensors, *most):
            return False
        made = self.torch.library.Library("_", "IMPL")
        made.fallback(self.torch.library.fallthrough_kernel, KEY)
        self.registered = [made, self.torch.library.Library("aten", "IMPL")]
        # Library.impl() and torch.ops would take ten times as long.
        register = self.registered[1].m.impl
        for name, hook in self.all_hooks(native):
            register(name, KEY, hook)
        self.operators = ctypes.PyDLL(os.path.join(os.path.dirname(core), "libtorch_cpu.so"))
        getattr(self.operators, IS_SEEN).restype = ctypes.c_bool
        getattr(self.operators, SET_SEEN).argtypes = [ctypes.c_bool]
        included = ctypes.cast(getattr(ctypes.CDLL(core), IS_INCLUDED), ctypes.c_void_p)
        self.library.memreplay_values_begin(included, key)
        self.is_on = True
        in_threads(lambda: c._dispatch_tls_set_dispatch_key_included(KEY, self.is_on))
        return True

    def check(self) -> bool:
        """Compute a known result, and switch the hooks of this thread and of later ones off if it
        isn't right. Returns whether they stay on.

        The tensor has no memory of PyTorch's allocator, so that the snapshot has no event of it.
        """
        torch, at = self.torch, self.library.memreplay_last_page()
        device = torch.device("cuda", torch.cuda.current_device())
        try:
            storage = torch._C._construct_storage_from_data_pointer(at, device, 8)
        except AttributeError:
            return True  # PyTorch before 2.1 can't make such a tensor
        with torch.no_grad():
            probe = torch.empty(0, dtype=torch.int64, device=device).set_(storage, 0, (1,))
            probe.fill_(5).add_(2).mul_(6)
        memory = ctypes.c_int64.from_address(at)
        self.is_on = memory.value == 42 and self.library.memreplay_knowledge(at, 8) == KNOWN
        self.library.memreplay_know(at, 8, UNKNOWN)
        self.library.memreplay_forget_kernels()
        memory.value = 0
        if not self.is_on:
            self.library.memreplay_values_begin(None, 0)
            torch._C._dispatch_tls_set_dispatch_key_included(KEY, False)
        return self.is_on

    def all_hooks(self, native: Any) -> Iterator[tuple[str, Any]]:
        """Yield the names of operators that need a hook, each with its hook."""
        flags = dict.fromkeys(OTHERS.split(), 0)
        silent, reshaping = set(SILENT.split()), set(RESHAPING.split())
        kinds = (FACTORIES, FACTORY), (TESTING, TESTS), (COPYING, COPIES | READS), (READING, READS)
        for names, flag in kinds:
            for name in names.split():
                flags[name] = flags.get(name, 0) | flag
        c = self.torch._C
        for full in c._dispatch_get_all_op_names():
            space, _, name = full.partition("::")
            if space != "aten" or full in NOT_HOOKED:
                continue
            name, _, overload = name.partition(".")
            computed = name in flags
            schema = c._get_schema(f"aten::{name}", overload)
            writes = schema.is_mutable or name in silent
            # Such an operator makes a tensor of the number, which Python code can't be passed.
            first = bool(schema.arguments) and str(schema.arguments[0].type) == "number"
            if not (computed or writes or first):
                continue
            if "Dimname" in str(schema) or not c._dispatch_has_kernel(full):
                continue
            operator = c._get_operation_overload(f"aten::{name}", overload)[0]
            if computed or (schema.is_mutable and name not in reshaping):
                made = Operator(self, operator, schema, flags[name] if computed else NEVER)
                yield full, native.hooked(made.members())
            else:
                yield full, native.passed((operator, NOT_NOTED if writes else NOTED))


def in_threads(enter: Callable[[], None]) -> None:
    """Call a function in this thread, and in all that Python starts later."""
    inside = threading.Thread
    inside._bootstrap_inner = Entering(inside._bootstrap_inner, enter)  # type: ignore[attr-defined]
    enter()


class Entering:
    """A method before which a function is called. It leaves no frame in the method's stack."""

    def __init__(self, method: Callable[..., Any], enter: Callable[[], None]) -> None:
        self.method, self.enter = method, enter

    def __get__(self, thread: Any, _: type) -> Any:
        if thread is None:  # for a program that wraps it
            return self
        self.enter()
        return self.method.__get__(thread)

    def __call__(self, thread: Any) -> Any:
        self.enter()
        return self.method(thread)


class Operator:
    """An operator whose values are computed."""

    def __init__(self, values: Values, operator: Any, schema: Any, flags: int) -> None:
        self.values, self.operator = values, operator
        self.name = name = schema.name.partition("::")[2]
        arguments = schema.arguments
        self.written = [
            (i, one.name)
            for i, one in enumerate(arguments)
            if one.alias_info is not None and one.alias_info.is_write
        ]
        self.is_placed = any(one.name == "device" for one in arguments)
        factory = not any("Tensor" in str(one.type) and not one.is_out for one in arguments)
        flags = (flags & ~FACTORY) | (FACTORY if factory else 0)
        first = len(self.written) == 1 and self.written[0][0] == 0
        self.masked = name in MASKING
        self.flags = flags | (WRITES if self.written else 0) | (FIRST if first else 0)
        self.flags |= MASKED if self.masked else 0
        self.flags |= SHAPES if name.startswith("new_") or name.endswith("_like") else 0
        self.flags |= OVERWRITES if name in OVERWRITING else 0
        self.flags |= FILLS if name in FILLING else 0
        self.flags |= PICKS if name in PICKING else 0

    def members(self) -> tuple[Any, ...]:
        """Return what the hook needs, in the order of operators.c."""
        return self.operator, self.before, self.after, self.forget, self.flags

    # --- what the hook calls

    def before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Pass the numbers that the operator is going to read. Return the result if computed."""
        with Apart(self.values):
            found = None
            try:
                if self.flags & COPIES:
                    return self.copied(args, kwargs)
                if self.masked:
                    answers, state = self.counted(args)
                    self.answer(answers, state)
                if not self.written:
                    found = self.computed(args, kwargs)
                    if not self.masked:
                        self.answer(self.sizes(args, found[0]), found[1])
            except CANNOT:
                pass
            return found

    def copied(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute a copy to the host. A tensor with gaps would be gathered on the card first."""
        into = args[0].device if self.written else kwargs.get("device")
        source = args[1 if self.written else 0]
        if into is None or into.type != "cpu" or not source.is_cuda:
            return None
        host = OnHost(self.values, self.flags)
        host.of(source, False)
        self.answer([], host.state, rest=True)
        return None if self.written else self.computed(args, kwargs)

    def after(self, found: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Write the results where the operator would have written them."""
        values = self.values
        with Apart(values):
            try:
                if self.flags & FACTORY and not self.is_small(out):
                    return
                result, state = found or self.computed(args, kwargs)
                self.store(args, kwargs, out, result, state)
                return
            except CANNOT:
                self.forget(args, kwargs)
            try:
                if self.flags & PICKS and not self.written:
                    self.pick(args, out)
            except CANNOT:
                pass

    def forget(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forget the values of everything that the operator writes into."""
        values = self.values
        try:
            for one in self.tensors_written(args, kwargs):
                if values.is_ours(one):
                    values.note(one, UNKNOWN)
                elif one.is_cuda:
                    raise CannotError
        except CANNOT:  # it has no memory of its own, e.g. within vmap
            values.library.memreplay_doubt_all()

    # --- choosing

    def pick(self, args: tuple[Any, ...], out: Any) -> None:
        """Choose indices by unknown values: each row others, or all rows the same.

        The first one is in the middle, because the ends of a vocabulary are for special tokens,
        which end a sentence.
        """
        values, torch = self.values, self.values.torch
        source, indices = args[0], out[1] if isinstance(out, tuple) else out
        if not values.is_ours(source) or not values.is_ours(indices):
            return
        if source.dtype not in values.floats or indices.dtype is not torch.int64:
            return
        dim, n_chosen = self.chosen(args, source.dim())
        n = source.numel() if dim is None else source.shape[dim]
        place = values.place(indices)
        if not place[1] or place[1] > MOST_BYTES:
            return
        rows = indices.numel() // n_chosen
        made = (torch.arange(rows * n_chosen if values.even else n_chosen) + n // 2) % n
        made = made.view(-1, n_chosen).expand(rows, n_chosen)
        if n_chosen > 1 and dim is not None:
            made = made.reshape(indices.movedim(dim, -1).shape).movedim(-1, dim)
        values.on_host(indices, place).copy_(made.reshape(indices.shape))
        values.note(indices, CHOSEN)

    def picked(self, args: list[Any]) -> Any:
        """Choose from values, some of which were taken for zeros. Equal ones are chosen as if they
        were unknown.
        """
        source = args[0]
        if self.name == "multinomial":
            raise CannotError
        dim, n_chosen = self.chosen(tuple(args), source.dim())
        rows = source.reshape(1, -1) if dim is None else source.movedim(dim, -1)
        n = rows.shape[-1]
        torch = self.values.torch
        order = torch.arange(rows.numel() // n * n_chosen if self.values.even else n_chosen)
        order = (order[::n_chosen, None] + n // 2 + torch.arange(n)) % n
        order = order.expand(rows.numel() // n, n).reshape(rows.shape)
        descending = self.name not in ("argmin", "min") and all(args[3:4])
        values, at = rows.gather(-1, order).sort(-1, descending=descending, stable=True)
        indices = order.gather(-1, at)[..., :n_chosen]
        values = values[..., :n_chosen]
        if self.name == "topk" and dim is not None:
            return values.movedim(-1, dim), indices.movedim(-1, dim)
        if dim is None:
            return indices.reshape([1] * source.dim() if any(args[2:3]) else [])
        whole = [
            one.movedim(-1, dim) if any(args[2:3]) else one[..., 0] for one in (values, indices)
        ]
        return whole[1] if self.name.startswith("arg") else tuple(whole)

    def chooses(self, args: list[Any]) -> bool:
        """Return whether the operator chooses indices: max and min only do along a dimension."""
        along = type(args[1]) is int if len(args) > 1 else False
        return bool(self.flags & PICKS) and (along or self.name not in ("max", "min"))

    def chosen(self, args: tuple[Any, ...], dims: int) -> tuple[int | None, int]:
        """Return the dimension in which an operator chooses (None for all), and how many."""
        if self.name == "topk":
            return (args[2] if len(args) > 2 else -1) if dims else None, args[1]
        if self.name == "multinomial":
            return -1, args[1]
        dim = args[1] if len(args) > 1 else None
        return dim if dims else None, 1

    # --- computing

    def tensors_written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
        for i, name in self.written:
            one = args[i] if i < len(args) else kwargs.get(name)
            for tensor in one if isinstance(one, (list, tuple)) else (one,):
                if tensor is not None:
                    yield tensor

    def is_small(self, it: Any) -> bool:
        values = self.values
        if not values.is_ours(it):
            return False
        most = MOST_FLOAT_BYTES if it.dtype in values.floats else MOST_BYTES
        return values.place(it)[1] <= most

    def computed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, int]:
        """Run the operator on the host. Return its result, and how far it's known."""
        values, torch = self.values, self.values.torch
        host = OnHost(values, self.flags)
        written = {i for i, _ in self.written}
        named = {name for _, name in self.written}
        mine = [host.of(one, i in written) for i, one in enumerate(args)]
        host.overwrites = True  # outputs that the program passes by name
        by_name = {name: host.of(one, name in named) for name, one in kwargs.items()}
        host.check()
        if self.is_placed and ("device" in by_name or self.flags & FACTORY):
            by_name["device"] = values.cpu
        if by_name.get("pin_memory"):
            by_name["pin_memory"] = False
        threads = torch.get_num_threads() if host.most > PARALLEL else 1
        if threads > 1:
            torch.set_num_threads(1)
        try:
            if host.is_unknown and self.chooses(mine):
                return self.picked(mine), host.state
            if self.name not in RANDOM:
                return self.without_nan(self.operator(*mine, **by_name), host), host.state
            by_name.pop("generator", None)
            return self.sampled(mine, by_name), max(SAMPLED, host.state)
        finally:
            if threads > 1:
                torch.set_num_threads(threads)

    def without_nan(self, result: Any, host: OnHost) -> Any:
        """Replace NaN by zeros if it comes from values that were taken for zeros."""
        if host.is_unknown:
            for one in result if isinstance(result, (list, tuple)) else (result,):
                if isinstance(one, self.values.torch.Tensor) and one.dtype in self.values.floats:
                    one.nan_to_num_(0.0, math.inf, -math.inf)
        return result

    def sampled(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run an operator with random numbers of our own, not with those of the program."""
        ours, theirs = self.values.generator, self.values.torch.default_generator
        before = theirs.get_state()
        theirs.set_state(ours.get_state())
        try:
            return self.operator(*args, **kwargs)
        finally:
            ours.set_state(theirs.get_state())
            theirs.set_state(before)

    def store(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, result: Any, state: int
    ) -> None:
        values = self.values
        written = list(self.tensors_written(args, kwargs))
        for one in written:
            if values.is_ours(one):
                values.note(one, state)
        if self.written:
            return
        many = isinstance(out, (list, tuple))
        for one, its in zip(out, result) if many else ((out, result),):  # noqa: B905
            if not isinstance(its, values.torch.Tensor) or one is its:
                continue
            if one.shape != its.shape or one.dtype != its.dtype:
                continue
            if self.flags & COPIES and type(one) in values.tensors and not one.is_cuda:
                one.copy_(its)
            elif values.is_ours(one):
                if one.is_conj() or one.is_neg():  # its memory isn't what it reads as
                    raise CannotError
                place = values.place(one)
                values.on_host(one, place).copy_(its)
                picks = self.flags & PICKS and one.dtype not in values.floats
                values.note(one, min(state, CHOSEN) if picks else state)
                values.count(place[1])

    # --- numbers that an operator reads

    def answer(self, answers: list[int], state: int, *, rest: bool = False) -> None:
        """Pass the next numbers that the operator reads; `rest`: no other read matters."""
        numbers = (ctypes.c_int64 * len(answers))(*answers)
        self.values.library.memreplay_answers(numbers, len(answers), rest, state)

    def sizes(self, args: tuple[Any, ...], result: Any) -> list[int]:
        """Return the numbers that the operator reads to find its result's size."""
        name = self.name
        if name == "equal":
            return [int(result)]
        if name == "bincount":
            host = OnHost(self.values, self.flags).of(args[0], False)
            return [int(host.min()), int(host.max())] if host.numel() else []
        if name == "repeat_interleave":
            return [int(result.shape[0]), 1]
        if name == "unique_dim":
            return [int(result[0].shape[args[1]])]
        return [int((result[0] if isinstance(result, tuple) else result).shape[0])]

    def counted(self, args: tuple[Any, ...]) -> tuple[list[int], int]:
        """Return how many elements the masks select, whether or not the elements are known."""
        values, torch = self.values, self.values.torch
        found = []
        host = OnHost(values, self.flags)
        whole = args[0].shape if self.name == "masked_select" else None
        for mask in args[1:2] if whole is not None else args[1]:
            if mask is None or mask.dtype not in (torch.bool, torch.uint8):
                continue
            if not values.is_ours(mask):
                raise CannotError
            here = host.of(mask, False)
            if whole is not None and mask.shape != whole:
                here = here.expand(torch.broadcast_shapes(mask.shape, whole))
            found.append(int(here.count_nonzero()))
        return found, host.state


class OnHost:
    """The arguments of an operator as CPU tensors, and how far their values are known."""

    def __init__(self, values: Values, flags: int) -> None:
        self.values, self.flags = values, flags
        self.overwrites = bool(flags & OVERWRITES)  # what it writes, it needn't know before
        self.state = KNOWN
        self.most = 0  # elements of the largest tensor
        self.is_known = self.is_unknown = False  # whether any floats are
        self.is_lost = False  # whether it writes into known floats
        self.made: dict[int, Any] = {}

    def of(self, it: Any, written: bool) -> Any:
        """Return an argument on the host. Raises CannotError if its values aren't known."""
        torch = self.values.torch
        if isinstance(it, torch.Tensor):
            made = self.made.get(id(it))
            if made is None:
                made = self.made[id(it)] = self.tensor(it, written)
            return made
        if isinstance(it, (list, tuple)):
            return [self.of(one, written) for one in it]
        return it

    def check(self) -> None:
        """Raise CannotError if unknown floats can't be taken for zeros, as in operators.c."""
        if self.is_unknown and (self.is_lost or not (self.is_known or self.flags & FILLS)):
            raise CannotError

    def tensor(self, it: Any, written: bool) -> Any:
        values = self.values
        if type(it) not in values.tensors or it.layout is not values.torch.strided:
            raise CannotError
        self.most = max(self.most, it.numel())
        if it.device.type == "cpu":
            return it
        if not it.is_cuda or it.dtype.is_complex or it.is_neg():
            raise CannotError
        if self.flags & SHAPES:
            empty = values.torch.empty_strided
            return empty(it.shape, it.stride(), dtype=it.dtype, device=values.cpu)
        is_float = it.dtype in values.floats
        place = _, n_bytes = values.place(it)
        if n_bytes > (MOST_FLOAT_BYTES if is_float else MOST_BYTES):
            raise CannotError
        if written and self.overwrites:
            return values.on_host(it, place)
        state = values.knowledge(it, place)
        if is_float:
            self.is_known |= state != UNKNOWN
            self.is_unknown |= state == UNKNOWN
            self.is_lost |= written and state != UNKNOWN
        if (is_float and state == DOUBTFUL) or (state == UNKNOWN and n_bytes > MOST_FLOAT_BYTES):
            raise CannotError
        self.state = max(self.state, state)
        if state == UNKNOWN:  # it reads as zeros
            self.state = max(self.state, BLANK if is_float else DOUBTFUL)
            if not written:
                return values.torch.zeros(it.shape, dtype=it.dtype, device=values.cpu)
            return values.on_host(it, place).zero_()
        return values.on_host(it, place)


class Apart:
    """Keeps what runs inside away from the program's modes, its profiler, and autograd."""

    def __init__(self, values: Values) -> None:
        torch, self.operators = values.torch, values.operators
        c = torch._C
        self.guards = c._DisableTorchDispatch(), c.DisableTorchFunction(), torch.no_grad()
        self.is_seen = False  # by profilers

    def __enter__(self) -> None:
        self.is_seen = getattr(self.operators, IS_SEEN)()
        getattr(self.operators, SET_SEEN)(False)
        for one in self.guards:
            one.__enter__()

    def __exit__(self, *error: object) -> None:
        for one in reversed(self.guards):
            one.__exit__(*error)
        getattr(self.operators, SET_SEEN)(self.is_seen)
