/* What Python is asked: the numbers of texts, and what odd numbers mean. A thread that scans holds the interpreter only here. */

#ifndef DIAGNOSE_ASKED_H
#define DIAGNOSE_ASKED_H

#include "columns.h"
#include "table.h"

typedef struct {
    PyObject_HEAD
    PyObject *number_of[TEXTS], *integer_of;
    Table tables[TEXTS];
    int busy; /* a thread scans */
} Scanner;

static int nearest_double(const char *text, double *result)
{
    int failed;
    PyGILState_STATE held = PyGILState_Ensure();
    *result = PyOS_string_to_double(text, NULL, NULL);
    failed = *result == -1.0 && PyErr_Occurred();
    PyGILState_Release(held);
    return !failed;
}

/* What the reference reader makes of a text in the place of a whole number. */
static int asked_integer(void *owner, const Span *text, int64_t *result)
{
    Scanner *self = owner;
    PyObject *made;
    int failed;
    PyGILState_STATE held = PyGILState_Ensure();
    made = PyObject_CallFunction(self->integer_of, "y#", text->begin, (Py_ssize_t)text->size);
    if (made)
        *result = PyLong_AsLongLong(made);
    Py_XDECREF(made);
    failed = PyErr_Occurred() != NULL;
    PyGILState_Release(held);
    return !failed;
}

static const char *begin_of(const Key *key, int part)
{
    return size_of(key, part) ? (const char *)key->part[part]->begin : "";
}

#define FAILED INT32_MIN

static int32_t asked_id(Scanner *self, int which, const Key *key)
{
    PyObject *made;
    long id = 0;
    int failed;
    PyGILState_STATE held = PyGILState_Ensure();
    made = PyObject_CallFunction(self->number_of[which], which == ROW_SHAPE ? "y#y#y#" : "y#", begin_of(key, 0),
                                 (Py_ssize_t)size_of(key, 0), begin_of(key, 1), (Py_ssize_t)size_of(key, 1),
                                 begin_of(key, 2), (Py_ssize_t)size_of(key, 2));
    if (made)
        id = PyLong_AsLong(made);
    Py_XDECREF(made);
    failed = PyErr_Occurred() != NULL;
    PyGILState_Release(held);
    return failed ? FAILED : (int32_t)id;
}

#endif
