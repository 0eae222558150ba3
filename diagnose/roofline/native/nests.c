/* diagnose.roofline._nests: what is inside what, in one pass over events in nested order.
 *
 * Arrays are contiguous and their caller's; each answers whether all of them are as they have to be, else an exception.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>

#define VERSION 1 /* `nests` leaves out any other: one more with each change of what is taken or done */
#define NONE (-1)

/* The event before is around this one, or what is around it: what ends earlier is never asked again. */
static void enclose(const int64_t *end, const char *is_first, int32_t *up, int32_t count)
{
    for (int32_t at = 0; at < count; at++) {
        int32_t around = is_first[at] ? NONE : at - 1;
        while (around >= 0 && end[around] < end[at])
            around = up[around];
        up[at] = around;
    }
}

static int look_up(const char *marked, const int32_t *up, int32_t *found, int32_t count)
{
    for (int32_t at = 0; at < count; at++) {
        if (up[at] >= at)
            return 0;
        found[at] = marked[at] ? at : up[at] < 0 ? NONE : found[up[at]];
    }
    return 1;
}

/* Three arrays with as many entries, of so many bytes each, of which the last is written to; how many, -1 otherwise. */
static int32_t opened(PyObject *given, Py_buffer *arrays, const Py_ssize_t *bytes)
{
    PyObject *each[3];
    Py_ssize_t count;
    int taken = 0;
    const int how[] = {PyBUF_SIMPLE, PyBUF_SIMPLE, PyBUF_WRITABLE};
    if (!PyArg_ParseTuple(given, "OOO", &each[0], &each[1], &each[2]))
        return -1;
    while (taken < 3 && !PyObject_GetBuffer(each[taken], &arrays[taken], how[taken]))
        taken++;
    count = taken == 3 ? arrays[2].len / bytes[2] : -1;
    if (taken == 3 && count <= INT32_MAX && arrays[0].len == count * bytes[0] && arrays[1].len == count * bytes[1])
        return (int32_t)count;
    if (taken == 3)
        PyErr_SetString(PyExc_ValueError, "the arrays do not go together");
    while (taken--)
        PyBuffer_Release(&arrays[taken]);
    return -1;
}

static PyObject *closed(Py_buffer *arrays, int good)
{
    for (int at = 0; at < 3; at++)
        PyBuffer_Release(&arrays[at]);
    if (good)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "an event is not behind what is around it");
    return NULL;
}

static PyObject *enclosing(PyObject *module, PyObject *given)
{
    const Py_ssize_t bytes[] = {sizeof(int64_t), 1, sizeof(int32_t)};
    Py_buffer arrays[3];
    int32_t count = opened(given, arrays, bytes);
    if (count < 0)
        return NULL;
    enclose(arrays[0].buf, arrays[1].buf, arrays[2].buf, count);
    return closed(arrays, 1);
}

static PyObject *nearest(PyObject *module, PyObject *given)
{
    const Py_ssize_t bytes[] = {1, sizeof(int32_t), sizeof(int32_t)};
    Py_buffer arrays[3];
    int32_t count = opened(given, arrays, bytes);
    if (count < 0)
        return NULL;
    return closed(arrays, look_up(arrays[0].buf, arrays[1].buf, arrays[2].buf, count));
}

static PyMethodDef METHODS[] = {
    {"enclosing", enclosing, METH_VARARGS, "From ends and first events of threads, the innermost event around each."},
    {"nearest", nearest, METH_VARARGS, "From marks and what is around each, itself or the nearest marked one."},
    {0},
};

static int fill_module(PyObject *module)
{
    return PyModule_AddIntConstant(module, "VERSION", VERSION);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, fill_module}, {0}};
static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_nests", .m_doc = "What is inside what.", .m_methods = METHODS, .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit__nests(void);
PyMODINIT_FUNC PyInit__nests(void)
{
    return PyModuleDef_Init(&MODULE);
}
