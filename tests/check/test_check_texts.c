/* What talc_check_print_texts says of problem texts, against the tables of keys that read them:
 * each key of a family is named where the family's texts are described, or above for all; each
 * example is a problem; and each word that is explained is a key. */
#include "check/engine/family.h"
#include "tests/support/hooks.h"

#include <ctype.h>
#include <string.h>

enum { MAX_TEXT = 8192, MAX_FAMILIES = 40 };

/* What is said of one family: its examples and the lines below each. */
typedef struct described {
    const check_direction *direction;
    char text[MAX_TEXT];
} described;

static described families[MAX_FAMILIES];
static int family_count;
static char for_all[MAX_TEXT]; /* said of all of them */

static described *family_of(const char *example)
{
    check_problem problem;
    const check_direction *direction = talc_check_parse(example, &problem);
    cr_assert(direction != NULL, "%s: %s", example, talc_error_message());
    for (int i = 0; i < family_count; i++)
        if (families[i].direction->family == direction->family)
            return &families[i];
    cr_assert(family_count < MAX_FAMILIES);
    families[family_count].direction = direction;
    return &families[family_count++];
}

static void append(char text[MAX_TEXT], const char *line)
{
    cr_assert(strlen(text) + strlen(line) + 2 < MAX_TEXT);
    strcat(strcat(text, line), "\n");
}

/* What is said of all texts stands above the first empty line. Behind it examples stand at the
 * margin, what is said of them 4 columns in. */
static void read_page(void)
{
    char line[256];
    described *of = NULL;
    bool for_one = false;
    FILE *file = tmpfile();
    cr_assert(file != NULL);
    talc_check_print_texts(file);
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *said = line + strspn(line, " ");
        cr_assert(strlen(line) <= 100, "%s", line);
        for_one = for_one || *line == '\0';
        if (for_one && said == line && *line != '\0')
            of = family_of(said);
        append(of != NULL ? of->text : for_all, said);
    }
    fclose(file);
    cr_assert(family_count > 10);
}

/* Whether `word` stands in a text by itself, or with a number behind it. */
static bool names(const char *text, const char *word, bool number)
{
    const size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        if ((at == text || !isalpha((unsigned char)at[-1])) &&
            (number ? isdigit((unsigned char)at[length]) : !isalnum((unsigned char)at[length])))
            return true;
    return false;
}

static bool is_word(const check_key *key)
{
    return key->key[0] == '_';
}

Test(check_texts, every_key_is_described)
{
    read_page();
    const check_direction *direction;
    for (int d = 0; (direction = talc_check_direction_at(d)) != NULL; d++) {
        const check_key *keys = direction->family->keys;
        int i = 0;
        while (i < family_count && families[i].direction->family != direction->family)
            i++;
        cr_assert(i < family_count, "%s has no example", direction->ops[0]);
        for (; keys != NULL && keys->key != NULL; keys++) {
            const char *word = keys->key + is_word(keys);
            cr_expect(
                strstr("@,", word) != NULL
                    ? strstr(families[i].text, word) != NULL
                    : names(families[i].text, word, !is_word(keys) || keys->kind == CHECK_COUNT) ||
                          (is_word(keys) && names(for_all, word, false)),
                "%s: --texts does not say what %s is", direction->ops[0], keys->key);
        }
    }
}

static bool has_key(const check_family *family, const char *word)
{
    for (const check_key *key = family->keys; key != NULL && key->key != NULL; key++) {
        const char *known = key->key + is_word(key);
        const size_t length = strlen(known);
        if (length > 0 && strncmp(known, word, length) == 0 &&
            (word[length] == '\0' ||
             (!is_word(key) || key->kind == CHECK_COUNT ? isdigit((unsigned char)word[length])
                                                        : false)))
            return true;
    }
    return false;
}

static bool is_op(const char *word)
{
    const check_direction *direction;
    for (int d = 0; (direction = talc_check_direction_at(d)) != NULL; d++)
        for (int i = 0; direction->ops[i] != NULL; i++)
            if (strcmp(direction->ops[i], word) == 0)
                return true;
    return false;
}

/* How much of "_train_given_dx" the longest of a family's words is that it begins with. */
static size_t first_word(const check_family *family, const char *words)
{
    size_t longest = 0;
    for (const check_key *key = family->keys; key != NULL && key->key != NULL; key++) {
        const size_t length = strlen(key->key);
        if (!is_word(key) || length <= longest || strncmp(key->key, words, length) != 0)
            continue;
        if (key->kind == CHECK_COUNT && words[length] == 'N')
            longest = length + 1;
        else if (!isalpha((unsigned char)words[length]))
            longest = length;
    }
    return longest;
}

/* Of the family, or of any. */
static void assert_words(const check_family *family, const char *words)
{
    for (size_t length = 1; *words == '_' && length > 0; words += length) {
        length = family == NULL ? 0 : first_word(family, words);
        const check_direction *direction;
        for (int d = 0; family == NULL && (direction = talc_check_direction_at(d)) != NULL; d++)
            length = length > 0 ? length : first_word(direction->family, words);
        cr_expect(length > 0, "--texts: there is no word %.20s", words);
    }
}

Test(check_texts, every_word_that_is_described_is_a_key)
{
    char word[64];
    read_page();
    for (int i = 0; i <= family_count; i++) {
        const described *of = i == family_count ? NULL : &families[i];
        const check_family *family = of == NULL ? NULL : of->direction->family;
        const char *text = of == NULL ? for_all : of->text;
        if (of != NULL && family->keys == NULL) /* conv2d's parser */
            continue;
        for (const char *at = text; *at != '\0'; at++) {
            const bool begins = at == text || isspace((unsigned char)at[-1]);
            const size_t length = strcspn(at, " \n:");
            if (begins && *at == '_')
                assert_words(family, at);
            if (!begins || of == NULL || at[length] != ':' || strcspn(at, ",;@(") < length)
                continue;
            snprintf(word, sizeof word, "%.*s", (int)length, at);
            cr_expect(word[0] == '_' || has_key(family, word) || is_op(word),
                      "--texts: %s has no key %s", of->direction->ops[0], word);
        }
    }
}
