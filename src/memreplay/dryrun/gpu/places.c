/* Record where in the program something happened (the Python stack that led there), and how often.
 * This runs no Python code, because signal handlers would then run, too, and their exceptions would
 * be lost. */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond this many stacks, further ones are counted together, by operator. For a deep stack, the
 * innermost frames are kept. */
enum { MOST = 4096, OPERATORS = 64, SLOTS = 2 * MOST, FRAMES = 64, TEXT = 16384 };

struct place {
    char *text;
    uint64_t count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place places[MOST]; /* in the order in which they were first seen */
static int n_places;
static uint16_t slots[SLOTS]; /* by a text's hash: 1 + its index in `places`; 0 if none */
static int counting;

/* The functions of the Python interpreter in this process. If some are missing (before 3.9), places
 * aren't known. */
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

/* Append `\n` and one of the code's names. Names that can't be encoded as UTF-8 are left out. */
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

/* Each frame takes three lines: file, line number, function. */
static void append_frames(char *into, size_t at) {
    if (!python_is_there)
        return;
    int locked = python.take_lock();
    void *borrowed = python.frame(), *frame = borrowed;
    for (int i = 0; frame && i < FRAMES; i++) {
        void *code = python.code(frame);
        size_t next = append_name(into, at, code, "co_filename");
        int line = python.line(frame); /* -1 for code without a line */
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
            into[at] = 0; /* drop a frame that doesn't fit completely */
            break;
        }
        at = next;
    }
    if (frame && frame != borrowed)
        python.let_go(frame);
    python.give_lock(locked);
}

/* --- the counts --------------------------------------------------------------------------------- */

/* Return a text's slot, or the free slot where it would go. */
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

void count_place(const char *operator, int kind) {
    char text[TEXT];
    if (!is_place_counted())
        return;
    int length = snprintf(text, sizeof text, "%s\n%d", operator, kind);
    append_frames(text, (size_t)length);
    pthread_mutex_lock(&lock);
    /* If there are already too many places, count only the operator. */
    if (n_places >= MOST - OPERATORS && !slots[slot_of(text)])
        text[length] = 0;
    count_text(text);
    pthread_mutex_unlock(&lock);
}

API void memreplay_note_place(const char *operator, int kind) {
    count_place(operator, kind);
}

/* Start counting from zero, or stop. While Python shuts down, its stack mustn't be read. */
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

/* Return a place's text: the operator, the kind of read (gpu.h), then the frames,
 * innermost first, with one line each for file, line number and function. NULL after the last
 * place. */
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
