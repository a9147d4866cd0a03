#include "tensor/error.h"

#include "tensor/environment.h"
#include "tensor/within.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local talc_status current_status = TALC_OK;
static _Thread_local char current_message[1024];
static _Thread_local const char *within;
static _Thread_local bool placed; /* the message says where */

bool talc_failed(void)
{
    return current_status != TALC_OK;
}

talc_status talc_error_status(void)
{
    return current_status;
}

const char *talc_error_message(void)
{
    return talc_failed() ? current_message : "";
}

void talc_error_clear(void)
{
    current_status = TALC_OK;
}

const char *talc_status_text(talc_status status)
{
#define TALC_STATUS_TEXT(name, text) text,
    static const char *const texts[] = { TALC_STATUS_TABLE(TALC_STATUS_TEXT) };
#undef TALC_STATUS_TEXT
    return (unsigned)status < TALC_STATUS_COUNT ? texts[status] : "unknown status";
}

const char *talc_within(const char *who)
{
    const char *around = within;
    if (around == NULL || who == NULL)
        within = who;
    return around;
}

/* Begins the message with what the caller asked for, unless that begins it anyway; the bytes. */
static size_t begin_within(const char *message)
{
    const size_t length = within == NULL ? 0 : strlen(within);
    if (length == 0 || (strncmp(message, within, length) == 0 &&
                        (message[length] == ':' || message[length] == ' ')))
        return 0;
    return (size_t)snprintf(current_message, sizeof current_message, "%.64s: ", within);
}

talc_status talc_fail(talc_status status, const char *format, ...)
{
    if (talc_failed())
        return current_status;
    char message[sizeof current_message];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length < 0)
        message[0] = '\0';
    const size_t begin = begin_within(message);
    snprintf(current_message + begin, sizeof current_message - begin, "%s", message);
    /* A caller that raises "success" still failed: it must not pass for a success. */
    current_status = status == TALC_OK ? TALC_BAD_ARGUMENT : status;
    placed = false;
    if ((talc_environment()->verbose & TALC_VERBOSE_ERROR) != 0)
        fprintf(stderr, "talc,error,%s\n", current_message);
    return current_status;
}

void talc_fail_at(const char *where)
{
    if (!talc_failed() || placed || *where == '\0')
        return;
    char message[sizeof current_message];
    memcpy(message, current_message, sizeof message);
    const int begin = snprintf(current_message, sizeof current_message, "%.512s: ", where);
    snprintf(current_message + begin, sizeof current_message - (size_t)begin, "%s", message);
    placed = true;
}
