/* Prepare the recording if it wasn't prepared when Python started. Python doesn't import our code
 * at startup if it runs with -I, -E or -S, or if something else has set PYTHONPATH. The first CUDA
 * call then prepares it, once torch has been imported. */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { MOST_TRIES = 64, FILE_INPUT = 257 };

static const char code[] =
    "import os, sys\n"
    "torch = sys.modules.get('torch')\n"
    "folder = os.environ.get('MEMREPLAY_DRYRUN_INSIDE')\n"
    "will = hasattr(sys.modules.get('sitecustomize'), 'AfterTorch')\n"
    "if folder and not will and hasattr(getattr(torch, 'cuda', None), '_lazy_call'):\n"
    "    if 'memreplay_recording' not in sys.modules:\n"
    "        from importlib import util\n"
    "        path = os.path.join(folder, 'memreplay_recording.py')\n"
    "        spec = util.spec_from_file_location('memreplay_recording', path)\n"
    "        module = sys.modules[spec.name] = util.module_from_spec(spec)\n"
    "        spec.loader.exec_module(module)\n"
    "        module.Recording(torch).prepare()\n";

static void *python(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

void begin_recording(void) {
    static int tries;
    int (*holds_lock)(void) = (int (*)(void))python("PyGILState_Check");
    void *(*dictionary)(void) = (void *(*)(void))python("PyDict_New");
    void *(*run)(const char *, int, void *, void *) =
        (void *(*)(const char *, int, void *, void *))python("PyRun_String");
    void (*print)(void) = (void (*)(void))python("PyErr_Print");
    void (*let_go)(void *) = (void (*)(void *))python("Py_DecRef");
    /* A thread that doesn't hold the GIL doesn't wait for it here, because the thread that holds it
     * may be waiting for us. */
    if (!getenv("MEMREPLAY_DRYRUN_INSIDE") || tries >= MOST_TRIES || !holds_lock || !dictionary ||
        !run || !print || !let_go || !holds_lock())
        return;
    tries++;
    void *names = dictionary();
    void *done = names ? run(code, FILE_INPUT, names, names) : NULL;
    if (!done)
        print();
    else
        let_go(done);
    if (names)
        let_go(names);
}
