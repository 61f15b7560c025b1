/* SPDX-License-Identifier: Apache-2.0 */
#include "prefault.h"

#include <string.h>
#include <sys/mman.h>

#define PREFAULT_STACK_BYTES ((size_t)128 << 10)

void *prefault_alloc(size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) {
        return NULL;
    }
    if (total == 0) {
        total = 1;
    }
    void *memory = mmap(NULL, total, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    /* MAP_POPULATE is best effort, and may leave the zero page behind: write. */
    memset(memory, 0, total);
    return memory;
}

void prefault_stack(void)
{
    volatile unsigned char pages[PREFAULT_STACK_BYTES];
    for (size_t at = 0; at < sizeof pages; at += 4096) {
        pages[at] = 0;
    }
}

void prefault_free(void *memory, size_t count, size_t bytes)
{
    if (memory != NULL) {
        munmap(memory, count * bytes == 0 ? 1 : count * bytes);
    }
}
