/* diagnose.trace._scanner: the text of events to columns, without an object for each event.
 *
 * `Scanner.scan` fills rows of arrays that its caller owns. It answers None where the text holds anything that is not
 * understood; nothing is changed then but the arrays and the numbers that texts were given.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "asked.h"

#define VERSION 3 /* `diagnose.trace.scanning` leaves out any other: one more with each change of what is read or told */

/* The number of a text, by the caller's word for one that is new; FAILED with an exception for none. */
static int32_t id_of(Scanner *self, int which, const Key *key)
{
    uint64_t hash = hash_of(key, self->tables[which].seed);
    const Entry *known = entry_of(&self->tables[which], key, hash);
    int32_t id;
    if (known && known->hash)
        return known->id;
    id = asked_id(self, which, key);
    if (id != FAILED)
        keep(&self->tables[which], key, hash, id);
    return id;
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

/* Two texts, neither of which ends within an event; the first may be empty. */
static int scan_texts(Scanner *self, const Py_buffer *first, const Py_buffer *second, Columns *to)
{
    const unsigned char *begin = first->buf, *rest = second->buf;
    if (first->len && !scan_events(self, (Text){begin, begin + first->len}, to))
        return 0;
    to->passed = (size_t)first->len;
    return scan_events(self, (Text){rest, rest + second->len}, to);
}

static int has_room_for(const Py_buffer *buffer, size_t room, size_t columns, size_t width)
{
    return buffer->len >= 0 && (size_t)buffer->len / columns / width >= room;
}

enum { FIRST, SECOND, INTEGER_COLUMNS, RATE_COLUMNS, ID_COLUMNS, CALLS, MEMORY, LEFT_OUT, BUFFERS };

static int are_of_one_length(const Py_buffer *of, size_t room)
{
    return has_room_for(&of[RATE_COLUMNS], room, ROW_RATES, sizeof(double)) &&
           has_room_for(&of[ID_COLUMNS], room, ROW_IDS, sizeof(int32_t)) &&
           has_room_for(&of[CALLS], room, CALL_INTEGERS, sizeof(int64_t)) &&
           has_room_for(&of[MEMORY], room, MEMORY_INTEGERS, sizeof(int64_t));
}

static PyObject *scanned(Scanner *self, const Py_buffer *of)
{
    Columns to = {.room = (size_t)of[INTEGER_COLUMNS].len / ROW_INTEGERS / sizeof(int64_t)};
    PyThreadState *paused;
    int understood;
    if (!are_of_one_length(of, to.room)) {
        PyErr_SetString(PyExc_ValueError, "arrays of different length");
        return NULL;
    }
    to.integers = of[INTEGER_COLUMNS].buf;
    to.rates = of[RATE_COLUMNS].buf;
    to.ids = of[ID_COLUMNS].buf;
    to.calls = of[CALLS].buf;
    to.memory = of[MEMORY].buf;
    to.left_out = of[LEFT_OUT].buf;
    to.kinds_left_out = (size_t)of[LEFT_OUT].len / sizeof(int64_t);
    paused = PyEval_SaveThread();
    understood = scan_texts(self, &of[FIRST], &of[SECOND], &to);
    PyEval_RestoreThread(paused);
    if (PyErr_Occurred())
        return NULL;
    if (!understood)
        return Py_NewRef(Py_None);
    return Py_BuildValue("nnnnnN", (Py_ssize_t)to.rows, (Py_ssize_t)to.call_rows, (Py_ssize_t)to.memory_rows,
                         (Py_ssize_t)to.others, (Py_ssize_t)to.not_finite, PyBool_FromLong(to.needs_digits));
}

static int is_free(const Scanner *self)
{
    if (self->busy)
        PyErr_SetString(PyExc_RuntimeError, "another thread is scanning");
    return !self->busy;
}

static PyObject *scan(Scanner *self, PyObject *args)
{
    Py_buffer of[BUFFERS];
    PyObject *answer;
    if (!is_free(self) || !PyArg_ParseTuple(args, "y*y*w*w*w*w*w*w*", &of[FIRST], &of[SECOND], &of[INTEGER_COLUMNS],
                                            &of[RATE_COLUMNS], &of[ID_COLUMNS], &of[CALLS], &of[MEMORY], &of[LEFT_OUT]))
        return NULL;
    self->busy = 1;
    answer = scanned(self, of);
    self->busy = 0;
    for (int each = 0; each < BUFFERS; each++)
        PyBuffer_Release(&of[each]);
    return answer;
}

static PyObject *forget_all(Scanner *self, PyObject *nothing)
{
    (void)nothing;
    if (!is_free(self))
        return NULL;
    for (int which = 0; which < TEXTS; which++)
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
    for (int which = 0; which < TEXTS; which++)
        self->tables[which].seed = seed;
    return (PyObject *)self;
}

static void destroy(Scanner *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    for (int which = 0; which < TEXTS; which++) {
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
    PyObject *integers =
        Py_BuildValue("sssssss", "ts", "dur", "pid", "tid", "external_id", "correlation", "bytes");
    PyObject *rates = Py_BuildValue("(s)", "blocks_per_sm");
    PyObject *ids = Py_BuildValue("sssssss", "name", "cat", "shape", "stream", "device", "occupancy_percent",
                                  "block_threads");
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
