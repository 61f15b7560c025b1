/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a trace file line by line and checks each event against those before it. */
#include "trace_read.h"

#include "trace_ids.h"
#include "trace_line.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 32-bit indexes everywhere; a trace of this size would be a mistake anyway. */
#define EVENTS_MAX (UINT32_C(1) << 28)

struct reader {
    struct trace *trace;
    struct trace_ids ids;
    FILE *file;
    uint32_t line;
    size_t capacity;
    char reason[TRACE_REASON_BYTES];
};

enum line_result { LINE_OK, LINE_END, LINE_BAD };

__attribute__((format(printf, 2, 3))) static bool refuse(struct reader *reader, const char *format,
                                                         ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reader->reason, sizeof reader->reason, format, args);
    va_end(args);
    return false;
}

/* Reads one line into `text`, without its newline. */
static enum line_result read_line(struct reader *reader, char text[TRACE_LINE_BYTES])
{
    size_t length = 0;
    int c = getc(reader->file);
    if (c == EOF && !ferror(reader->file)) {
        return LINE_END;
    }
    reader->line++;
    for (; c != EOF && c != '\n'; c = getc(reader->file)) {
        if (c == '\0') {
            refuse(reader, "NUL byte: this is no text file");
            return LINE_BAD;
        }
        if (length + 1 == TRACE_LINE_BYTES) {
            refuse(reader, "longer than %u characters", TRACE_LINE_BYTES - 1);
            return LINE_BAD;
        }
        text[length++] = (char)c;
    }
    if (c == EOF && ferror(reader->file)) {
        refuse(reader, "cannot read: %s", strerror(errno));
        return LINE_BAD;
    }
    if (length > 0 && text[length - 1] == '\r') {
        length--;
    }
    text[length] = '\0';
    return LINE_OK;
}

static struct trace_event *append(struct reader *reader)
{
    struct trace *trace = reader->trace;
    if (trace->event_count == EVENTS_MAX) {
        refuse(reader, "more than %" PRIu32 " events", EVENTS_MAX);
        return NULL;
    }
    if (trace->event_count == reader->capacity) {
        size_t capacity = reader->capacity == 0 ? 1024 : reader->capacity * 2;
        struct trace_event *events = realloc(trace->events, capacity * sizeof *events);
        if (events == NULL) {
            refuse(reader, "out of memory");
            return NULL;
        }
        trace->events = events;
        reader->capacity = capacity;
    }
    return &trace->events[trace->event_count++];
}

static bool push(struct reader *reader, const struct trace_line *line, uint32_t slot)
{
    struct trace_event *event = append(reader);
    if (event == NULL) {
        return false;
    }
    *event = (struct trace_event){
        .bytes = line->bytes,
        .id = line->id,
        .slot = slot,
        .line = reader->line,
        .run = line->run,
        .thread = line->thread,
        .op = (uint8_t)line->op,
    };
    return true;
}

static bool add_alloc(struct reader *reader, const struct trace_line *line)
{
    struct trace_id *entry = trace_ids_find(&reader->ids, line->id);
    if (entry != NULL && entry->free_line == 0) {
        return refuse(reader, "alloc of id %" PRIu64 ", which is live since line %" PRIu32,
                      line->id, entry->alloc_line);
    }
    if (entry == NULL) {
        entry = trace_ids_add(&reader->ids, line->id);
        if (entry == NULL) {
            return refuse(reader, "out of memory");
        }
    }
    entry->bytes = line->bytes;
    entry->alloc_line = reader->line;
    entry->free_line = 0;
    entry->export_line = 0;
    entry->alloc_event = reader->trace->event_count;
    return push(reader, line, reader->trace->slot_count++);
}

/* The live allocation that a free or an export is about. */
static struct trace_id *live_entry(struct reader *reader, const struct trace_line *line)
{
    const char *op = trace_op_name(line->op);
    struct trace_id *entry = trace_ids_find(&reader->ids, line->id);
    if (entry == NULL) {
        refuse(reader, "%s of unknown id %" PRIu64, op, line->id);
        return NULL;
    }
    if (entry->free_line != 0) {
        refuse(reader, "%s of id %" PRIu64 ", which was freed in line %" PRIu32, op, line->id,
               entry->free_line);
        return NULL;
    }
    if (entry->bytes != line->bytes) {
        refuse(reader,
               "%s of id %" PRIu64 " says %" PRIu64 " bytes, its alloc in line %" PRIu32
               " said %" PRIu64,
               op, line->id, line->bytes, entry->alloc_line, entry->bytes);
        return NULL;
    }
    return entry;
}

static bool add_free(struct reader *reader, const struct trace_line *line)
{
    struct trace_id *entry = live_entry(reader, line);
    if (entry == NULL) {
        return false;
    }
    entry->free_line = reader->line;
    uint32_t slot = reader->trace->events[entry->alloc_event].slot;
    bool exported = entry->export_line != 0;
    if (!push(reader, line, slot)) {
        return false;
    }
    reader->trace->events[reader->trace->event_count - 1].exported = exported;
    return true;
}

/* Nothing happens at an export: the allocation had to be made for it, so its event is marked. */
static bool add_export(struct reader *reader, const struct trace_line *line)
{
    struct trace_id *entry = live_entry(reader, line);
    if (entry == NULL) {
        return false;
    }
    if (entry->export_line != 0) {
        return refuse(reader, "export of id %" PRIu64 ", which was exported in line %" PRIu32,
                      line->id, entry->export_line);
    }
    entry->export_line = reader->line;
    reader->trace->events[entry->alloc_event].exported = true;
    return true;
}

static bool add(struct reader *reader, const char *text)
{
    struct trace *trace = reader->trace;
    struct trace_line line;
    if (!trace_line_parse(text, &line, reader->reason)) {
        return false;
    }
    /* run_count is the last run's number plus one. */
    if (trace->run_count == 0 && line.run != 0) {
        return refuse(reader, "the first run is %" PRIu32 ", expected 0", line.run);
    }
    if (line.run + 1 < trace->run_count || line.run > trace->run_count) {
        return refuse(reader, "run %" PRIu32 " after run %" PRIu32 ": runs must ascend by one",
                      line.run, trace->run_count - 1);
    }
    trace->run_count = line.run + 1;
    if (line.thread >= trace->thread_count) {
        trace->thread_count = line.thread + 1u;
    }
    switch (line.op) {
    case TRACE_ALLOC:
        return add_alloc(reader, &line);
    case TRACE_FREE:
        return add_free(reader, &line);
    default:
        return add_export(reader, &line);
    }
}

static bool read_header(struct reader *reader)
{
    char text[TRACE_LINE_BYTES];
    switch (read_line(reader, text)) {
    case LINE_BAD:
        return false;
    case LINE_END:
        reader->line = 1;
        return refuse(reader, "empty file, expected the header " TRACE_HEADER);
    default:
        break;
    }
    if (strcmp(text, TRACE_HEADER) != 0) {
        return refuse(reader, "missing header: expected " TRACE_HEADER ", found '%.60s'", text);
    }
    return true;
}

static bool read_all(struct reader *reader)
{
    char text[TRACE_LINE_BYTES];
    if (!read_header(reader)) {
        return false;
    }
    for (;;) {
        enum line_result result = read_line(reader, text);
        if (result == LINE_BAD || (result == LINE_OK && !add(reader, text))) {
            return false;
        }
        if (result == LINE_END) {
            break;
        }
    }
    return true;
}

bool trace_read(struct trace *trace, char message[TRACE_MESSAGE_BYTES])
{
    struct reader reader = {.trace = trace};
    reader.file = fopen(trace->path, "re");
    if (reader.file == NULL) {
        snprintf(message, TRACE_MESSAGE_BYTES, "%s: cannot open: %s", trace->path, strerror(errno));
        return false;
    }
    bool ok = read_all(&reader);
    if (!ok) {
        snprintf(message, TRACE_MESSAGE_BYTES, "%s:%" PRIu32 ": %s", trace->path, reader.line,
                 reader.reason);
    }
    fclose(reader.file);
    trace_ids_destroy(&reader.ids);
    return ok;
}
