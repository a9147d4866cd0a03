#include "tensor/error.h"

#include "tensor/environment.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local talc_status current_status = TALC_OK;
static _Thread_local char current_message[1024];

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

talc_status talc_fail(talc_status status, const char *format, ...)
{
    if (talc_failed())
        return current_status;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(current_message, sizeof current_message, format, arguments);
    va_end(arguments);
    if (length < 0)
        current_message[0] = '\0';
    /* A caller that raises "success" still failed: it must not pass for a success. */
    current_status = status == TALC_OK ? TALC_BAD_ARGUMENT : status;
    if ((talc_environment()->verbose & TALC_VERBOSE_ERROR) != 0)
        fprintf(stderr, "talc,error,%s\n", current_message);
    return current_status;
}
