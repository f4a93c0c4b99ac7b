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

static void (*set_included)(uint16_t key, char included);
static int (*set_inside)(int what); /* gpu/values.c */
enum { OUTSIDE, NOTED, NOT_NOTED };

static uint16_t key;
static PyObject *tensor_types, *tensor_base, *float_types;
static PyObject *name_is_cuda, *name_dtype, *name_numel, *name_device;
static long most_floats, most_others; /* elements of a tensor whose values are computed */

/* What is known about an operator. */
enum {
    FACTORY = 1, /* no argument is a tensor */
    COPIES = 2,  /* may copy from the host */
    TESTS = 4,   /* floats don't make the result floats */
    WRITES = 8,  /* into arguments */
    READS = 16   /* reads values that it needs for sizes */
};

/* The arguments of an operator, as far as they've been looked at. */
struct arguments {
    long flags, elements;
    int is_cuda, is_float;
};

enum { FAILED = -1, LEAVE, COMPUTE };

/* Look at one argument. LEAVE: its values can't be computed. */
static int look_at(PyObject *it, struct arguments *all) {
    int is_tensor = PySequence_Contains(tensor_types, (PyObject *)Py_TYPE(it));
    if (is_tensor < 0)
        return FAILED;
    if (!is_tensor) {
        int is_subclass = PyObject_IsInstance(it, tensor_base);
        all->is_float |= PyFloat_Check(it) && !(all->flags & TESTS);
        return is_subclass < 0 ? FAILED : is_subclass ? LEAVE : COMPUTE;
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
    if (!all->is_cuda) {
        found = PyObject_GetAttr(it, name_is_cuda);
        if (!found)
            return FAILED;
        all->is_cuda = found == Py_True;
        Py_DECREF(found);
    }
    if (!all->is_float && (elements > most_floats || !(all->flags & TESTS))) {
        found = PyObject_GetAttr(it, name_dtype);
        int is_float = found ? PySet_Contains(float_types, found) : FAILED;
        Py_XDECREF(found);
        if (is_float < 0)
            return FAILED;
        all->is_float = is_float;
    }
    return all->is_float && all->elements > most_floats ? LEAVE : COMPUTE;
}

/* Whether it's worth trying to compute an operator's result: it must be small, and on the card. */
static int is_worth_it(PyObject *args, PyObject *kwargs, long flags) {
    struct arguments all = {.flags = flags};
    PyObject *device = kwargs ? PyDict_GetItemWithError(kwargs, name_device) : NULL;
    PyObject *type = kwargs ? PyDict_GetItemWithError(kwargs, name_dtype) : NULL;
    if (type && type != Py_None) {
        int is_float = PySet_Contains(float_types, type);
        if (is_float < 0)
            return FAILED;
        all.is_float = is_float;
    }
    if (flags & FACTORY)
        return device && device != Py_None;
    for (Py_ssize_t i = 0, n = PyTuple_Size(args); i < n; i++) {
        PyObject *it = PyTuple_GetItem(args, i);
        int found = COMPUTE;
        if (PyList_Check(it))
            for (Py_ssize_t j = 0; j < PyList_Size(it) && found == COMPUTE; j++)
                found = look_at(PyList_GetItem(it, j), &all);
        else
            found = look_at(it, &all);
        if (found != COMPUTE)
            return found;
    }
    if (!all.is_cuda)
        return (flags & COPIES) && device && device != Py_None && all.elements <= most_others;
    return all.elements <= (all.is_float ? most_floats : most_others);
}

/* Call Python, which notes what it can. Its errors mean that it noted nothing, and the program
 * doesn't see them. */
static void tell(PyObject *function, PyObject *a, PyObject *b, PyObject *c, PyObject *d) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *done = PyObject_CallFunctionObjArgs(function, a, b, c, d, NULL);
    if (!done)
        PyErr_Clear();
    Py_XDECREF(done);
    PyErr_Restore(type, value, trace);
}

/* The members of a hook. */
enum { REAL, BEFORE, AFTER, FORGET, FLAGS };

static PyObject *hook(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *found = NULL, *out = NULL;
    PyObject *named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    long flags = PyLong_AsLong(PyTuple_GetItem(self, FLAGS));
    set_included(key, 0);
    int compute = named ? is_worth_it(args, named, flags) : FAILED;
    if (compute == FAILED) {
        PyErr_Clear();
        compute = LEAVE;
    }
    if (named && compute == COMPUTE && (flags & READS)) {
        found = PyObject_CallFunctionObjArgs(PyTuple_GetItem(self, BEFORE), args, named, NULL);
        if (!found)
            PyErr_Clear();
    }
    int before = set_inside(NOTED);
    out = PyObject_Call(PyTuple_GetItem(self, REAL), args, kwargs);
    set_inside(before);
    if (out && named && compute == COMPUTE)
        tell(PyTuple_GetItem(self, AFTER), found ? found : Py_None, args, named, out);
    else if (named && (flags & WRITES))
        tell(PyTuple_GetItem(self, FORGET), args, named, NULL, NULL);
    set_included(key, 1);
    Py_XDECREF(found);
    Py_XDECREF(named);
    return out;
}

/* The same for an operator that isn't computed. `self` is a pair: the operator, and whether what it
 * writes is noted. */
static PyObject *passing(PyObject *self, PyObject *args, PyObject *kwargs) {
    set_included(key, 0);
    int before = set_inside((int)PyLong_AsLong(PyTuple_GetItem(self, 1)));
    PyObject *out = PyObject_Call(PyTuple_GetItem(self, 0), args, kwargs);
    set_inside(before);
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

/* begin(key, card, core, tensor_types, tensor_base, float_types, most_floats, most_others): whether
 * the functions needed are there. */
static PyObject *begin(PyObject *module, PyObject *args) {
    (void)module;
    const char *card, *core;
    int of_key;
    if (!PyArg_ParseTuple(args, "issOOOll", &of_key, &card, &core, &tensor_types, &tensor_base,
                          &float_types, &most_floats, &most_others))
        return NULL;
    Py_INCREF(tensor_types);
    Py_INCREF(tensor_base);
    Py_INCREF(float_types);
    key = (uint16_t)of_key;
    name_is_cuda = PyUnicode_InternFromString("is_cuda");
    name_dtype = PyUnicode_InternFromString("dtype");
    name_numel = PyUnicode_InternFromString("numel");
    name_device = PyUnicode_InternFromString("device");
    if (!name_is_cuda || !name_dtype || !name_numel || !name_device)
        return NULL;
    void *gpu = dlopen(card, RTLD_NOLOAD | RTLD_LAZY);
    void *c10 = dlopen(core, RTLD_NOLOAD | RTLD_LAZY);
    set_inside = gpu ? (int (*)(int))dlsym(gpu, "memreplay_values_inside") : NULL;
    set_included = c10 ? (void (*)(uint16_t, char))dlsym(c10, SET_INCLUDED) : NULL;
    return PyBool_FromLong(set_inside && set_included);
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
