/* SPDX-License-Identifier: Apache-2.0 */
/* Service: slabs of plans that nobody uses at present. They age, and are given back, like any other retained storage;
 * the plans stay, and the next run that follows one gets a new slab. */
#include "concurrent/service.h"

/* Take the slab off an idle book and let it wait for its release. */
static size_t give_slab_back(struct hearth_service *service, struct hearth__book *book)
{
    hearth__budget_refund(&service->budget, book->charge);
    book->charge = 0;
    struct hearth_segment slab = hearth__book_take_slab(book);
    if (slab.length != 0 &&
        !hearth__releases_add(&service->releases, service->books_backing, &slab)) {
        (void)hearth__service_run_releases(service, 0);
        (void)hearth__releases_add(&service->releases, service->books_backing, &slab);
    }
    return slab.length;
}

/* Whether the pass is to have the book's slab. One that was used since the last look is not idle. */
static bool is_wanted(struct hearth_service *service, const struct hearth__book *book,
                      uint32_t home, uint64_t now_ms, struct hearth__pass *pass)
{
    struct hearth__books_age *age = &service->books_age[home];
    uint64_t uses = hearth__load_relaxed(&book->uses);
    size_t bytes = hearth__load_relaxed(&book->slab_bytes);
    bool used = age->uses != uses;
    if (used && pass->looks && !pass->looked) {
        age->uses = uses;
        age->since_ms = now_ms;
    }
    if (pass->caps && bytes > hearth__load_relaxed(&service->exec_cap))
        return true;
    if (pass->caps || pass->released >= pass->goal)
        return false;
    if (used && !pass->force) {
        pass->busy++;
        pass->busy_bytes += bytes;
        return false;
    }
    return now_ms - age->since_ms >= pass->age_ms &&
           (pass->most == 0 || pass->released + bytes <= pass->most);
}

void hearth__service_pass_books(struct hearth_service *service, struct hearth__pass *pass,
                                uint64_t now_ms)
{
    /* The lowest homes are used most. */
    for (uint32_t home = hearth__books_homes(&service->books); home-- > 0;) {
        struct hearth__book *book = hearth__books_look(&service->books, home);
        if (book == NULL || hearth__load_relaxed(&book->slab_bytes) == 0)
            continue;
        if (!is_wanted(service, book, home, now_ms, pass))
            continue;
        book = hearth__books_take_at(&service->books, home);
        if (book == NULL)
            continue;
        size_t bytes = give_slab_back(service, book);
        hearth__books_put(&service->books, book);
        pass->released += bytes;
        pass->released_exec += bytes;
    }
}

void hearth__service_plan_books(struct hearth_service *service)
{
    for (uint32_t home = 0; home < hearth__books_homes(&service->books); home++) {
        struct hearth__book *book = hearth__books_look(&service->books, home);
        /* Not one that a run may be about to take. */
        if (book == NULL || hearth__load_relaxed(&book->pending) == 0 ||
            hearth__load_relaxed(&book->uses) != service->books_age[home].plan_uses) {
            if (book != NULL)
                service->books_age[home].plan_uses = hearth__load_relaxed(&book->uses);
            continue;
        }
        book = hearth__books_take_at(&service->books, home);
        if (book == NULL)
            continue;
        (void)hearth__book_work(book);
        hearth__books_put(&service->books, book);
    }
}

void hearth__service_age_books(struct hearth_service *service, uint64_t runs, uint32_t age_runs)
{
    for (uint32_t home = 0; home < hearth__books_homes(&service->books); home++) {
        struct hearth__book *book = hearth__books_look(&service->books, home);
        if (book == NULL || hearth__load_relaxed(&book->slab_bytes) == 0)
            continue;
        struct hearth__books_age *age = &service->books_age[home];
        uint64_t uses = hearth__load_relaxed(&book->uses);
        if (age->run_uses != uses || age->since_run == 0) {
            age->run_uses = uses;
            age->since_run = runs;
        }
        if (runs - age->since_run < age_runs)
            continue;
        book = hearth__books_take_at(&service->books, home);
        if (book == NULL)
            continue;
        (void)give_slab_back(service, book);
        hearth__books_put(&service->books, book);
    }
}

void hearth__service_charge_books(struct hearth_service *service)
{
    struct hearth__budget *budget = &service->budget;
    for (uint32_t home = 0; home < hearth__books_homes(&service->books); home++) {
        struct hearth__book *book = hearth__books_take_at(&service->books, home);
        if (book == NULL)
            continue;
        int64_t need = book->slab.length == 0 || !hearth__budget_bounded(budget)
                           ? 0
                           : (int64_t)hearth__weight_of(1, book->slab.length);
        if (need != 0 && book->charge == 0) {
            book->charge = hearth__budget_charge(budget, need, need);
            if (book->charge == 0)
                (void)give_slab_back(service, book);
        }
        hearth__books_put(&service->books, book);
    }
}

void hearth__service_free_books(struct hearth_service *service)
{
    for (uint32_t home = 0; home < hearth__books_homes(&service->books); home++) {
        struct hearth__book *book = hearth__books_take_at(&service->books, home);
        if (book == NULL)
            continue;
        struct hearth_segment slab = hearth__book_take_slab(book);
        if (slab.length != 0)
            hearth__backing_release(service->books_backing, &slab);
        hearth__book_free(book);
    }
}
