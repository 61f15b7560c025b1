/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and shapes. */
#include "runtime/tensor.h"

static const struct {
    const char *text;
    uint32_t bits;
} types[] = {
#define HEARTH_DTYPE_ROW(name, value, bits, text) [value] = {text, bits},
    HEARTH_DTYPE_MAP(HEARTH_DTYPE_ROW)
#undef HEARTH_DTYPE_ROW
};

bool hearth__dtype_is_known(enum hearth_dtype dtype)
{
    return (size_t)dtype < sizeof(types) / sizeof(types[0]);
}

const char *hearth_dtype_name(enum hearth_dtype dtype)
{
    return hearth__dtype_is_known(dtype) ? types[dtype].text : "unknown";
}

uint32_t hearth_dtype_bits(enum hearth_dtype dtype)
{
    return hearth__dtype_is_known(dtype) ? types[dtype].bits : 0;
}

enum hearth_status hearth_shape_bytes(enum hearth_dtype dtype, const struct hearth_shape *shape,
                                      size_t *bytes)
{
    uint32_t bits = hearth_dtype_bits(dtype);
    if (shape == NULL || bytes == NULL || bits == 0 || shape->rank > HEARTH_RANK_MAX)
        return HEARTH_INVALID;
    bool none = false; /* a 0 among the dimensions makes any product 0 */
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0)
            return HEARTH_INVALID;
        none |= shape->dims[i] == 0;
    }
    size_t elements = none ? 0 : 1;
    for (uint32_t i = 0; !none && i < shape->rank; i++)
        if (__builtin_mul_overflow(elements, (size_t)shape->dims[i], &elements))
            return HEARTH_OVERFLOW;
    /* elements * bits / 8, rounded up, without the product of bits. */
    size_t whole = elements / 8;
    size_t rest = elements % 8;
    size_t total;
    if (__builtin_mul_overflow(whole, (size_t)bits, &total) ||
        __builtin_add_overflow(total, (rest * bits + 7) / 8, &total))
        return HEARTH_OVERFLOW;
    *bytes = total;
    return HEARTH_OK;
}
