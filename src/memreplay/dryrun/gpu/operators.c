/* A hook around PyTorch's operators, as a Python module. It's called by the dispatcher and calls
 * the operator itself, so recorded stacks have no frame of the hook. Python code only runs where
 * values can be computed (programs/inside/memreplay_values.py).
 *
 * The module uses the limited API, because the program's Python may be another version than the one
 * that memreplay runs in. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include <dlfcn.h>
#include <stdint.h>

/* c10::impl::tls_set_dispatch_key_included(DispatchKey, bool) */
#define SET_INCLUDED "_ZN3c104impl29tls_set_dispatch_key_includedENS_11DispatchKeyEb"
/* c10::impl::tls_is_dispatch_key_included(DispatchKey) */
#define IS_INCLUDED "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE"

static void (*set_included)(uint16_t key, char included);
static _Bool (*is_included)(uint16_t key);
static int (*set_inside)(int what); /* gpu/values.c */
static int (*is_on_card)(uint64_t at);
static int (*is_any_known)(uint64_t at, uint64_t bytes);
static int (*knowledge)(uint64_t at, uint64_t bytes);
static void (*set_answers)(const int64_t *them, int n, int rest, int as);
enum { OUTSIDE, NOTED, NOT_NOTED };
enum { UNKNOWN, KNOWN, DOUBTFUL = 6 }; /* as in messages.h */

static uint16_t key, key_of_modes;
static PyObject *tensor_types, *tensor_base, *float_types;
static PyObject *name_is_cuda, *name_dtype, *name_numel, *name_device, *name_out, *name_handler;
static PyObject *name_data_ptr, *name_nbytes, *name_is_contiguous;
static PyObject *no_handler; /* Tensor.__torch_dispatch__ */
static PyObject *mask_types; /* dtypes of masks */
static PyObject *set_compiler; /* sets what compiles a thread's Python code, and returns the former */
static long most_floats, most_others; /* elements of a tensor whose values are computed */

/* What is known about an operator. */
enum {
    FACTORY = 1, /* no argument is a tensor */
    COPIES = 2,  /* may copy from the host */
    TESTS = 4,   /* floats don't make the result floats */
    WRITES = 8,  /* into arguments */
    READS = 16,  /* reads values that it needs for sizes */
    FIRST = 32,  /* writes into its first argument only */
    MASKED = 64, /* its second argument may be a mask, or masks, which it reads */
    SHAPES = 128, /* doesn't read its arguments, only their shapes */
    OVERWRITES = 256, /* needn't know its first argument */
    FILLS = 512,      /* its result has known values even if all floats are unknown */
    PICKS = 1024,     /* chooses indices by floats, even if these are unknown */
    NEVER = 2048      /* isn't computed: what it writes is only forgotten */
};

/* The arguments of an operator, as far as they've been looked at. */
struct arguments {
    long flags, elements;
    int n; /* of them */
    int is_cuda, is_float;
    int is_unknown, is_known; /* whether small floats are, on the card */
    int is_lost; /* the operator writes into known floats */
    int has_handler; /* an operator calls Python code, which may call others */
};

enum { FAILED = -1, LEAVE, COMPUTE };

/* Whether it's a tensor without a handler of its own. Types of such tensors are remembered. */
static int is_plain_tensor(PyObject *it, struct arguments *all) {
    PyObject *type = (PyObject *)Py_TYPE(it);
    int found = PySequence_Contains(tensor_types, type);
    if (found)
        return found;
    found = PyObject_IsInstance(it, tensor_base);
    if (found != 1)
        return found;
    PyObject *handler = PyObject_GetAttr(type, name_handler);
    if (!handler)
        return FAILED;
    Py_DECREF(handler);
    if (handler == no_handler)
        return PyList_Append(tensor_types, type) ? FAILED : 1;
    all->has_handler = 1;
    return 0;
}

/* Whether a tensor's memory is on the card and has no gaps. If so, its address and bytes. */
static int is_dense(PyObject *it, uint64_t *at, uint64_t *bytes) {
    PyObject *found = PyObject_CallMethodObjArgs(it, name_is_contiguous, NULL);
    int is = found == Py_True;
    Py_XDECREF(found);
    found = is ? PyObject_CallMethodObjArgs(it, name_data_ptr, NULL) : NULL;
    *at = found ? PyLong_AsUnsignedLongLong(found) : 0;
    Py_XDECREF(found);
    found = *at ? PyObject_GetAttr(it, name_nbytes) : NULL;
    *bytes = found ? PyLong_AsUnsignedLongLong(found) : 0;
    is = found && is_on_card(*at);
    Py_XDECREF(found);
    PyErr_Clear();
    return is;
}

/* Look at one argument. LEAVE: its values can't be computed. */
static int look_at(PyObject *it, struct arguments *all) {
    int is_tensor = is_plain_tensor(it, all);
    if (is_tensor < 0)
        return FAILED;
    if (!is_tensor) {
        all->is_float |= PyFloat_Check(it) && !(all->flags & TESTS);
        return all->has_handler ? LEAVE : COMPUTE;
    }
    PyObject *found = PyObject_CallMethodObjArgs(it, name_numel, NULL);
    if (!found)
        return FAILED;
    long elements = PyLong_AsLong(found);
    Py_DECREF(found);
    if (elements == -1 && PyErr_Occurred())
        return FAILED;
    if (elements > all->elements)
        all->elements = elements;
    found = PyObject_GetAttr(it, name_is_cuda);
    if (!found)
        return FAILED;
    int is_cuda = found == Py_True;
    all->is_cuda |= is_cuda;
    Py_DECREF(found);
    found = PyObject_GetAttr(it, name_dtype);
    int is_float = found ? PySet_Contains(float_types, found) : FAILED;
    Py_XDECREF(found);
    if (is_float < 0)
        return FAILED;
    if (is_float && (elements > most_floats || !(all->flags & TESTS)))
        all->is_float = 1;
    if (all->is_float && all->elements > most_floats)
        return LEAVE;
    int is_first = all->n == 1;
    if (!is_float || !is_cuda || (all->flags & SHAPES) || (is_first && (all->flags & OVERWRITES)))
        return COMPUTE;
    /* Most small floats are unknown, like those of a bias. Finding that out here is fast. */
    uint64_t at, bytes;
    int known = is_dense(it, &at, &bytes) ? knowledge(at, bytes) : KNOWN;
    all->is_unknown |= known == UNKNOWN;
    all->is_known |= known != UNKNOWN;
    all->is_lost |= known != UNKNOWN && is_first && (all->flags & FIRST);
    return known == DOUBTFUL ? LEAVE : COMPUTE;
}

/* Whether it's worth trying to compute an operator's result: it must be small, and on the card. */
static int is_worth_it(PyObject *args, PyObject *kwargs, struct arguments *all) {
    PyObject *device = PyDict_GetItemWithError(kwargs, name_device);
    PyObject *type = PyDict_GetItemWithError(kwargs, name_dtype);
    if (type && type != Py_None) {
        int is_float = PySet_Contains(float_types, type);
        if (is_float < 0)
            return FAILED;
        all->is_float = is_float;
    }
    if (all->flags & FACTORY)
        return (device && device != Py_None) || PyDict_GetItemWithError(kwargs, name_out);
    int worst = COMPUTE;
    for (Py_ssize_t i = 0, n = PyTuple_Size(args); i < n; i++) {
        PyObject *it = PyTuple_GetItem(args, i);
        all->n++;
        int is_list = PyList_Check(it);
        for (Py_ssize_t j = 0, m = is_list ? PyList_Size(it) : 1; j < m; j++) {
            PyObject *one = is_list ? PyList_GetItem(it, j) : it;
            int found = all->flags & NEVER ? (is_plain_tensor(one, all) < 0 ? FAILED : LEAVE)
                                           : look_at(one, all);
            worst = found < worst ? found : worst;
        }
    }
    if (worst != COMPUTE)
        return worst;
    /* Unknown floats are only taken for zeros beside known ones, which may matter. */
    if (all->is_unknown && (all->is_lost || !(all->is_known || (all->flags & FILLS))))
        return LEAVE;
    if (!all->is_cuda)
        return (all->flags & COPIES) && device && device != Py_None && all->elements <= most_others;
    return all->elements <= (all->is_float ? most_floats : most_others);
}

/* Clear an error, unless it's an interrupt, which the program must see. */
static int is_cleared(void) {
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return 0;
    PyErr_Clear();
    return 1;
}

/* Call Python so that torch.compile, which may be running the program, doesn't compile that. */
static PyObject *call_python(PyObject *function, PyObject *a, PyObject *b, PyObject *c,
                             PyObject *d) {
    PyObject *before = PyObject_CallFunctionObjArgs(set_compiler, Py_None, NULL);
    if (!before)
        return NULL;
    PyObject *done = PyObject_CallFunctionObjArgs(function, a, b, c, d, NULL);
    if (before != Py_None) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        Py_XDECREF(PyObject_CallFunctionObjArgs(set_compiler, before, NULL));
        PyErr_Restore(type, value, trace);
    }
    Py_DECREF(before);
    return done;
}

/* Call Python, which notes what it can. Its errors mean that it noted nothing, and the program
 * doesn't see them. Returns 0 when interrupted. */
static int tell(PyObject *function, PyObject *a, PyObject *b, PyObject *c, PyObject *d) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *done = call_python(function, a, b, c, d);
    if (!done && !is_cleared()) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        return 0;
    }
    Py_XDECREF(done);
    PyErr_Restore(type, value, trace);
    return 1;
}

/* Whether nothing is known of what an operator writes, which needn't be forgotten then. */
static int has_nothing_known(PyObject *args, const struct arguments *all) {
    if (!(all->flags & FIRST) || all->has_handler || !PyTuple_Size(args))
        return 0;
    PyObject *them = PyTuple_GetItem(args, 0);
    int is_list = PyList_Check(them), found = 1;
    for (Py_ssize_t i = 0, n = is_list ? PyList_Size(them) : 1; i < n && found; i++) {
        uint64_t at, bytes;
        PyObject *it = is_list ? PyList_GetItem(them, i) : them;
        found = is_dense(it, &at, &bytes) && !is_any_known(at, bytes);
    }
    return found;
}

/* Whether an argument is a mask whose elements are going to be counted: 1 or 0, or FAILED. */
static int is_mask(PyObject *it) {
    if (!PyObject_HasAttr(it, name_is_cuda))
        return 0;
    PyObject *type = PyObject_GetAttr(it, name_dtype);
    int found = type ? PySet_Contains(mask_types, type) : FAILED;
    Py_XDECREF(type);
    return found;
}

/* Whether an operator counts a mask's elements, even if its other arguments aren't known. */
static int counts(PyObject *args, const struct arguments *all) {
    if (!(all->flags & MASKED) || all->has_handler || PyTuple_Size(args) < 2)
        return 0;
    PyObject *masks = PyTuple_GetItem(args, 1);
    int is_list = PyList_Check(masks), found = 0;
    for (Py_ssize_t i = 0, n = is_list ? PyList_Size(masks) : 1; i < n && !found; i++)
        found = is_mask(is_list ? PyList_GetItem(masks, i) : masks);
    return found;
}

/* Call the operator itself. Where it calls Python code, that code's operators aren't hooked. Not
 * inlined, so that recorded stacks don't tell apart how an operator's values are handled. */
static __attribute__((noinline)) PyObject *call(PyObject *operator, PyObject *args,
                                                PyObject *kwargs, int noted) {
    int before = set_inside(is_included(key_of_modes) ? NOT_NOTED : noted);
    PyObject *out = PyObject_Call(operator, args, kwargs);
    set_inside(before);
    return out;
}

/* The members of a hook. */
enum { REAL, BEFORE, AFTER, FORGET, FLAGS };

/* What was found out before an operator is called. */
struct asked {
    struct arguments all;
    int is_computed, reads;
    PyObject *found; /* what BEFORE returned, or NULL */
};

/* 0 if an exception is set. */
static __attribute__((noinline)) int ask(PyObject *self, PyObject *args, PyObject *kwargs,
                                         struct asked *it) {
    it->all.flags = PyLong_AsLong(PyTuple_GetItem(self, FLAGS));
    it->is_computed = is_worth_it(args, kwargs, &it->all);
    it->reads =
        it->is_computed == COMPUTE ? (it->all.flags & READS) != 0 : counts(args, &it->all);
    if (it->is_computed == FAILED || it->reads == FAILED) {
        PyErr_Clear();
        it->is_computed = LEAVE;
        it->reads = 0;
    }
    if (it->reads) {
        it->found = call_python(PyTuple_GetItem(self, BEFORE), args, kwargs, NULL, NULL);
        if (!it->found && !is_cleared())
            return 0;
    }
    return 1;
}

static __attribute__((noinline)) PyObject *answer(PyObject *self, PyObject *args,
                                                  PyObject *kwargs, PyObject *out,
                                                  const struct asked *it) {
    const struct arguments *all = &it->all;
    int done = 1;
    if (it->reads)
        set_answers(NULL, 0, 0, 0);
    if (out && (it->is_computed || ((all->flags & PICKS) && all->is_cuda && !all->has_handler)))
        done = tell(PyTuple_GetItem(self, AFTER), it->found ? it->found : Py_None, args, kwargs,
                    out);
    else if ((all->flags & WRITES) && !(out && has_nothing_known(args, all)))
        done = tell(PyTuple_GetItem(self, FORGET), args, kwargs, NULL, NULL);
    Py_XDECREF(it->found);
    if (!done)
        Py_CLEAR(out);
    return out;
}

static PyObject *compute(PyObject *self, PyObject *args, PyObject *kwargs) {
    struct asked it = {0};
    if (!ask(self, args, kwargs, &it))
        return NULL;
    PyObject *out =
        call(PyTuple_GetItem(self, REAL), args, kwargs, it.all.has_handler ? NOT_NOTED : NOTED);
    return answer(self, args, kwargs, out, &it);
}

static PyObject *hook(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    if (!named)
        return NULL;
    set_included(key, 0);
    PyObject *out = compute(self, args, named);
    set_included(key, 1);
    Py_DECREF(named);
    return out;
}

/* The same for an operator that isn't computed. `self` is a pair: the operator, and whether what it
 * writes is noted. */
static PyObject *passing(PyObject *self, PyObject *args, PyObject *kwargs) {
    set_included(key, 0);
    PyObject *out =
        call(PyTuple_GetItem(self, 0), args, kwargs, (int)PyLong_AsLong(PyTuple_GetItem(self, 1)));
    set_included(key, 1);
    return out;
}

static PyMethodDef hook_is = {"hook", (PyCFunction)(void *)hook, METH_VARARGS | METH_KEYWORDS, ""};
static PyMethodDef passing_is = {
    "passing", (PyCFunction)(void *)passing, METH_VARARGS | METH_KEYWORDS, ""};

static PyObject *hooked(PyObject *module, PyObject *members) {
    (void)module;
    return PyCFunction_NewEx(&hook_is, members, NULL);
}

static PyObject *passed(PyObject *module, PyObject *pair) {
    (void)module;
    return PyCFunction_NewEx(&passing_is, pair, NULL);
}

/* begin(key, key_of_modes, card, core, tensor_types, tensor_base, float_types, mask_types,
 * set_compiler, most_floats, most_others): whether the functions needed are there. */
static PyObject *begin(PyObject *module, PyObject *args) {
    (void)module;
    const char *card, *core;
    int of_key, of_modes;
    if (!PyArg_ParseTuple(args, "iissOOOOOll", &of_key, &of_modes, &card, &core, &tensor_types,
                          &tensor_base, &float_types, &mask_types, &set_compiler, &most_floats,
                          &most_others))
        return NULL;
    Py_INCREF(tensor_types);
    Py_INCREF(tensor_base);
    Py_INCREF(float_types);
    Py_INCREF(mask_types);
    Py_INCREF(set_compiler);
    key = (uint16_t)of_key;
    key_of_modes = (uint16_t)of_modes;
    name_is_cuda = PyUnicode_InternFromString("is_cuda");
    name_dtype = PyUnicode_InternFromString("dtype");
    name_numel = PyUnicode_InternFromString("numel");
    name_device = PyUnicode_InternFromString("device");
    name_data_ptr = PyUnicode_InternFromString("data_ptr");
    name_nbytes = PyUnicode_InternFromString("nbytes");
    name_is_contiguous = PyUnicode_InternFromString("is_contiguous");
    if (!name_data_ptr || !name_nbytes || !name_is_contiguous)
        return NULL;
    name_out = PyUnicode_InternFromString("out");
    name_handler = PyUnicode_InternFromString("__torch_dispatch__");
    if (!name_is_cuda || !name_dtype || !name_numel || !name_device || !name_out || !name_handler)
        return NULL;
    no_handler = PyObject_GetAttr(tensor_base, name_handler);
    if (!no_handler)
        return NULL;
    void *gpu = dlopen(card, RTLD_NOLOAD | RTLD_LAZY);
    void *c10 = dlopen(core, RTLD_NOLOAD | RTLD_LAZY);
    set_inside = gpu ? (int (*)(int))dlsym(gpu, "memreplay_values_inside") : NULL;
    set_answers = gpu ? (void (*)(const int64_t *, int, int, int))dlsym(gpu, "memreplay_answers") : NULL;
    is_on_card = gpu ? (int (*)(uint64_t))dlsym(gpu, "memreplay_is_on_card") : NULL;
    knowledge = gpu ? (int (*)(uint64_t, uint64_t))dlsym(gpu, "memreplay_knowledge") : NULL;
    is_any_known =
        gpu ? (int (*)(uint64_t, uint64_t))dlsym(gpu, "memreplay_is_any_known") : NULL;
    is_included = c10 ? (_Bool (*)(uint16_t))dlsym(c10, IS_INCLUDED) : NULL;
    set_included = c10 ? (void (*)(uint16_t, char))dlsym(c10, SET_INCLUDED) : NULL;
    return PyBool_FromLong(set_inside && set_answers && is_on_card && is_any_known && knowledge &&
                           is_included && set_included);
}

static PyMethodDef methods[] = {{"begin", begin, METH_VARARGS, ""},
                                {"hooked", hooked, METH_O, ""},
                                {"passed", passed, METH_O, ""},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_operators", NULL, -1, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__operators(void) {
    return PyModule_Create(&definition);
}
