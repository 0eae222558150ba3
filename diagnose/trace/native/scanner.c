/* diagnose.trace._scanner: the text of events to columns, without an object for each event.
 *
 * `Scanner.scan` fills rows of arrays that its caller owns. It answers None where the text holds anything that is not
 * understood; nothing is changed then but the arrays and the numbers that texts were given.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "columns.h"
#include "table.h"

#define VERSION 1 /* `diagnose.trace.scanning` leaves out any other: one more with each change of what is read or told */

typedef struct {
    PyObject_HEAD
    PyObject *number_of[ROW_IDS], *integer_of;
    Table tables[ROW_IDS];
} Scanner;

static int nearest_double(const char *text, double *result)
{
    *result = PyOS_string_to_double(text, NULL, NULL);
    return !(*result == -1.0 && PyErr_Occurred());
}

/* What the reference reader makes of a text in the place of a whole number. */
static int asked_integer(void *owner, const Span *text, int64_t *result)
{
    PyObject *made = PyObject_CallFunction(((Scanner *)owner)->integer_of, "y#", text->begin, (Py_ssize_t)text->size);
    if (!made)
        return 0;
    *result = PyLong_AsLongLong(made);
    Py_DECREF(made);
    return !PyErr_Occurred();
}

static const char *begin_of(const Key *key, int part)
{
    return size_of(key, part) ? (const char *)key->part[part]->begin : "";
}

#define FAILED INT32_MIN

/* The number of a text, by the caller's word for one that is new; FAILED with an exception for none. */
static int32_t id_of(Scanner *self, int which, const Key *key)
{
    uint64_t hash = hash_of(key, self->tables[which].seed);
    const Entry *known = entry_of(&self->tables[which], key, hash);
    PyObject *made;
    long id;
    if (known && known->hash)
        return known->id;
    made = PyObject_CallFunction(self->number_of[which], which == ROW_SHAPE ? "y#y#y#" : "y#", begin_of(key, 0),
                                 (Py_ssize_t)size_of(key, 0), begin_of(key, 1), (Py_ssize_t)size_of(key, 1),
                                 begin_of(key, 2), (Py_ssize_t)size_of(key, 2));
    if (!made)
        return FAILED;
    id = PyLong_AsLong(made);
    Py_DECREF(made);
    if (PyErr_Occurred())
        return FAILED;
    keep(&self->tables[which], key, hash, (int32_t)id);
    return (int32_t)id;
}

static int put_id(Scanner *self, Columns *to, int which, const Key *key)
{
    int32_t id = id_of(self, which, key);
    to->ids[which * to->room + to->rows] = id;
    return id != FAILED;
}

static int put_ids(Scanner *self, Columns *to, const Event *event)
{
    const Span *lists = event->args.lists, *dims = lists[DIMS].begin ? &lists[DIMS] : &lists[DIMS_BEFORE_2021];
    const Key name = {{&event->name}}, shape = {{dims, &lists[TYPES], &lists[CONCRETE]}};
    to->ids[ROW_SHAPE * to->room + to->rows] = ABSENT;
    return put_id(self, to, ROW_NAME, &name) && (!dims->begin || put_id(self, to, ROW_SHAPE, &shape));
}

/* A complete event; one whose category's number is negative is of a kind that is left out: -1 of the first, and so on. */
static int put_complete(Scanner *self, Columns *to, const Event *event, const unsigned char *begin)
{
    const Key cat = {{&event->cat}};
    int32_t kind;
    if (!put_id(self, to, ROW_CAT, &cat))
        return 0;
    kind = to->ids[ROW_CAT * to->room + to->rows];
    if (kind < 0) {
        if ((size_t)(-1 - kind) >= to->kinds_left_out || !is_sound(event))
            return 0;
        to->left_out[-1 - kind]++;
        return 1;
    }
    if (!put_ids(self, to, event))
        return 0;
    put_numbers(to, event);
    if (event->args.seen[AS_ANYTHING])
        put_call(to, &event->args, begin);
    to->rows++;
    return 1;
}

/* Events with a comma between them; whether all was understood, and had room. */
static int scan_events(Scanner *self, Text text, Columns *to)
{
    const unsigned char *begin = text.at;
    const Asked asked = {asked_integer, self};
    Event event;
    do {
        if (to->rows >= to->room || to->memory_rows >= to->room || !read_event(&text, &event, &asked))
            return 0;
        to->needs_digits |= event.phase == 'X' && event.needs_digits;
        if (event.phase == 'X' && event.ts_ns != NO_TIME && event.dur_ns != NO_TIME) {
            if (!put_complete(self, to, &event, begin))
                return 0;
        } else if (!put_other(to, &event))
            return 0;
    } while (take(&text, ','));
    return !next_byte(&text) && text.at == text.end;
}

static int has_room_for(const Py_buffer *buffer, size_t room, size_t columns, size_t width)
{
    return buffer->len >= 0 && (size_t)buffer->len / columns / width >= room;
}

static PyObject *scan(Scanner *self, PyObject *args)
{
    Py_buffer text, integers, rates, ids, calls, memory, left_out;
    PyObject *answer = NULL;
    Columns to = {0};
    if (!PyArg_ParseTuple(args, "y*w*w*w*w*w*w*", &text, &integers, &rates, &ids, &calls, &memory, &left_out))
        return NULL;
    to.room = (size_t)integers.len / ROW_INTEGERS / sizeof(int64_t);
    if (!has_room_for(&rates, to.room, RATES, sizeof(double)) || !has_room_for(&ids, to.room, ROW_IDS, sizeof(int32_t)) ||
        !has_room_for(&calls, to.room, CALL_INTEGERS, sizeof(int64_t)) ||
        !has_room_for(&memory, to.room, MEMORY_INTEGERS, sizeof(int64_t))) {
        PyErr_SetString(PyExc_ValueError, "arrays of different length");
    } else {
        const unsigned char *begin = text.buf;
        to.integers = integers.buf;
        to.rates = rates.buf;
        to.ids = ids.buf;
        to.calls = calls.buf;
        to.memory = memory.buf;
        to.left_out = left_out.buf;
        to.kinds_left_out = (size_t)left_out.len / sizeof(int64_t);
        if (scan_events(self, (Text){begin, begin + text.len}, &to))
            answer = Py_BuildValue("nnnnnN", (Py_ssize_t)to.rows, (Py_ssize_t)to.call_rows, (Py_ssize_t)to.memory_rows,
                                   (Py_ssize_t)to.others, (Py_ssize_t)to.not_finite, PyBool_FromLong(to.needs_digits));
        else if (!PyErr_Occurred())
            answer = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&text);
    PyBuffer_Release(&integers);
    PyBuffer_Release(&rates);
    PyBuffer_Release(&ids);
    PyBuffer_Release(&calls);
    PyBuffer_Release(&memory);
    PyBuffer_Release(&left_out);
    return answer;
}

static PyObject *forget_all(Scanner *self, PyObject *nothing)
{
    (void)nothing;
    for (int which = 0; which < ROW_IDS; which++)
        forget(&self->tables[which]);
    Py_RETURN_NONE;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *name, *cat, *shape, *integer;
    unsigned long long seed;
    Scanner *self;
    if (named && PyDict_Size(named))
        return PyErr_Format(PyExc_TypeError, "Scanner takes no named arguments");
    if (!PyArg_ParseTuple(args, "OOOOK", &name, &cat, &shape, &integer, &seed))
        return NULL;
    self = (Scanner *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    self->number_of[ROW_NAME] = Py_NewRef(name);
    self->number_of[ROW_CAT] = Py_NewRef(cat);
    self->number_of[ROW_SHAPE] = Py_NewRef(shape);
    self->integer_of = Py_NewRef(integer);
    for (int which = 0; which < ROW_IDS; which++)
        self->tables[which].seed = seed;
    return (PyObject *)self;
}

static void destroy(Scanner *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    for (int which = 0; which < ROW_IDS; which++) {
        forget(&self->tables[which]);
        Py_XDECREF(self->number_of[which]);
    }
    Py_XDECREF(self->integer_of);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef METHODS[] = {
    {"scan", (PyCFunction)scan, METH_VARARGS, "Rows of the arrays filled from the text of events, None where it is odd."},
    {"forget", (PyCFunction)forget_all, METH_NOARGS, "Asks for the number of every text again."},
    {0},
};
static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "Fills columns from the text of events; asks its caller for the number of each text that is new."},
    {Py_tp_new, make},
    {Py_tp_dealloc, destroy},
    {Py_tp_methods, METHODS},
    {0},
};
static PyType_Spec SPEC = {"diagnose.trace._scanner.Scanner", sizeof(Scanner), 0, Py_TPFLAGS_DEFAULT, SLOTS};

static int add_columns(PyObject *module)
{
    PyObject *integers = Py_BuildValue("ssssssssss", "ts", "dur", "pid", "tid", "external_id", "correlation", "stream",
                                       "device", "bytes", "occupancy_percent");
    PyObject *rates = Py_BuildValue("ss", "blocks_per_sm", "warps_per_sm");
    PyObject *ids = Py_BuildValue("sss", "name", "cat", "shape");
    int failed = !integers || PyModule_AddObjectRef(module, "INTEGERS", integers) < 0 || !rates ||
                 PyModule_AddObjectRef(module, "RATES", rates) < 0 || !ids ||
                 PyModule_AddObjectRef(module, "IDS", ids) < 0;
    Py_XDECREF(integers);
    Py_XDECREF(rates);
    Py_XDECREF(ids);
    return failed ? -1 : 0;
}

static int fill_module(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&SPEC);
    int failed = !type || PyModule_AddObjectRef(module, "Scanner", type) < 0 || add_columns(module) < 0 ||
                 PyModule_AddIntConstant(module, "VERSION", VERSION) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, fill_module}, {0}};
static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_scanner", .m_doc = "The text of events to columns.", .m_slots = MODULE_SLOTS,
};

PyMODINIT_FUNC PyInit__scanner(void);
PyMODINIT_FUNC PyInit__scanner(void)
{
    return PyModuleDef_Init(&MODULE);
}
