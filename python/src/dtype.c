/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types in everybody's terms: hearth's own, NumPy's names, struct's codes, DLPack's codes.
 *
 * NumPy is asked only for what is not in the table (a code such as "<f4", a class of its own making), so a name costs
 * no import and works without NumPy.
 */
#include "core.h"

#include <limits.h>
#include <string.h>

/* Codes of DLPack's element types. */
enum dl_code {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_COMPLEX = 5,
    DL_BOOL = 6,
    DL_FLOAT8_E4M3FN = 10,
    DL_FLOAT8_E4M3FNUZ = 11,
    DL_FLOAT8_E5M2 = 12,
    DL_FLOAT8_E5M2FNUZ = 13,
    DL_FLOAT8_E8M0FNU = 14,
};

/* The code that NumPy means when it says int64; the other one of the same size is another scalar type there. */
#if LONG_MAX == INT64_MAX
#define INT64_FORMAT "l"
#define UINT64_FORMAT "L"
#else
#define INT64_FORMAT "q"
#define UINT64_FORMAT "Q"
#endif

static const struct hearthpy_dtype dtypes[] = {
    {"uint8", "B", HEARTH_DTYPE_UINT8, DL_UINT, 8, 1},
    {"float32", "f", HEARTH_DTYPE_FLOAT, DL_FLOAT, 32, 4},
    {"float64", "d", HEARTH_DTYPE_DOUBLE, DL_FLOAT, 64, 8},
    {"int8", "b", HEARTH_DTYPE_INT8, DL_INT, 8, 1},
    {"uint16", "H", HEARTH_DTYPE_UINT16, DL_UINT, 16, 2},
    {"int16", "h", HEARTH_DTYPE_INT16, DL_INT, 16, 2},
    {"int32", "i", HEARTH_DTYPE_INT32, DL_INT, 32, 4},
    {"int64", INT64_FORMAT, HEARTH_DTYPE_INT64, DL_INT, 64, 8},
    {"uint32", "I", HEARTH_DTYPE_UINT32, DL_UINT, 32, 4},
    {"uint64", UINT64_FORMAT, HEARTH_DTYPE_UINT64, DL_UINT, 64, 8},
    {"bool", "?", HEARTH_DTYPE_BOOL, DL_BOOL, 8, 1},
    {"float16", "e", HEARTH_DTYPE_FLOAT16, DL_FLOAT, 16, 2},
    {"complex64", "Zf", HEARTH_DTYPE_COMPLEX64, DL_COMPLEX, 64, 8},
    {"complex128", "Zd", HEARTH_DTYPE_COMPLEX128, DL_COMPLEX, 128, 16},
    {"bfloat16", NULL, HEARTH_DTYPE_BFLOAT16, DL_BFLOAT, 16, 2},
    {"float8_e4m3fn", NULL, HEARTH_DTYPE_FLOAT8E4M3FN, DL_FLOAT8_E4M3FN, 8, 1},
    {"float8_e4m3fnuz", NULL, HEARTH_DTYPE_FLOAT8E4M3FNUZ, DL_FLOAT8_E4M3FNUZ, 8, 1},
    {"float8_e5m2", NULL, HEARTH_DTYPE_FLOAT8E5M2, DL_FLOAT8_E5M2, 8, 1},
    {"float8_e5m2fnuz", NULL, HEARTH_DTYPE_FLOAT8E5M2FNUZ, DL_FLOAT8_E5M2FNUZ, 8, 1},
    {"float8_e8m0fnu", NULL, HEARTH_DTYPE_FLOAT8E8M0, DL_FLOAT8_E8M0FNU, 8, 1},
};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* Other names in use: NumPy's for the types of C and of Python, and this library's own. "float" is what NumPy says it
 * is, 64 bits. */
static const struct alias {
    const char *name;
    enum hearth_dtype dtype;
} aliases[] = {
    {"bool_", HEARTH_DTYPE_BOOL},
    {"float", HEARTH_DTYPE_DOUBLE},
    {"double", HEARTH_DTYPE_DOUBLE},
    {"single", HEARTH_DTYPE_FLOAT},
    {"half", HEARTH_DTYPE_FLOAT16},
    {"int", HEARTH_DTYPE_INT64},
    {"complex", HEARTH_DTYPE_COMPLEX128},
    {"float8e4m3fn", HEARTH_DTYPE_FLOAT8E4M3FN},
    {"float8e4m3fnuz", HEARTH_DTYPE_FLOAT8E4M3FNUZ},
    {"float8e5m2", HEARTH_DTYPE_FLOAT8E5M2},
    {"float8e5m2fnuz", HEARTH_DTYPE_FLOAT8E5M2FNUZ},
    {"float8e8m0", HEARTH_DTYPE_FLOAT8E8M0},
    {"float8_e8m0", HEARTH_DTYPE_FLOAT8E8M0},
};

const struct hearthpy_dtype *hearthpy_dtype_of(enum hearth_dtype dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return &dtypes[i];
    return NULL;
}

const struct hearthpy_dtype *hearthpy_dtype_of_dlpack(uint8_t code, uint8_t bits)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].dl_code == code && dtypes[i].dl_bits == bits)
            return &dtypes[i];
    return NULL;
}

/* Of the integers the size decides: C has more names for them than there are types. */
static const struct hearthpy_dtype *integer_of_size(bool is_signed, size_t size)
{
    return hearthpy_dtype_of_dlpack(is_signed ? DL_INT : DL_UINT, (uint8_t)(size * CHAR_BIT));
}

const struct hearthpy_dtype *hearthpy_dtype_of_format(const char *format)
{
    static const char integers[] = "bBhHiIlLqQnN";
    static const uint8_t native[] = {1, 1, 2, 2, 4, 4, sizeof(long), sizeof(long), 8, 8, 8, 8};
    const union {
        uint16_t word;
        uint8_t first;
    } order = {1};
    if (format == NULL)
        return hearthpy_dtype_of(HEARTH_DTYPE_UINT8);
    char prefix = '@';
    if (*format != '\0' && strchr("@=<>!", *format) != NULL)
        prefix = *format++;
    bool little = order.first == 1;
    bool swapped = little ? prefix == '>' || prefix == '!' : prefix == '<';
    const struct hearthpy_dtype *found = NULL;
    if (format[0] != '\0' && format[1] == '\0') {
        const char *at = strchr(integers, format[0]);
        if (at != NULL) {
            size_t size = native[at - integers];
            if (prefix != '@' && (format[0] == 'l' || format[0] == 'L'))
                size = 4; /* "standard" sizes */
            found = integer_of_size((at - integers) % 2 == 0, size);
        } else if (format[0] == 'c') {
            found = hearthpy_dtype_of(HEARTH_DTYPE_UINT8);
        }
    }
    for (size_t i = 0; i < DTYPES && found == NULL; i++)
        if (dtypes[i].format != NULL && strcmp(dtypes[i].format, format) == 0)
            found = &dtypes[i];
    return found != NULL && swapped && found->itemsize > 1 ? NULL : found;
}

static const struct hearthpy_dtype *of_name(const char *name)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].name, name) == 0)
            return hearthpy_dtype_of(aliases[i].dtype);
    return NULL;
}

/* NULL without an exception when it is no string, or not in the table. */
static const struct hearthpy_dtype *of_string(PyObject *name)
{
    Py_ssize_t length = 0;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    if (text == NULL) {
        PyErr_Clear();
        return NULL;
    }
    return strlen(text) == (size_t)length ? of_name(text) : NULL;
}

static const struct hearthpy_dtype *unknown(PyObject *value)
{
    PyErr_Format(PyExc_TypeError,
                 "dtype %R is none that a lease can have: use a name such as \"float32\", "
                 "\"uint8\", \"bool\", \"complex64\" or \"bfloat16\", or \"uint8\" for raw bytes",
                 value);
    return NULL;
}

/* An attribute, or NULL without an exception where there is none. */
static PyObject *attribute_of(PyObject *value, const char *name)
{
    PyObject *found = PyObject_GetAttrString(value, name);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return found;
}

/* Scalar types that bear the type's name. */
static const struct hearthpy_dtype *of_class_name(PyObject *class)
{
    PyObject *name = PyType_GetName((PyTypeObject *)class);
    const struct hearthpy_dtype *found = name == NULL ? NULL : of_string(name);
    Py_XDECREF(name);
    PyErr_Clear();
    return found;
}

static const struct hearthpy_dtype *of_class(PyObject *class)
{
    if (class == (PyObject *)&PyFloat_Type)
        return hearthpy_dtype_of(HEARTH_DTYPE_DOUBLE);
    if (class == (PyObject *)&PyLong_Type)
        return hearthpy_dtype_of(HEARTH_DTYPE_INT64);
    return of_class_name(class);
}

/* From what looks like numpy.dtype: by its scalar type, which costs little there, else by its name, which NumPy puts
 * together in Python each time. NULL without an exception if it does not. */
static const struct hearthpy_dtype *of_descriptor(PyObject *value)
{
    PyObject *class = attribute_of(value, "type");
    const struct hearthpy_dtype *found =
        class != NULL && PyType_Check(class) ? of_class_name(class) : NULL;
    Py_XDECREF(class);
    if (found == NULL && PyErr_Occurred() == NULL) {
        PyObject *name = attribute_of(value, "name");
        found = name == NULL ? NULL : of_string(name);
        Py_XDECREF(name);
    }
    if (found == NULL || found->itemsize == 1)
        return found;
    PyObject *native = attribute_of(value, "isnative");
    if (native == Py_False) {
        PyErr_Format(PyExc_TypeError,
                     "dtype %R is of the other byte order: convert with .newbyteorder(\"=\")",
                     value);
        found = NULL;
    }
    Py_XDECREF(native);
    return PyErr_Occurred() == NULL ? found : NULL;
}

/* Whatever NumPy makes of it, where NumPy is. */
static const struct hearthpy_dtype *of_numpy(PyObject *value)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (numpy == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_ImportError))
            return NULL;
        PyErr_Clear();
        return unknown(value);
    }
    PyObject *descriptor = PyObject_CallMethod(numpy, "dtype", "O", value);
    Py_DECREF(numpy);
    if (descriptor == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError))
            return NULL;
        PyErr_Clear();
        return unknown(value);
    }
    const struct hearthpy_dtype *found = of_descriptor(descriptor);
    Py_DECREF(descriptor);
    return found != NULL || PyErr_Occurred() != NULL ? found : unknown(value);
}

const struct hearthpy_dtype *hearthpy_dtype_parse(PyObject *value)
{
    const struct hearthpy_dtype *found = NULL;
    if (value == NULL || value == Py_None)
        return hearthpy_dtype_of(HEARTH_DTYPE_UINT8);
    if (PyUnicode_Check(value))
        found = of_string(value);
    else if (PyType_Check(value))
        found = of_class(value);
    else
        found = of_descriptor(value);
    return found != NULL || PyErr_Occurred() != NULL ? found : of_numpy(value);
}
