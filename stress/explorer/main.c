/* SPDX-License-Identifier: Apache-2.0 */
/* explorer: exhaust the models, or find one planted bug. See docs/explorer.md. */
#include "models.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BOUND_DEFAULT 3

static const struct model *const models[] = {
    &model_litmus, &model_stack, &model_lists,  &model_word,  &model_detach,  &model_visit,
    &model_exit,   &model_close, &model_attach, &model_inbox, &model_waiters,
};

#define MODELS (sizeof models / sizeof models[0])

static const char usage_text[] =
    "usage: explorer [--model NAME] [--broken NAME] [--bound N] [--scenario S] [--list]\n"
    "  --model NAME   only this model\n"
    "  --broken NAME  plant this bug; exit 0 if it is found, 1 if not\n"
    "  --bound N      at most N preemptions (default 3)\n"
    "  --scenario S   only this one of the model's scenarios\n"
    "  --list         models and their planted bugs\n"
    "Without --broken: exit 0 if everything was tried and nothing was found, else 1.\n";

static double seconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void list(void)
{
    for (size_t i = 0; i < MODELS; i++) {
        printf("%s: %s\n", models[i]->name, models[i]->what);
        for (const struct variant *variant = models[i]->variants; variant->name != NULL; variant++)
            printf("    %-20s %s\n", variant->name, variant->what);
    }
}

static const struct model *find_model(const char *name)
{
    for (size_t i = 0; i < MODELS; i++)
        if (strcmp(models[i]->name, name) == 0)
            return models[i];
    return NULL;
}

static unsigned find_variant(const struct model *model, const char *name)
{
    for (unsigned i = 0; model->variants[i].name != NULL; i++)
        if (strcmp(model->variants[i].name, name) == 0)
            return i;
    return EXPLORER_CLEAN;
}

struct options {
    const struct model *model;
    const char *scenario;
    const char *broken;
    unsigned bound;
};

/* True if nothing was found. */
static bool run(const struct model *model, unsigned variant, const struct options *options)
{
    bool clean = true;
    for (const struct scenario *scenario = model->scenarios; clean && scenario->name != NULL;
         scenario++) {
        struct exploration exploration = {
            .bound = options->bound,
            .variant = variant,
            .trace = true,
        };
        if (options->scenario != NULL && strcmp(options->scenario, scenario->name) != 0)
            continue;
        double began = seconds();
        clean = explore(model, scenario, &exploration);
        printf("%s %s: %u threads, bound %u: %" PRIu64 " executions, %" PRIu64
               " steps, %.2f s, %s\n",
               model->name, scenario->name, scenario->threads, exploration.bound,
               exploration.executions, exploration.steps, seconds() - began,
               clean ? "exhausted" : "stopped");
    }
    return clean;
}

static int usage(void)
{
    (void)fputs(usage_text, stderr);
    return 2;
}

static int explore_clean(const struct options *options)
{
    bool clean = true;
    for (size_t i = 0; i < MODELS; i++)
        if (options->model == NULL || options->model == models[i])
            clean = run(models[i], EXPLORER_CLEAN, options) && clean;
    return clean ? 0 : 1;
}

static int explore_broken(const struct options *options)
{
    if (options->model == NULL)
        return usage();
    unsigned variant = find_variant(options->model, options->broken);
    if (variant == EXPLORER_CLEAN)
        return usage();
    bool found = !run(options->model, variant, options);
    printf("%s %s: %s\n", options->model->name, options->broken, found ? "found" : "NOT FOUND");
    return found ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"model", required_argument, NULL, 'm'},    {"broken", required_argument, NULL, 'x'},
        {"bound", required_argument, NULL, 'b'},    {"list", no_argument, NULL, 'l'},
        {"scenario", required_argument, NULL, 's'}, {NULL, 0, NULL, 0},
    };
    struct options options = {.bound = BOUND_DEFAULT};
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        switch (option) {
        case 'm':
            options.model = find_model(optarg);
            if (options.model == NULL)
                return usage();
            break;
        case 'x':
            options.broken = optarg;
            break;
        case 'b':
            options.bound = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 's':
            options.scenario = optarg;
            break;
        case 'l':
            list();
            return 0;
        default:
            return usage();
        }
    }
    if (optind != argc)
        return usage();
    return options.broken == NULL ? explore_clean(&options) : explore_broken(&options);
}
