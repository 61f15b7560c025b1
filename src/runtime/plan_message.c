/* SPDX-License-Identifier: Apache-2.0 */
/* What a builder says when it refuses: one line, whatever the names contain. */
#include "runtime/plan_builder.h"

#include <stdio.h>

/* The length of the UTF-8 sequence that a byte leads; 1 for what leads none. */
static size_t sequence_length(unsigned char lead)
{
    if (lead < 0xC0)
        return 1;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* A character that the buffer's end has cut in two is left out. */
static void cut(struct hearth__message *message)
{
    size_t at = message->used;
    for (size_t back = 1; back <= 3 && back <= message->used; back++) {
        unsigned char byte = (unsigned char)message->text[message->used - back];
        if ((byte & 0xC0) == 0x80)
            continue;
        if (sequence_length(byte) > back)
            at = message->used - back;
        break;
    }
    message->text[at] = '\0';
}

void hearth__message_add(struct hearth__message *message, const char *text)
{
    if (message->bytes == 0)
        return;
    for (; *text != '\0'; text++) {
        if (message->used + 1 >= message->bytes) {
            cut(message);
            message->bytes = 0; /* nothing comes after what was cut */
            return;
        }
        unsigned char byte = (unsigned char)*text;
        bool control = byte < ' ' || byte == 0x7F;
        message->text[message->used++] = *(control ? "?" : text);
    }
    message->text[message->used] = '\0';
}

void hearth__message_value(struct hearth__message *message, const char *value)
{
    hearth__message_add(message, "value \"");
    hearth__message_add(message, value);
    hearth__message_add(message, "\"");
}

void hearth__message_node(struct hearth__message *message,
                          const struct hearth_plan_builder *builder, size_t node)
{
    const char *name = builder->records[node]->node.name;
    if (name[0] == '\0') {
        char number[32];
        (void)snprintf(number, sizeof number, "node %zu", node);
        hearth__message_add(message, number);
        return;
    }
    hearth__message_add(message, "node \"");
    hearth__message_add(message, name);
    hearth__message_add(message, "\"");
}
