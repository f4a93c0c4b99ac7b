"""Find the role of a value in a dict.

The value may show that the dict is a snapshot (wrapped.pxd).

Only needed for containers that the fast path doesn't read, so not inlined in the reader's loop.
"""

from libc.stdint cimport uint32_t
from memreplay.engine.read.keys cimport role_of_value
from memreplay.engine.read.stack cimport POSITION, values
from memreplay.engine.read.tables cimport OPENED_BLOCKS, Segment, Tables
from memreplay.engine.read.value cimport (
    V_ANNOTATIONS, V_BLOCKS, V_ROOT, V_SEGMENT, V_SEGMENTS, V_SKIP_DICT, V_SKIP_LIST, V_STR,
    V_TRACES, V_UNSET, is_dict, is_list,
)
from memreplay.engine.read.vm cimport VM
from memreplay.engine.read.wrapped cimport (
    COUNTED, DEEPEST_WRAPPED, count_snapshot, forget_bare_list, is_counted, is_snapshot_list,
    make_unknown, may_wrap, settle_snapshot,
)


cdef inline bint is_in_snapshot(VM* vm, size_t at) noexcept nogil:
    # The opposite of is_in_unknown, for protocols 0 and 1 if no MARK is open. In these protocols
    # only tuples use a MARK, so each value is directly above its container or above its key.
    cdef const Value* s = values(vm)
    while at:
        if at >= 2 and s[at - 1].kind == V_STR and is_dict(s[at - 2].kind):
            at -= 2
        elif is_list(s[at - 1].kind):
            at -= 1
        else:
            return False
        if not may_wrap(vm.tables, &s[at]):
            return True
    return False


cdef inline bint is_in_unknown(VM* vm, size_t at) noexcept nogil:
    # Whether every container around stack position `at` is unknown. A container is below the MARK
    # of its items, or directly below its only item (or that item's key). All other values further
    # down are siblings.
    cdef const Value* s = values(vm)
    cdef const uint32_t* marks = <const uint32_t*> vm.marks.data
    cdef size_t i, position
    if vm.protocol < 2 and vm.marks.len == 0:
        return not is_in_snapshot(vm, at)
    for i in range(vm.marks.len):
        position = marks[i] & POSITION
        if 0 < position < at and not may_wrap(vm.tables, &s[position - 1]):
            return False
    if at and is_list(s[at - 1].kind) and not may_wrap(vm.tables, &s[at - 1]):
        return False
    # A snapshot here already has items, so it isn't the container; another snapshot may follow it
    # in the same tuple.
    return (at < 2 or s[at - 1].kind != V_STR or not is_dict(s[at - 2].kind)
            or s[at - 2].kind == V_ROOT or is_counted(&s[at - 2])
            or may_wrap(vm.tables, &s[at - 2]))


cdef inline void look_for_snapshot(VM* vm, Value* owner) noexcept nogil:
    # `owner` is a dict on the stack that has just received one of a snapshot's lists.
    cdef Tables* t = vm.tables
    cdef Value* s = values(vm)
    cdef size_t at = <size_t> (owner - s)
    cdef const Value* name = NULL if at == 0 else &s[at - 1]
    cdef size_t i
    if owner.kind == V_ROOT:
        if not t.adopted:
            settle_snapshot(t, owner, count_snapshot(t, name))
        return
    if at > DEEPEST_WRAPPED or not (
            (owner.kind == V_SKIP_DICT and owner.num != COUNTED)
            or (owner.kind == V_SEGMENT and may_wrap(t, owner))):
        return
    if not is_in_unknown(vm, at):
        return
    if not t.adopted:
        for i in range(at):
            make_unknown(&s[i])
        forget_bare_list(t)
    t.unwrapped = True
    settle_snapshot(t, owner, count_snapshot(t, name))


cdef uint32_t role_in(VM* vm, Value* owner, uint32_t key, bint a_list) noexcept nogil:
    # Return the role of a container that is the value of `key` in the dict `owner`.
    if is_snapshot_list(key, a_list):
        look_for_snapshot(vm, owner)
    return role_of_value(owner.kind, key, a_list)


cdef inline bint was_opened(const Tables* t, const Value* v, uint32_t role) noexcept nogil:
    # Whether dict v already has a list of this role, complete or not.
    if v.kind == V_ROOT:
        return ((role == V_SEGMENTS and t.saw_segments) or (role == V_TRACES and t.saw_traces)
                or (role == V_ANNOTATIONS and t.saw_annotations))
    if role == V_BLOCKS:
        return (<Segment*> t.segments.data)[v.idx].flags & OPENED_BLOCKS != 0
    return False


cdef uint32_t role_among(VM* vm, Value* owner, const Value* last, uint32_t key,
                         bint a_list) noexcept nogil:
    # Like role_in, for a key after items that aren't stored yet; `last` is the last item's value,
    # or NULL.
    cdef uint32_t role = role_in(vm, owner, key, a_list)
    if (role != V_UNSET and last != NULL and last.kind == V_SKIP_DICT
            and was_opened(vm.tables, owner, role)):
        # The new container is then the only item in the dict `last`, because a key can't occur
        # twice in `owner`.
        return V_SKIP_LIST if a_list else V_SKIP_DICT
    return role
