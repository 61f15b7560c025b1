/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans in forked children.
 * Covered: forks between and within runs; the child's copies of planned buffers keep their content and come home, the
 * next runs are right; slabs that another thread had at the time. */
#include "plan_runs.h"
#include "service_support.h"

#include <sys/wait.h>
#include <unistd.h>

enum { TAKES = 48 };

static struct memory memory;
static struct rig rig;
static struct stage stage, other;
static struct script script;
static struct play play, its;
static size_t stop_at;

static void setup(void)
{
    script_net(&script, TAKES, 6);
    misuse_record();
}

TestSuite(exec_plans_fork, .init = setup, .timeout = 120);

/* Both go on; the child must come to a good end. */
static void in_child(void (*fn)(void))
{
    pid_t child = fork();
    cr_assert_neq(child, -1);
    if (child == 0) {
        fn();
        _exit(42);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 42, "the child ended with %d", status);
}

static void finish(void)
{
    play_end(&play);
    for (unsigned run = 0; run < 4; run++)
        (void)play_run(&stage, &script);
    EXPECT_SIZE(TAKES, play_run(&stage, &script));
}

static void finish_and_close(void)
{
    finish();
    stage_close(&stage);
}

Test(exec_plans_fork, within_a_run)
{
    memory_init(&memory);
    for (stop_at = 0; stop_at < TAKES; stop_at += 7) {
        stage_open(&stage, &memory, 0);
        play_learn(&stage, &script);
        play_begin(&play, &stage, &script);
        play_to(&play, stop_at);
        in_child(finish_and_close);
        finish_and_close();
    }
    memory_fini(&memory);
}

static void runs(void)
{
    play_served(&stage, &script);
    stage_close(&stage);
}

Test(exec_plans_fork, between_runs)
{
    memory_init(&memory);
    stage_open(&stage, &memory, 0);
    play_learn(&stage, &script);
    in_child(runs);
    runs();
    memory_fini(&memory);
}

Test(exec_plans_fork, while_it_learns)
{
    memory_init(&memory);
    for (unsigned before = 0; before < 3; before++) {
        stage_open(&stage, &memory, 0);
        for (unsigned run = 0; run < before; run++)
            (void)play_run(&stage, &script);
        play_begin(&play, &stage, &script);
        play_to(&play, 20);
        in_child(finish_and_close);
        finish_and_close();
    }
    memory_fini(&memory);
}

static void open_service(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.exec_store = HEARTH_EXEC_STORE_PLANS,
                                   .age_ms = HEARTH_AGE_NEVER, .flags = HEARTH_SERVICE_NO_THREAD));
    stage_on(&stage, exec_of(rig.service), NULL);
}

Test(exec_plans_fork, of_a_service_within_a_run)
{
    for (stop_at = 0; stop_at < TAKES; stop_at += 7) {
        open_service();
        play_learn(&stage, &script);
        play_begin(&play, &stage, &script);
        play_to(&play, stop_at);
        in_child(finish);
        finish();
        rig_close(&rig);
    }
}

static void learn_and_stop(void *unused)
{
    (void)unused;
    stage_on(&other, exec_of(rig.service), NULL);
    play_learn(&other, &script);
    play_begin(&its, &other, &script);
    play_to(&its, stop_at);
}

static void go_on(void *unused)
{
    (void)unused;
    play_end(&its);
}

/* The child has no such thread; what it held can be read, and returned. */
static void without_the_thread(void)
{
    other.shared = true;
    for (size_t i = 0; i < TAKES; i++) {
        if (play_live(&its, i)) {
            struct hearth_buf *buf = stage_hand_over(&other, play_keep(&its, i));
            EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(buf), buf));
        }
    }
    for (unsigned run = 0; run < 4; run++)
        (void)play_run(&stage, &script);
    EXPECT_SIZE(TAKES, play_run(&stage, &script));
}

Test(exec_plans_fork, while_another_thread_runs)
{
    struct worker worker;
    for (stop_at = 0; stop_at < TAKES; stop_at += 7) {
        open_service();
        worker_start(&worker);
        worker_run(&worker, learn_and_stop, NULL);
        in_child(without_the_thread);
        worker_run(&worker, go_on, NULL);
        for (unsigned run = 0; run < 4; run++)
            (void)play_run(&stage, &script);
        EXPECT_SIZE(TAKES, play_run(&stage, &script));
        worker_end(&worker);
        rig_close(&rig);
    }
}
