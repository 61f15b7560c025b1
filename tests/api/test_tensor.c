/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: element types, shapes, making, borrowing, reshaping, getters. Who owns the bytes:
 * test_tensor_owner.c. */
#include "tensor_support.h"

static struct memory memory;
static struct hearth_exec *arena;

static void setup(void)
{
    memory_init(&memory);
    arena = arena_create(&memory, 0, 0, 0);
    misuse_record();
}

static void teardown(void)
{
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    check_identity(arena, &memory);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

TestSuite(tensor, .init = setup, .fini = teardown);

/* Element types and shapes */

static const struct type {
    enum hearth_dtype dtype;
    unsigned value;
    uint32_t bits;
    const char *text;
} types[] = {
    {HEARTH_DTYPE_UNDEFINED, 0, 0, "undefined"},
    {HEARTH_DTYPE_FLOAT, 1, 32, "float"},
    {HEARTH_DTYPE_UINT8, 2, 8, "uint8"},
    {HEARTH_DTYPE_INT8, 3, 8, "int8"},
    {HEARTH_DTYPE_UINT16, 4, 16, "uint16"},
    {HEARTH_DTYPE_INT16, 5, 16, "int16"},
    {HEARTH_DTYPE_INT32, 6, 32, "int32"},
    {HEARTH_DTYPE_INT64, 7, 64, "int64"},
    {HEARTH_DTYPE_STRING, 8, 0, "string"},
    {HEARTH_DTYPE_BOOL, 9, 8, "bool"},
    {HEARTH_DTYPE_FLOAT16, 10, 16, "float16"},
    {HEARTH_DTYPE_DOUBLE, 11, 64, "double"},
    {HEARTH_DTYPE_UINT32, 12, 32, "uint32"},
    {HEARTH_DTYPE_UINT64, 13, 64, "uint64"},
    {HEARTH_DTYPE_COMPLEX64, 14, 64, "complex64"},
    {HEARTH_DTYPE_COMPLEX128, 15, 128, "complex128"},
    {HEARTH_DTYPE_BFLOAT16, 16, 16, "bfloat16"},
    {HEARTH_DTYPE_FLOAT8E4M3FN, 17, 8, "float8e4m3fn"},
    {HEARTH_DTYPE_FLOAT8E4M3FNUZ, 18, 8, "float8e4m3fnuz"},
    {HEARTH_DTYPE_FLOAT8E5M2, 19, 8, "float8e5m2"},
    {HEARTH_DTYPE_FLOAT8E5M2FNUZ, 20, 8, "float8e5m2fnuz"},
    {HEARTH_DTYPE_UINT4, 21, 4, "uint4"},
    {HEARTH_DTYPE_INT4, 22, 4, "int4"},
    {HEARTH_DTYPE_FLOAT4E2M1, 23, 4, "float4e2m1"},
    {HEARTH_DTYPE_FLOAT8E8M0, 24, 8, "float8e8m0"},
    {HEARTH_DTYPE_UINT2, 25, 2, "uint2"},
    {HEARTH_DTYPE_INT2, 26, 2, "int2"},
};

/* A value that the list of types does not have. */
static const enum hearth_dtype unknown_type = (enum hearth_dtype)27;

Test(tensor, every_type_has_its_value_bits_and_text)
{
    unsigned listed = 0;
#define COUNT_TYPE(name, value, bits, text) listed++;
    HEARTH_DTYPE_MAP(COUNT_TYPE)
#undef COUNT_TYPE
    EXPECT_SIZE(listed, COUNT_OF(types));
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        EXPECT_SIZE(types[i].value, (size_t)types[i].dtype);
        EXPECT_SIZE(types[i].bits, hearth_dtype_bits(types[i].dtype));
        cr_assert_str_eq(hearth_dtype_name(types[i].dtype), types[i].text);
    }
    cr_assert_str_eq(hearth_dtype_name(unknown_type), "unknown");
    EXPECT_SIZE(0, hearth_dtype_bits(unknown_type));
}

static size_t bytes_of(enum hearth_dtype dtype, struct hearth_shape shape)
{
    size_t bytes = 12345;
    EXPECT(HEARTH_OK, hearth_shape_bytes(dtype, &shape, &bytes));
    return bytes;
}

Test(tensor, bytes_are_elements_times_bits_rounded_up_once)
{
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        size_t bits = types[i].bits;
        if (bits == 0)
            continue;
        for (int64_t n = 0; n < 70; n++)
            EXPECT_SIZE(((size_t)n * bits + 7) / 8, bytes_of(types[i].dtype, shape_of(1, n)));
        EXPECT_SIZE((bits + 7) / 8, bytes_of(types[i].dtype, shape_of(0)));
        /* Once for the whole, not once for each row of three. */
        EXPECT_SIZE((15 * bits + 7) / 8, bytes_of(types[i].dtype, shape_of(2, 5, 3)));
        EXPECT_SIZE(0, bytes_of(types[i].dtype, shape_of(3, 5, 0, INT64_MAX)));
    }
    EXPECT_SIZE(3, bytes_of(HEARTH_DTYPE_INT4, shape_of(1, 5)));
    EXPECT_SIZE(2, bytes_of(HEARTH_DTYPE_UINT2, shape_of(1, 5)));
    EXPECT_SIZE(512, bytes_of(HEARTH_DTYPE_INT16, shape_of(8, 2, 2, 2, 2, 2, 2, 2, 2)));
}

Test(tensor, the_largest_shapes_are_exact)
{
    const struct hearth_shape half = shape_of(2, (int64_t)1 << 62, 2);
    const struct hearth_shape all = shape_of(2, (int64_t)1 << 62, 4);
    const struct hearth_shape product = shape_of(2, INT64_MAX, INT64_MAX);
    const struct hearth_shape odd = shape_of(1, INT64_MAX);
    size_t bytes = 7;
    EXPECT_SIZE((size_t)1 << 63, bytes_of(HEARTH_DTYPE_UINT8, half));
    EXPECT(HEARTH_OVERFLOW, hearth_shape_bytes(HEARTH_DTYPE_INT16, &half, &bytes));
    /* 2^64 - 2 bytes: the bits do not fit, the bytes do. */
    EXPECT_SIZE(SIZE_MAX - 1, bytes_of(HEARTH_DTYPE_INT16, odd));
    EXPECT_SIZE((size_t)1 << 62, bytes_of(HEARTH_DTYPE_INT4, odd));
    EXPECT_SIZE((size_t)1 << 61, bytes_of(HEARTH_DTYPE_INT2, odd));
    EXPECT(HEARTH_OVERFLOW, hearth_shape_bytes(HEARTH_DTYPE_FLOAT, &odd, &bytes));
    EXPECT(HEARTH_OVERFLOW, hearth_shape_bytes(HEARTH_DTYPE_UINT8, &all, &bytes));
    EXPECT(HEARTH_OVERFLOW, hearth_shape_bytes(HEARTH_DTYPE_UINT2, &all, &bytes));
    EXPECT(HEARTH_OVERFLOW, hearth_shape_bytes(HEARTH_DTYPE_INT2, &product, &bytes));
    EXPECT_SIZE(7, bytes); /* written on OK only */
}

Test(tensor, impossible_shapes_are_invalid)
{
    struct hearth_shape shape = shape_of(2, 3, 4), negative = shape_of(3, 0, 4, -1);
    struct hearth_shape rank = shape_of(8, 1, 1, 1, 1, 1, 1, 1, 1);
    size_t bytes = 7;
    EXPECT(HEARTH_INVALID, hearth_shape_bytes(HEARTH_DTYPE_FLOAT, NULL, &bytes));
    EXPECT(HEARTH_INVALID, hearth_shape_bytes(HEARTH_DTYPE_FLOAT, &shape, NULL));
    EXPECT(HEARTH_INVALID, hearth_shape_bytes(HEARTH_DTYPE_UNDEFINED, &shape, &bytes));
    EXPECT(HEARTH_INVALID, hearth_shape_bytes(HEARTH_DTYPE_STRING, &shape, &bytes));
    EXPECT(HEARTH_INVALID, hearth_shape_bytes(unknown_type, &shape, &bytes));
    EXPECT(HEARTH_INVALID, hearth_shape_bytes(HEARTH_DTYPE_FLOAT, &negative, &bytes));
    EXPECT(HEARTH_OK, hearth_shape_bytes(HEARTH_DTYPE_UINT8, &rank, &bytes));
    EXPECT_SIZE(1, bytes);
    rank.rank = HEARTH_RANK_MAX + 1;
    EXPECT(HEARTH_INVALID, hearth_shape_bytes(HEARTH_DTYPE_UINT8, &rank, &bytes));
    rank.rank = UINT32_MAX;
    EXPECT(HEARTH_INVALID, hearth_shape_bytes(HEARTH_DTYPE_UINT8, &rank, &bytes));
    shape.dims[2] = -5; /* beyond the rank: not looked at */
    EXPECT(HEARTH_OK, hearth_shape_bytes(HEARTH_DTYPE_FLOAT, &shape, &bytes));
    EXPECT_SIZE(48, bytes);
}

/* Making */

Test(tensor, an_empty_one)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT, zeroed;
    memset(&zeroed, 0, sizeof zeroed);
    tensor_is_empty(&tensor);
    tensor_is_empty(&zeroed);
    tensor_is_empty(NULL);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(NULL));
    hearth_tensor_cleanup(&tensor);
    hearth_tensor_cleanup(NULL);
    tensor_is_empty(&tensor);
}

Test(tensor, inline_storage_is_the_tensors_own)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(2, 5, 5);
    EXPECT(HEARTH_OK, hearth_tensor_make(NULL, HEARTH_DTYPE_FLOAT, &shape, 0, &tensor));
    cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_INLINE);
    cr_assert_eq(hearth_tensor_dtype(&tensor), HEARTH_DTYPE_FLOAT);
    cr_assert_null(hearth_tensor_allocator(&tensor));
    EXPECT_SIZE(100, hearth_tensor_size(&tensor));
    cr_assert_geq(hearth_tensor_capacity(&tensor), 100);
    EXPECT_SIZE(0, (uintptr_t)hearth_tensor_data(&tensor) % HEARTH_ALIGNMENT);
    cr_assert(shape_equals(hearth_tensor_shape(&tensor), &shape));
    memset(hearth_tensor_data(&tensor), 0x5A, hearth_tensor_capacity(&tensor));
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    tensor_is_empty(&tensor);
}

Test(tensor, a_handle_owns_what_an_allocator_gave)
{
    struct hearth_allocator *allocator = hearth_exec_allocator(arena);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 250);
    EXPECT(HEARTH_OK, hearth_tensor_make(allocator, HEARTH_DTYPE_INT32, &shape, 0, &tensor));
    cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_HANDLE);
    cr_assert_eq(hearth_tensor_allocator(&tensor), allocator);
    EXPECT_SIZE(1000, hearth_tensor_size(&tensor));
    EXPECT_SIZE(1024, hearth_tensor_capacity(&tensor));
    EXPECT_SIZE(1000, hearth_exec_live_bytes(arena));
    EXPECT_SIZE(1000, hearth_handle_logical_size(&tensor.handle));
    memset(hearth_tensor_data(&tensor), 1, 1024);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    tensor_is_empty(&tensor);
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
}

Test(tensor, nothing_still_has_an_address)
{
    struct hearth_allocator *allocators[] = {NULL, hearth_exec_allocator(arena)};
    const struct hearth_shape none = shape_of(2, 0, 3);
    for (size_t i = 0; i < COUNT_OF(allocators); i++) {
        HEARTH_TENSOR_SCOPED a = HEARTH_TENSOR_INIT;
        HEARTH_TENSOR_SCOPED b = HEARTH_TENSOR_INIT;
        EXPECT(HEARTH_OK, hearth_tensor_make(allocators[i], HEARTH_DTYPE_FLOAT, &none, 0, &a));
        EXPECT(HEARTH_OK, hearth_tensor_make(allocators[i], HEARTH_DTYPE_FLOAT, &none, 0, &b));
        EXPECT_SIZE(0, hearth_tensor_size(&a));
        cr_assert_not_null(hearth_tensor_data(&a));
        cr_assert_neq(hearth_tensor_data(&a), hearth_tensor_data(&b));
        cr_assert(shape_equals(hearth_tensor_shape(&a), &none));
    }
}

Test(tensor, the_byte_size_may_be_larger_than_the_shape_says)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 10);
    EXPECT(HEARTH_INVALID, hearth_tensor_make(NULL, HEARTH_DTYPE_FLOAT, &shape, 39, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_make(NULL, HEARTH_DTYPE_FLOAT, &shape, 1, &tensor));
    tensor_is_empty(&tensor);
    EXPECT(HEARTH_OK, hearth_tensor_make(NULL, HEARTH_DTYPE_FLOAT, &shape, 40, &tensor));
    EXPECT_SIZE(40, hearth_tensor_size(&tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    EXPECT(HEARTH_OK, hearth_tensor_make(NULL, HEARTH_DTYPE_FLOAT, &shape, 4096, &tensor));
    EXPECT_SIZE(4096, hearth_tensor_size(&tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(tensor, types_without_a_fixed_size_need_the_byte_size)
{
    const enum hearth_dtype open[] = {HEARTH_DTYPE_STRING, HEARTH_DTYPE_UNDEFINED};
    const struct hearth_shape shape = shape_of(1, 10), none = shape_of(1, 0);
    for (size_t i = 0; i < COUNT_OF(open); i++) {
        struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
        EXPECT(HEARTH_INVALID, hearth_tensor_make(NULL, open[i], &shape, 0, &tensor));
        EXPECT(HEARTH_OK, hearth_tensor_make(NULL, open[i], &none, 0, &tensor)); /* no elements */
        EXPECT_SIZE(0, hearth_tensor_size(&tensor));
        EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
        EXPECT(HEARTH_OK, hearth_tensor_make(NULL, open[i], &shape, 77, &tensor));
        EXPECT_SIZE(77, hearth_tensor_size(&tensor));
        cr_assert_eq(hearth_tensor_dtype(&tensor), open[i]);
        EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    }
}

Test(tensor, making_is_checked)
{
    struct hearth_allocator *allocator = hearth_exec_allocator(arena);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 10), negative = shape_of(1, -1);
    const struct hearth_shape huge = shape_of(1, INT64_MAX), more = shape_of(2, INT64_MAX, 16);
    struct hearth_shape rank = shape, reserved = shape;
    rank.rank = HEARTH_RANK_MAX + 1;
    reserved.reserved = 1;
    EXPECT(HEARTH_INVALID, hearth_tensor_make(NULL, HEARTH_DTYPE_FLOAT, &shape, 0, NULL));
    EXPECT(HEARTH_INVALID, hearth_tensor_make(NULL, HEARTH_DTYPE_FLOAT, NULL, 0, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_make(NULL, unknown_type, &shape, 100, &tensor));
    struct hearth_allocator *both[] = {NULL, allocator};
    for (size_t i = 0; i < COUNT_OF(both); i++) {
        EXPECT(HEARTH_INVALID,
               hearth_tensor_make(both[i], HEARTH_DTYPE_FLOAT, &negative, 0, &tensor));
        EXPECT(HEARTH_INVALID,
               hearth_tensor_make(both[i], HEARTH_DTYPE_STRING, &negative, 8, &tensor));
        EXPECT(HEARTH_INVALID, hearth_tensor_make(both[i], HEARTH_DTYPE_FLOAT, &rank, 0, &tensor));
        EXPECT(HEARTH_INVALID,
               hearth_tensor_make(both[i], HEARTH_DTYPE_FLOAT, &reserved, 0, &tensor));
        EXPECT(HEARTH_OVERFLOW, hearth_tensor_make(both[i], HEARTH_DTYPE_INT16, &huge, 0, &tensor));
        EXPECT(HEARTH_OVERFLOW, hearth_tensor_make(both[i], HEARTH_DTYPE_INT64, &huge, 8, &tensor));
        EXPECT(HEARTH_OVERFLOW,
               hearth_tensor_make(both[i], HEARTH_DTYPE_STRING, &more, 8, &tensor));
        EXPECT(HEARTH_OVERFLOW,
               hearth_tensor_make(both[i], HEARTH_DTYPE_STRING, &shape, SIZE_MAX, &tensor));
        tensor_is_empty(&tensor);
    }
    EXPECT(HEARTH_OK, hearth_tensor_make(NULL, HEARTH_DTYPE_FLOAT, &shape, 0, &tensor));
    EXPECT(HEARTH_BUSY, hearth_tensor_make(NULL, HEARTH_DTYPE_FLOAT, &shape, 0, &tensor));
    EXPECT(HEARTH_BUSY, hearth_tensor_make(allocator, HEARTH_DTYPE_FLOAT, &shape, 0, &tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

static void make_elsewhere(void *tensor)
{
    const struct hearth_shape shape = shape_of(1, 10);
    EXPECT(HEARTH_NOT_OWNER,
           hearth_tensor_make(hearth_exec_allocator(arena), HEARTH_DTYPE_FLOAT, &shape, 0, tensor));
}

Test(tensor, the_allocators_answers_are_passed_on)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 1 << 20);
    memory.limit = 4096;
    EXPECT(HEARTH_NO_MEMORY, hearth_tensor_make(hearth_exec_allocator(arena), HEARTH_DTYPE_FLOAT,
                                                &shape, 0, &tensor));
    on_thread(make_elsewhere, &tensor);
    tensor_is_empty(&tensor);
}

/* AddressSanitizer ends the program instead. */
#ifndef __SANITIZE_ADDRESS__
Test(tensor, the_heap_may_refuse)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, (int64_t)1 << 61);
    EXPECT(HEARTH_NO_MEMORY, hearth_tensor_make(NULL, HEARTH_DTYPE_UINT8, &shape, 0, &tensor));
    tensor_is_empty(&tensor);
}
#endif

/* Borrowing */

Test(tensor, borrowed_bytes_stay_the_lenders)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(2, 3, 2), none = shape_of(1, 0);
    float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT(HEARTH_OK, hearth_tensor_borrow(data, sizeof data, HEARTH_DTYPE_FLOAT, &shape, &tensor));
    cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_BORROWED);
    cr_assert_eq(hearth_tensor_data(&tensor), data);
    EXPECT_SIZE(sizeof data, hearth_tensor_size(&tensor));
    EXPECT_SIZE(sizeof data, hearth_tensor_capacity(&tensor));
    cr_assert_null(hearth_tensor_allocator(&tensor));
    EXPECT(HEARTH_BUSY, hearth_tensor_borrow(data, 24, HEARTH_DTYPE_FLOAT, &shape, &tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    tensor_is_empty(&tensor);
    cr_assert_eq(data[7], 8.0F);
    EXPECT(HEARTH_OK, hearth_tensor_borrow(NULL, 0, HEARTH_DTYPE_FLOAT, &none, &tensor));
    cr_assert_null(hearth_tensor_data(&tensor));
    cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_BORROWED);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(tensor, borrowing_is_checked)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(2, 3, 2), negative = shape_of(1, -1);
    const struct hearth_shape huge = shape_of(1, INT64_MAX);
    char data[64];
    EXPECT(HEARTH_INVALID, hearth_tensor_borrow(data, 23, HEARTH_DTYPE_FLOAT, &shape, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_borrow(NULL, 24, HEARTH_DTYPE_FLOAT, &shape, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_borrow(NULL, 0, HEARTH_DTYPE_FLOAT, &shape, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_borrow(NULL, 8, HEARTH_DTYPE_STRING, &shape, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_borrow(data, 64, HEARTH_DTYPE_FLOAT, NULL, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_borrow(data, 64, HEARTH_DTYPE_FLOAT, &shape, NULL));
    EXPECT(HEARTH_INVALID, hearth_tensor_borrow(data, 64, HEARTH_DTYPE_INT8, &negative, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_borrow(data, 64, unknown_type, &shape, &tensor));
    EXPECT(HEARTH_OVERFLOW, hearth_tensor_borrow(data, 64, HEARTH_DTYPE_INT64, &huge, &tensor));
    tensor_is_empty(&tensor);
    EXPECT(HEARTH_OK, hearth_tensor_borrow(data, 60, HEARTH_DTYPE_STRING, &shape, &tensor));
    EXPECT_SIZE(60, hearth_tensor_size(&tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(tensor, a_scope_resets)
{
    {
        HEARTH_TENSOR_SCOPED tensor = HEARTH_TENSOR_INIT;
        const struct hearth_shape shape = shape_of(1, 10);
        EXPECT(HEARTH_OK, hearth_tensor_make(hearth_exec_allocator(arena), HEARTH_DTYPE_FLOAT,
                                             &shape, 0, &tensor));
        EXPECT_SIZE(1, hearth_exec_live_count(arena));
    }
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
}
