/* SPDX-License-Identifier: Apache-2.0 */
/* Flat JSON objects of numbers. Nothing here needs quoting: keys are identifiers, values are integers. */
#include <hearth/stats.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct writer {
    char *text;
    size_t bytes;
    size_t length; /* of the whole text, whether it fits or not */
};

static void put(struct writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct writer *writer, const char *format, ...)
{
    size_t room = writer->length < writer->bytes ? writer->bytes - writer->length : 0;
    va_list arguments;
    va_start(arguments, format);
    int written =
        vsnprintf(room == 0 ? NULL : writer->text + writer->length, room, format, arguments);
    va_end(arguments);
    writer->length += written < 0 ? 0 : (size_t)written;
}

static void put_number(struct writer *writer, const char *name, uint64_t value)
{
    put(writer, "%s\"%s\":%" PRIu64, writer->length == 1 ? "" : ",", name, value);
}

static enum hearth_status finish(struct writer *writer, size_t *needed)
{
    put(writer, "}");
    if (needed != NULL)
        *needed = writer->length;
    return writer->length < writer->bytes ? HEARTH_OK : HEARTH_OVERFLOW;
}

enum hearth_status hearth_exec_stats_json(const struct hearth_exec_stats *stats, char *text,
                                          size_t bytes, size_t *needed)
{
    if (stats == NULL || stats->size != sizeof *stats || (text == NULL && bytes != 0))
        return HEARTH_INVALID;
    struct writer writer = {text, bytes, 0};
    put(&writer, "{");
#define PUT(name, unit, comment) put_number(&writer, #name, stats->name);
    HEARTH_EXEC_STATS_MAP(PUT)
#undef PUT
    put(&writer, ",\"consistent\":%s", stats->consistent ? "true" : "false");
    return finish(&writer, needed);
}

enum hearth_status hearth_io_stats_json(const struct hearth_io_stats *stats, char *text,
                                        size_t bytes, size_t *needed)
{
    if (stats == NULL || stats->size != sizeof *stats || (text == NULL && bytes != 0))
        return HEARTH_INVALID;
    struct writer writer = {text, bytes, 0};
    put(&writer, "{");
#define PUT(name, unit, comment) put_number(&writer, #name, stats->name);
    HEARTH_IO_STATS_MAP(PUT)
#undef PUT
    put(&writer, ",\"consistent\":%s", stats->consistent ? "true" : "false");
    return finish(&writer, needed);
}

enum hearth_status hearth_backing_stats_json(const struct hearth_backing_stats *stats, char *text,
                                             size_t bytes, size_t *needed)
{
    if (stats == NULL || stats->size != sizeof *stats || (text == NULL && bytes != 0))
        return HEARTH_INVALID;
    struct writer writer = {text, bytes, 0};
    put(&writer, "{");
    put_number(&writer, "acquire_calls", stats->acquire_calls);
    put_number(&writer, "acquire_failures", stats->acquire_failures);
    put_number(&writer, "release_calls", stats->release_calls);
    put_number(&writer, "purge_calls", stats->purge_calls);
    put_number(&writer, "acquired_bytes", stats->acquired_bytes);
    put_number(&writer, "released_bytes", stats->released_bytes);
    put_number(&writer, "page_events", stats->page_events);
    put_number(&writer, "mapped_bytes", stats->mapped_bytes);
    put_number(&writer, "unmapped_bytes", stats->unmapped_bytes);
    put_number(&writer, "purged_bytes", stats->purged_bytes);
    return finish(&writer, needed);
}
