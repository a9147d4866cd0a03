#include "tests/support/hooks.h"

#include "tensor/within.h"

#include <string.h>

Test(error, the_first_failure_is_kept)
{
    cr_assert(!talc_failed());
    cr_assert(strcmp(talc_error_message(), "") == 0);
    talc_fail(TALC_BAD_SHAPE, "first %d", 1);
    talc_fail(TALC_NO_MEMORY, "second");
    assert_failure(TALC_BAD_SHAPE, "first 1");
    cr_assert(talc_error_status() == TALC_OK);
}

Test(error, every_status_has_a_text)
{
    for (int i = 0; i < TALC_STATUS_COUNT; i++)
        cr_assert(strlen(talc_status_text((talc_status)i)) > 0);
    cr_assert(strcmp(talc_status_text((talc_status)999), "unknown status") == 0);
}

/* What is dangerous on a terminal is spelled out, what is too long loses its middle, and no
 * character is cut. */
Test(error, foreign_text_is_shown_harmless)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        { "conv1.weight", "conv1.weight" },
        { "", "" },
        { NULL, "(null)" },
        { "a\x1b[31m\n\t\x7f'", "a\\x1b[31m\\x0a\\x09\\x7f'" },
        { "c:\\x", "c:\\\\x" },
        { "\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80", "\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80" },
        { "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\\u{80}\\u{9b}\\u{9f}\xc2\xa0" },
        { "\xd8\x9c\xe2\x80\x8b\xe2\x80\x8e\xe2\x80\x8f", "\\u{61c}\\u{200b}\\u{200e}\\u{200f}" },
        { "\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae",
          "\\u{2028}\\u{2029}\\u{202a}\\u{202e}" },
        { "\xe2\x81\xa6\xe2\x81\xa9\xef\xbb\xbf\xf3\xa0\x81\x81",
          "\\u{2066}\\u{2069}\\u{feff}\\u{e0041}" },
        /* No UTF-8: a byte alone, overlong, a surrogate, past the last character, cut short. */
        { "\xff\x9b\xc3", "\\xff\\x9b\\xc3" },
        { "\xc0\x9b\xe0\x80\x9b", "\\xc0\\x9b\\xe0\\x80\\x9b" },
        { "\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80" },
        { "\xf0\x9f\x98", "\\xf0\\x9f\\x98" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert(strcmp(TALC_SHOWN(cases[i].text), cases[i].expected) == 0, "case %zu: %s", i,
                  TALC_SHOWN(cases[i].text));
    cr_assert(strcmp(TALC_SHOWN_PART("abc,def", 3), "abc") == 0);
    cr_assert(strcmp(TALC_SHOWN_PART("\xc3\xa9", 1), "\\xc3") == 0);
    /* Every length around the room, of characters of one, two and more bytes, whose ends must
     * stand. */
    static const char *const of[] = { "x", "\xc3\xa9", "\xf0\x9f\x98\x80", "\x1b" };
    char shown[40], text[256];
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        for (size_t count = 0; count < 60; count++) {
            strcpy(text, "<");
            for (size_t i = 0; i < count; i++)
                strcat(text, of[k]);
            strcat(text, ">");
            const char *got = talc_shown(text, SIZE_MAX, shown, sizeof shown);
            cr_assert(got == shown && strlen(got) < sizeof shown && got[0] == '<' &&
                          got[strlen(got) - 1] == '>',
                      "%s", got);
            const size_t unit = *of[k] == '\x1b' ? 4 : strlen(of[k]);
            const bool fits = 2 + count * unit < sizeof shown;
            const char *gap = strstr(got, "...");
            cr_assert(fits == (gap == NULL), "%s", got);
            cr_assert(fits ? strlen(got) == 2 + count * unit
                           : (size_t)(gap - got - 1) % unit == 0 && strlen(gap + 4) % unit == 0 &&
                                 strlen(got) + 2 * unit > 36,
                      "%s", got);
        }
    talc_safetensors *none = talc_safetensors_open("no/\x1b]0;\xc2\x9b\n");
    cr_assert_null(none);
    assert_failure(TALC_IO_ERROR, "safetensors_open: cannot open 'no/\\x1b]0;\\u{9b}\\x0a': "
                                  "No such file or directory");
}

Test(error, failures_name_what_was_called_and_the_op_inside_it)
{
    const char *around = talc_within("outer");
    cr_assert_null(around);
    const char *inside = talc_within("inner");
    cr_assert_str_eq(inside, "outer");
    talc_fail(TALC_NO_MEMORY, "step: out of memory");
    assert_failure(TALC_NO_MEMORY, "outer: step: out of memory");
    talc_within(inside);
    talc_fail(TALC_NO_MEMORY, "outer: out of memory");
    assert_failure(TALC_NO_MEMORY, "outer: out of memory");
    talc_fail(TALC_NOT_FOUND, "outer on cpu: nothing");
    assert_failure(TALC_NOT_FOUND, "outer on cpu: nothing");
    talc_fail(TALC_NO_MEMORY, "outermost: out of memory");
    assert_failure(TALC_NO_MEMORY, "outer: outermost: out of memory");
    talc_within(around);
    talc_fail(TALC_NO_MEMORY, "step: out of memory");
    assert_failure(TALC_NO_MEMORY, "step: out of memory");
}
