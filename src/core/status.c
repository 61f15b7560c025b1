/* SPDX-License-Identifier: Apache-2.0 */
#include <hearth/status.h>
#include <hearth/version.h>

const char *hearth_status_name(enum hearth_status status)
{
    switch (status) {
#define NAME(name, value, text)                                                                    \
    case HEARTH_##name:                                                                            \
        return #name;
        HEARTH_STATUS_MAP(NAME)
#undef NAME
    }
    return "UNKNOWN";
}

const char *hearth_status_text(enum hearth_status status)
{
    switch (status) {
#define TEXT(name, value, text)                                                                    \
    case HEARTH_##name:                                                                            \
        return text;
        HEARTH_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "a status that this version of the library does not know";
}

int hearth_version(void)
{
    return HEARTH_VERSION_NUMBER;
}

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *hearth_version_string(void)
{
    return VERSION_TEXT(HEARTH_VERSION_MAJOR, HEARTH_VERSION_MINOR, HEARTH_VERSION_PATCH);
}
