/* Where in the program something happened, by the stack of Python's own code that led there, and how
 * often. Python runs none of its code for that: with it would run the handlers of signals, and what they
 * raise would be lost. */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Other stacks than these are counted together, by operator; of a deep one the innermost frames are
 * kept. */
enum { MOST = 4096, OPERATORS = 64, SLOTS = 2 * MOST, FRAMES = 64, TEXT = 16384 };

struct place {
    char *text;
    uint64_t count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place places[MOST]; /* in the order in which they were met */
static int n_places;
static uint16_t slots[SLOTS]; /* the place of a text, by its hash, and 1; 0 for none */
static int counting;

/* What Python offers to whom it runs in. Without all of it (before 3.9) places are not known. */
static struct {
    int (*take_lock)(void);
    void (*give_lock)(int);
    void *(*frame)(void);
    void *(*back)(void *frame);
    void *(*code)(void *frame);
    int (*line)(void *frame);
    void *(*attribute)(void *object, const char *name);
    const char *(*text)(void *unicode);
    void (*let_go)(void *object);
    void (*no_error)(void);
} python;

static int python_is_there;

static int find_python(void) {
    *(void **)&python.take_lock = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    *(void **)&python.give_lock = dlsym(RTLD_DEFAULT, "PyGILState_Release");
    *(void **)&python.frame = dlsym(RTLD_DEFAULT, "PyEval_GetFrame");
    *(void **)&python.back = dlsym(RTLD_DEFAULT, "PyFrame_GetBack");
    *(void **)&python.code = dlsym(RTLD_DEFAULT, "PyFrame_GetCode");
    *(void **)&python.line = dlsym(RTLD_DEFAULT, "PyFrame_GetLineNumber");
    *(void **)&python.attribute = dlsym(RTLD_DEFAULT, "PyObject_GetAttrString");
    *(void **)&python.text = dlsym(RTLD_DEFAULT, "PyUnicode_AsUTF8");
    *(void **)&python.let_go = dlsym(RTLD_DEFAULT, "Py_DecRef");
    *(void **)&python.no_error = dlsym(RTLD_DEFAULT, "PyErr_Clear");
    return python.take_lock && python.give_lock && python.frame && python.back && python.code &&
           python.line && python.attribute && python.text && python.let_go && python.no_error;
}

/* --- the stack ---------------------------------------------------------------------------------- */

/* Appends `\n` and a name of the code's; what has no UTF-8 is left out. */
static size_t append_name(char *into, size_t at, void *code, const char *name) {
    void *object = code ? python.attribute(code, name) : NULL;
    const char *text = object ? python.text(object) : NULL;
    if (!text)
        python.no_error();
    if (at < TEXT)
        at += snprintf(into + at, TEXT - at, "\n%s", text ? text : "");
    if (object)
        python.let_go(object);
    return at;
}

/* Three lines a frame: the file, its line, the function. */
static void append_frames(char *into, size_t at) {
    if (!python_is_there)
        return;
    int locked = python.take_lock();
    void *borrowed = python.frame(), *frame = borrowed;
    for (int i = 0; frame && i < FRAMES; i++) {
        void *code = python.code(frame);
        size_t next = append_name(into, at, code, "co_filename");
        int line = python.line(frame); /* -1 of code that no line stands for */
        if (next < TEXT)
            next += snprintf(into + next, TEXT - next, "\n%d", line < 0 ? 0 : line);
        next = append_name(into, next, code, "co_name");
        void *back = python.back(frame);
        if (code)
            python.let_go(code);
        if (frame != borrowed)
            python.let_go(frame);
        frame = back;
        if (next >= TEXT) {
            into[at] = 0; /* no half of a frame */
            break;
        }
        at = next;
    }
    if (frame && frame != borrowed)
        python.let_go(frame);
    python.give_lock(locked);
}

/* --- the counts --------------------------------------------------------------------------------- */

/* The slot of a text, or the free one where it would be. */
static uint64_t slot_of(const char *text) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    uint64_t slot = hash % SLOTS;
    while (slots[slot] && strcmp(places[slots[slot] - 1].text, text))
        slot = (slot + 1) % SLOTS;
    return slot;
}

static void count_text(const char *text) {
    uint64_t slot = slot_of(text);
    if (!slots[slot]) {
        char *kept = n_places < MOST ? strdup(text) : NULL;
        if (!kept)
            return;
        places[n_places++].text = kept;
        slots[slot] = (uint16_t)n_places;
    }
    places[slots[slot] - 1].count++;
}

int is_place_counted(void) {
    return __atomic_load_n(&counting, __ATOMIC_ACQUIRE);
}

void count_place(const char *operator, int sizes) {
    char text[TEXT];
    if (!is_place_counted())
        return;
    int length = snprintf(text, sizeof text, "%s\n%d", operator, sizes);
    append_frames(text, (size_t)length);
    pthread_mutex_lock(&lock);
    /* Where there are too many, without a place. */
    if (n_places >= MOST - OPERATORS && !slots[slot_of(text)])
        text[length] = 0;
    count_text(text);
    pthread_mutex_unlock(&lock);
}

/* Begins to count anew, or ends: while Python ends nobody may ask it for its stack. */
API void memreplay_count_places(int whether) {
    if (whether)
        python_is_there = find_python();
    pthread_mutex_lock(&lock);
    while (whether && n_places)
        free(places[--n_places].text);
    if (whether) {
        memset(places, 0, sizeof places);
        memset(slots, 0, sizeof slots);
    }
    pthread_mutex_unlock(&lock);
    __atomic_store_n(&counting, whether, __ATOMIC_RELEASE);
}

/* The text of a place: the operator, whether it makes sizes, then its frames from the innermost on, a
 * line each of file, line and function. NULL behind the last one. */
API const char *memreplay_place(int i, uint64_t *count) {
    const char *text = NULL;
    pthread_mutex_lock(&lock);
    if (i >= 0 && i < n_places) {
        text = places[i].text;
        *count = places[i].count;
    }
    pthread_mutex_unlock(&lock);
    return text;
}
