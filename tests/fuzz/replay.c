/* SPDX-License-Identifier: Apache-2.0 */
/* A main() for fuzz targets where there is no libFuzzer: replays files, runs random inputs, or writes a
 * few as a first corpus. A failing random input is named by its seed. */
#include "fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CORPUS = 64 };

static uint8_t input[FUZZ_INPUT_MOST];

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int usage(const char *program)
{
    fprintf(stderr,
            "%s FILE...                                    replay inputs\n"
            "%s --random N [--seconds S] [--seed SEED]     run random inputs\n"
            "%s --corpus DIR [--seed SEED]                 write inputs into a folder\n",
            program, program, program);
    return 2;
}

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 2;
    }
    size_t size = fread(input, 1, sizeof input, file);
    fclose(file);
    (void)LLVMFuzzerTestOneInput(input, size);
    return 0;
}

static int write_corpus(const char *folder, uint64_t seed)
{
    char path[4096];
    for (uint64_t i = 0; i < CORPUS; i++) {
        size_t size = fuzz_target.input_of(seed + i, input);
        snprintf(path, sizeof path, "%s/%s-%016" PRIx64, folder, fuzz_target.name, seed + i);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(input, 1, size, file) != size || fclose(file)) {
            perror(path);
            return 2;
        }
    }
    printf("%d inputs in %s\n", (int)CORPUS, folder);
    return 0;
}

static int run_random(uint64_t count, double seconds, uint64_t seed)
{
    double end = seconds_now() + seconds;
    uint64_t done = 0;
    size_t bytes = 0;
    printf("seed %" PRIu64 "\n", seed);
    fflush(stdout);
    for (; done < count && (seconds <= 0 || seconds_now() < end); done++) {
        char message[512];
        size_t size = fuzz_target.input_of(seed + done, input);
        bytes += size;
        if (!fuzz_target.run(input, size, message, sizeof message)) {
            printf("FAILED: %s\nreproduce with --random 1 --seed %" PRIu64 "\n", message,
                   seed + done);
            return 1;
        }
    }
    printf("%" PRIu64 " inputs, %zu bytes: no disagreement\n", done, bytes);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t count = 0, seed = 1;
    double seconds = 0;
    const char *folder = NULL;
    int i = 1;
    for (; i < argc && !strncmp(argv[i], "--", 2); i += 2) {
        if (i + 1 == argc)
            return usage(argv[0]);
        if (!strcmp(argv[i], "--random"))
            count = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--seconds"))
            seconds = strtod(argv[i + 1], NULL);
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--corpus"))
            folder = argv[i + 1];
        else
            return usage(argv[0]);
    }
    if (folder)
        return write_corpus(folder, seed);
    if (count)
        return run_random(count, seconds, seed);
    if (i == argc)
        return usage(argv[0]);
    for (; i < argc; i++) {
        int status = replay(argv[i]);
        if (status)
            return status;
    }
    printf("no input failed\n");
    return 0;
}
