/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Books that wait for a run.
 *
 * Problem. Runs hop from thread to thread, and each should find the plans and the warm slab of the one before, with
 * as many slabs as there are runs at a time, however many threads there are.
 *
 * Picture.
 *
 *     home     0     1     2     3
 *     idle   [ B0 ] [ - ] [ B2 ] [ - ]        B1 and B3 are in use: whoever gives B1 back stores it at 1
 *
 * Taking tries the home that the arena had last, then all from 0 on: so the lowest homes are used most, and what is too
 * many ages at the upper end.
 *
 * No ABA. A place holds its own book or none. Whoever exchanges a book out of it has it alone; nobody else can store
 * there until that one does.
 *
 * A book exists until its service ends, so that the two words that tell of its use may be read at any time.
 *
 * Ordering. Whoever takes a book sees all that was done with it before: books.idle.
 */
#include "concurrent/books.h"

#include "core/perturb.h"

void hearth__books_init(struct hearth__books *books)
{
    for (uint32_t i = 0; i < HEARTH__BOOKS_MOST; i++)
        hearth__store_relaxed(&books->idle[i], NULL);
    hearth__store_relaxed(&books->homes, 0);
    hearth__store_relaxed(&books->in_bytes, 0);
    hearth__store_relaxed(&books->out_bytes, 0);
}

struct hearth__book *hearth__books_take_at(struct hearth__books *books, uint32_t home)
{
    if (home >= HEARTH__BOOKS_MOST || hearth__load_relaxed(&books->idle[home]) == NULL)
        return NULL;
    HEARTH__PERTURB("books.idle");
#ifdef HEARTH_BROKEN_PLAN_BOOK_RELAXED
    struct hearth__book *book = hearth__exchange_relaxed(&books->idle[home], NULL);
#else
    /* EDGE books.idle, observe: all that the run before did with it. */
    struct hearth__book *book = hearth__exchange_acq_rel(&books->idle[home], NULL);
#endif
    if (book != NULL)
        (void)hearth__fetch_add_release(&books->out_bytes, hearth__load_relaxed(&book->slab_bytes));
    return book;
}

struct hearth__book *hearth__books_take(struct hearth__books *books, uint32_t home)
{
    struct hearth__book *book = hearth__books_take_at(books, home);
    uint32_t homes = hearth__books_homes(books);
    for (uint32_t i = 0; i < homes && book == NULL; i++)
        book = hearth__books_take_at(books, i);
    return book;
}

bool hearth__books_settle(struct hearth__books *books, struct hearth__book *book)
{
    uint32_t home = hearth__load_relaxed(&books->homes);
    do {
        if (home == HEARTH__BOOKS_MOST)
            return false;
    } while (!hearth__cas_weak_acq_rel(&books->homes, &home, home + 1));
    book->home = home;
    return true;
}

void hearth__books_put(struct hearth__books *books, struct hearth__book *book)
{

    hearth__store_relaxed(&book->pending, book->recorded || book->planning != NULL);
    (void)hearth__fetch_add_release(&books->in_bytes, hearth__load_relaxed(&book->slab_bytes));
    HEARTH__PERTURB("books.idle");
    /* EDGE books.idle, publish: all that this run did with it. */
    hearth__store_release(&books->idle[book->home], book);
}

struct hearth__book *hearth__books_look(const struct hearth__books *books, uint32_t home)
{
    /* EDGE books.idle, observe: that there is a book. */
    return hearth__load_acquire(&books->idle[home]);
}

void hearth__books_after_fork(struct hearth__books *books)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < hearth__books_homes(books); i++) {
        struct hearth__book *book = hearth__load_relaxed(&books->idle[i]);
        if (book != NULL)
            bytes += hearth__load_relaxed(&book->slab_bytes);
    }
    hearth__store_relaxed(&books->out_bytes, 0);
    hearth__store_relaxed(&books->in_bytes, bytes);
}

size_t hearth__books_idle_bytes(const struct hearth__books *books)
{
    /* Taken before given, as what is taken was given. */
    uint64_t out = hearth__load_acquire(&books->out_bytes);
    uint64_t in = hearth__load_acquire(&books->in_bytes);
    return (size_t)(in - out);
}
