/* diagnose.predict.replay._loop: one pass over the items of a step.
 *
 * `passed` does what `diagnose.predict.replay.passes` does in Python, where it is explained: the same additions and
 * comparisons of doubles in the same order, so that the clocks are the same bit for bit. There is no product that a
 * compiler could contract with a sum. All arrays are the caller's; what they refer to is compared with their bounds.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <float.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "sums would not be rounded to doubles, as those of Python are"
#endif

#define VERSION 1 /* `passes` leaves out any other: one more with each change of what is taken or done */

enum { NONE = -1, ALL_STREAMS = -2, ONE_STREAM = -3 }; /* as `diagnose.predict.replay.waits` has them */

/* The arrays in order. Columns have an entry for each item; what begins with CALLED is written to. */
enum { BEFORE, OWN, LATENCY, GAP, DURATION, OWNER, STREAM, EDGE, WAIT, QUEUED, CALLED, ENDED, COLUMNS };
enum { CLOCKS = COLUMNS, BEGUN, FIRST, NEXT, ARRAYS };
static const char KINDS[] = "dddddiiii?ddddii"; /* doubles, 64-bit integers, truths */

typedef struct {
    const double *before, *own, *latency, *gap, *duration;
    const int64_t *owner, *stream, *edge, *wait;
    const unsigned char *queued;
    double *called, *ended;
    double host, *ends, latest, edge_ns; /* the clocks: the host's, the streams', the latest of these */
    double *begun;                       /* when launches started: of each stream as many as its queue has places */
    const int64_t *first;                /* the first place of each stream, and of one behind the last */
    int64_t *next;                       /* the place that its next launch takes */
    int64_t items, streams, places;
} Step;

static inline int is_of(int64_t number, int64_t size)
{
    return number >= 0 && number < size;
}

static inline double later(double one, double other)
{
    return other > one ? other : one;
}

/* When the item, or all that the stream held, has ended; NULL where there is none such. */
static inline const double *end_of(const Step *step, int64_t awaited)
{
    if (awaited > ONE_STREAM)
        return is_of(awaited, step->items) ? &step->ended[awaited] : NULL;
    return is_of(ONE_STREAM - awaited, step->streams) ? &step->ends[ONE_STREAM - awaited] : NULL;
}

/* The place that the stream's next launch takes; it holds when the launch before that had it started. */
static inline double *place_of(Step *step, int64_t stream)
{
    int64_t place = step->next[stream];
    if (!is_of(place, step->places))
        return NULL;
    step->next[stream] = place + 1 < step->first[stream + 1] ? place + 1 : step->first[stream];
    return &step->begun[place];
}

/* The earliest start of an activity, as its stream, its launch and its edge allow; 0 where it refers to nothing. */
static inline int find_start(const Step *step, int64_t item, double *start)
{
    int64_t owner = step->owner[item], edge = step->edge[item];
    *start = step->ends[step->stream[item]] + step->gap[item];
    if (owner >= step->items)
        return 0;
    if (owner >= 0)
        *start = later(*start, step->called[owner] + step->latency[item]);
    if (edge != NONE) {
        const double *end = end_of(step, edge);
        if (!end)
            return 0;
        *start = later(*start, *end + step->edge_ns);
    }
    return 1;
}

static inline int pass_activity(Step *step, int64_t item)
{
    int64_t stream = step->stream[item];
    double *place = NULL, start;
    if (stream >= step->streams || (step->queued[item] && !(place = place_of(step, stream))))
        return 0;
    if (place)
        step->host = later(step->host, *place);
    step->called[item] = step->host;
    if (!find_start(step, item, &start))
        return 0;
    if (place)
        *place = start;
    step->ends[stream] = step->ended[item] = start + step->duration[item];
    step->latest = later(step->latest, step->ended[item]);
    return 1;
}

static inline int pass_item(Step *step, int64_t item)
{
    int64_t wait = step->wait[item];
    step->host += step->before[item];
    if (step->stream[item] < 0)
        step->called[item] = step->host;
    else if (!pass_activity(step, item))
        return 0;
    if (wait != NONE) {
        const double *end = wait == ALL_STREAMS ? &step->latest : end_of(step, wait);
        if (!end)
            return 0;
        step->host = later(step->host, *end);
    }
    step->host += step->own[item];
    return 1;
}

static Py_ssize_t entries(const Py_buffer *array)
{
    return array->len / array->itemsize;
}

static PyObject *pass_all(const Py_buffer *of, double edge_ns)
{
    double *clocks = of[CLOCKS].buf;
    Step step = {
        .before = of[BEFORE].buf, .own = of[OWN].buf, .latency = of[LATENCY].buf, .gap = of[GAP].buf,
        .duration = of[DURATION].buf, .owner = of[OWNER].buf, .stream = of[STREAM].buf, .edge = of[EDGE].buf,
        .wait = of[WAIT].buf, .queued = of[QUEUED].buf, .called = of[CALLED].buf, .ended = of[ENDED].buf,
        .host = clocks[0], .ends = clocks + 1, .edge_ns = edge_ns, .begun = of[BEGUN].buf, .first = of[FIRST].buf,
        .next = of[NEXT].buf, .items = entries(&of[BEFORE]), .streams = entries(&of[NEXT]),
        .places = entries(&of[BEGUN]),
    };
    step.latest = step.ends[step.streams];
    for (int64_t item = 0; item < step.items; item++)
        if (!pass_item(&step, item))
            return PyErr_Format(PyExc_ValueError, "item %lld refers to what is not there", (long long)item);
    clocks[0] = step.host;
    step.ends[step.streams] = step.latest;
    Py_RETURN_NONE;
}

/* Whether it holds such numbers, at an address that fits them: NumPy tells other formats of others. */
static int is_kind(const Py_buffer *array, char kind)
{
    const char *format = array->format, usual[] = {kind, 0};
    if (!format || array->itemsize != (kind == '?' ? 1 : 8))
        return 0;
    return !strcmp(format, usual) || (kind == 'i' && (!strcmp(format, "l") || !strcmp(format, "q")));
}

/* Whether the arrays fit each other. */
static int are_of_one_step(const Py_buffer *of)
{
    for (int each = 0; each < ARRAYS; each++)
        if (!is_kind(&of[each], KINDS[each]) || (each < COLUMNS && entries(&of[each]) != entries(&of[BEFORE])))
            return 0;
    return entries(&of[CLOCKS]) == entries(&of[NEXT]) + 2 && entries(&of[FIRST]) == entries(&of[NEXT]) + 1;
}

static PyObject *passed(PyObject *module, PyObject *args)
{
    Py_buffer of[ARRAYS];
    PyObject *answer = NULL;
    int held = 0;
    double edge_ns;
    (void)module;
    if (PyTuple_Size(args) != ARRAYS + 1)
        return PyErr_Format(PyExc_TypeError, "passed takes %d arrays and a number", ARRAYS);
    edge_ns = PyFloat_AsDouble(PyTuple_GetItem(args, ARRAYS));
    if (edge_ns == -1.0 && PyErr_Occurred())
        return NULL;
    for (int flags; held < ARRAYS; held++) {
        flags = PyBUF_ND | PyBUF_FORMAT | (held < CALLED || held == FIRST ? 0 : PyBUF_WRITABLE);
        if (PyObject_GetBuffer(PyTuple_GetItem(args, held), &of[held], flags) < 0)
            break;
    }
    if (held == ARRAYS && !are_of_one_step(of))
        PyErr_SetString(PyExc_ValueError, "arrays of different length or of another type");
    else if (held == ARRAYS)
        answer = pass_all(of, edge_ns);
    while (held)
        PyBuffer_Release(&of[--held]);
    return answer;
}

static PyMethodDef METHODS[] = {
    {"passed", passed, METH_VARARGS, "Takes the clocks of host and streams once over the items."},
    {0},
};

static int fill_module(PyObject *module)
{
    return PyModule_AddIntConstant(module, "VERSION", VERSION);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, fill_module}, {0}};
static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_loop", .m_doc = "A pass over the items of a step.", .m_methods = METHODS,
    .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit__loop(void);
PyMODINIT_FUNC PyInit__loop(void)
{
    return PyModuleDef_Init(&MODULE);
}
