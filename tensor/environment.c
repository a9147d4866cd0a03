#include "tensor/environment.h"

#include "tensor/precision.h"
#include "tensor/shown.h"
#include "tensor/table.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct word_flag {
    const char *word;
    unsigned flag;
} word_flag;

static const word_flag verbose_words[] = { { "error", TALC_VERBOSE_ERROR },
                                           { "dispatch", TALC_VERBOSE_DISPATCH },
                                           { "exec", TALC_VERBOSE_EXEC },
                                           { 0 } };

static const word_flag precision_words[] = {
    { "strict", TALC_STRICT }, { "normwise", TALC_NORMWISE }, { "tf32", TALC_TF32 }, { 0 }
};

static const word_flag switch_words[] = { { "0", 0 }, { "1", 1 }, { 0 } };

static const word_flag cpu_words[] = { { "portable", TALC_VECTORS_PORTABLE },
                                       { "avx2", TALC_VECTORS_AVX2 },
                                       { "avx512", TALC_VECTORS_AVX512 },
                                       { 0 } };

static talc_environment_values values;
static pthread_once_t values_read = PTHREAD_ONCE_INIT;

void talc_warn(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "talc: %s\n", text);
}

void talc_environment_warn(const char *name, const char *value, const char *wanted)
{
    talc_warn("%s=%s is ignored: %s", name, TALC_SHOWN(value), wanted);
}

/* Words joined by `separator`, "" for just one, as flags; `fallback` when unset or when a word is
 * unknown. */
static unsigned read_words(const char *name, const word_flag *words, const char *separator,
                           unsigned fallback)
{
    const char *text = getenv(name);
    if (text == NULL || *text == '\0')
        return fallback;
    unsigned flags = 0;
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, separator);
        const word_flag *word = words;
        while (word->word != NULL &&
               (strlen(word->word) != length || strncmp(word->word, at, length) != 0))
            word++;
        if (word->word == NULL) {
            char wanted[128] = "";
            for (const word_flag *w = words; w->word != NULL; w++)
                snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s%s",
                         w == words ? "it takes " : ", ", w->word);
            talc_environment_warn(name, text, wanted);
            return fallback;
        }
        flags |= word->flag;
        at += length + (at[length] != '\0');
    }
    return flags;
}

static long read_number(const char *name, long low, long high)
{
    const char *text = getenv(name);
    if (text == NULL || *text == '\0')
        return 0;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (*end == '\0' && errno == 0 && number >= low && number <= high)
        return number;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "it takes a number from %ld to %ld", low, high);
    talc_environment_warn(name, text, wanted);
    return 0;
}

/* Set by launchers, so that a value that is no number is unset without a word. */
static void read_local_rank(void)
{
    static const char *const names[] = { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "SLURM_LOCALID" };
    values.local_rank = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names && values.local_rank < 0; i++) {
        const char *text = getenv(names[i]);
        char *end;
        const long rank = text == NULL ? -1 : strtol(text, &end, 10);
        if (rank < 0 || rank > INT16_MAX || *end != '\0')
            continue;
        values.local_rank = (int)rank;
        values.local_rank_of = names[i];
    }
}

static void read_values(void)
{
    read_local_rank();
    values.verbose = read_words("TALC_VERBOSE", verbose_words, ",", 0);
    values.sync = read_words("TALC_SYNC", switch_words, "", 0) != 0;
    values.fuse = read_words("TALC_FUSE", switch_words, "", 1) != 0;
    values.affinity = read_words("TALC_AFFINITY", switch_words, "", 0) != 0;
    values.precision = read_words("TALC_PRECISION", precision_words, ",", TALC_STRICT);
    values.cpu = (talc_vector_units)read_words("TALC_CPU", cpu_words, "", TALC_VECTORS_BEST);
    values.threads = (int)read_number("TALC_THREADS", 1, 1024);
    values.workspace_megabytes = (size_t)read_number("TALC_WORKSPACE_MB", 1, 1048576);
    values.openblas_core = getenv("OPENBLAS_CORETYPE") != NULL;
    const char *columns = getenv("COLUMNS");
    const long asked = columns == NULL ? 0 : strtol(columns, NULL, 10);
    values.columns = asked >= TALC_MIN_COLUMNS && asked <= INT16_MAX ? (int)asked : 0;
    const char *device = getenv("TALC_DEVICE");
    if (device != NULL && strlen(device) < sizeof values.device)
        memcpy(values.device, device, strlen(device) + 1);
    else if (device != NULL)
        talc_environment_warn("TALC_DEVICE", device, "longer than any device name");
}

const talc_environment_values *talc_environment(void)
{
    pthread_once(&values_read, read_values);
    return &values;
}
