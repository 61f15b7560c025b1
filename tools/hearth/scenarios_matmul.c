/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products through BLAS where one was found at build time. Which library serves a name is decided
 * when the program starts (Debian's alternatives), so it is asked for.
 */
#include "scenarios_matmul.h"

#include "scenarios_kernels.h"

#include <stdio.h>

#ifdef HEARTH_TOOL_CBLAS

#include <cblas.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void scenario_matmul(const float *a, const float *b, float *out, uint32_t rows, uint32_t columns,
                     uint32_t inner, bool transposed, float scale)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, (int)rows,
                (int)columns, (int)inner, scale, a, (int)inner, b,
                (int)(transposed ? inner : columns), 0.0F, out, (int)columns);
}

void scenario_blas_init(void)
{
    void (*set_threads)(int);
    void *symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
    if (symbol != NULL) {
        /* ISO C has no cast from object to function pointers. */
        memcpy(&set_threads, &symbol, sizeof set_threads);
        set_threads(1);
    }
}

void scenario_blas_name(char *name, size_t bytes)
{
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "cblas_sgemm");
    char *path =
        symbol != NULL && dladdr(symbol, &info) != 0 ? realpath(info.dli_fname, NULL) : NULL;
    const char *shown = path != NULL ? path : "unknown";
    unsigned slashes = 0;
    for (size_t i = strlen(shown); i > 0 && slashes < 2; i--) {
        if (shown[i - 1] == '/' && ++slashes == 2) {
            shown += i;
        }
    }
    snprintf(name, bytes, "%s", shown);
    free(path);
}

#else

void scenario_matmul(const float *a, const float *b, float *out, uint32_t rows, uint32_t columns,
                     uint32_t inner, bool transposed, float scale)
{
    size_t row_step = transposed ? 1 : columns;
    size_t column_step = transposed ? inner : 1;
    for (size_t i = 0; i < rows; i++) {
        float *to = out + i * columns;
        for (size_t j = 0; j < columns; j++) {
            to[j] = 0.0F;
        }
        for (size_t k = 0; k < inner; k++) {
            float factor = scale * a[i * inner + k];
            for (size_t j = 0; j < columns; j++) {
                to[j] += factor * b[k * row_step + j * column_step];
            }
        }
    }
}

void scenario_blas_init(void)
{
}

void scenario_blas_name(char *name, size_t bytes)
{
    snprintf(name, bytes, "none (plain C loop)");
}

#endif
