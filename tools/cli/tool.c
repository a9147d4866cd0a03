#include "tools/cli/tool.h"

#include "tools/cli/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- Errors -------------------------------------------------------------------------------------

static const char *tool_name = "talc";

void tool_set_name(const char *name)
{
    tool_name = name;
}

static void print_error(const char *format, va_list arguments)
{
    fprintf(stderr, "%s: ", tool_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int tool_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_error(format, arguments);
    va_end(arguments);
    return TOOL_FAILED;
}

void tool_usage(const struct argp_state *state, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_error(format, arguments);
    va_end(arguments);
    argp_state_help(state, stderr, ARGP_HELP_STD_ERR);
    exit(TOOL_USAGE);
}

int tool_fail_talc(void)
{
    return tool_fail("%s", talc_error_message());
}

int tool_usage_talc(void)
{
    (void)tool_fail_talc();
    return TOOL_USAGE;
}

void tool_convert_hint(const char *path, const talc_tensor *array)
{
    const talc_status status = talc_error_status();
    char message[1024];
    if (array == NULL || array->dtype == TALC_F32 || status != TALC_BAD_DTYPE)
        return;
    snprintf(message, sizeof message, "%s", talc_error_message());
    talc_error_clear();
    talc_fail(status,
              "%s; '%s' is %s: np.save('%s', np.load('%s').astype(np.float32)) makes it f32",
              message, TALC_SHOWN(path), talc_dtype_name(array->dtype), TALC_SHOWN(path),
              TALC_SHOWN(path));
}

int tool_finish(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return TOOL_OK;
    return tool_fail("standard output: %s", strerror(errno != 0 ? errno : EIO));
}

// ---- Options ------------------------------------------------------------------------------------

enum { KEY_DEVICE = 'd', KEY_THREADS = 't', KEY_WORKSPACE = 1000, KEY_LOAD, KEY_JSON = 'j' };

static const struct argp_option common[] = {
    { "device", KEY_DEVICE, "NAME", 0,
      "cpu, cuda or cuda:N (default: CUDA if there is a GPU, else the CPU)", 10 },
    { "threads", KEY_THREADS, "N", 0, "CPU threads; results do not depend on it", 10 },
    { "workspace", KEY_WORKSPACE, "SIZE", 0,
      "workspace that an algorithm may use at most: 64MiB, 1GiB, or bytes", 10 },
    { "load", KEY_LOAD, "FILE.so", 0,
      "a network or algorithms of one's own (talc/networks.h); may be given several times", 10 },
    { "json", KEY_JSON, NULL, 0, "print JSON", 10 },
    { 0 },
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    tool_options *self = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        self->workspace = -1;
        return 0;
    case KEY_DEVICE:
        self->device = argument;
        return 0;
    case KEY_THREADS:
        self->threads = tool_count_to(state, "--threads", argument, 1024);
        return 0;
    case KEY_WORKSPACE:
        self->workspace = tool_size(state, "--workspace", argument, 0);
        return 0;
    case KEY_LOAD:
        if (!load_object(argument))
            tool_usage(state, "%s", talc_error_message());
        return 0;
    case KEY_JSON:
        self->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp tool_argp = { .options = common, .parser = parse };

/* The name of a file that is written: `text`, which ends in .npy, since that is what is written. */
static const char *npy_name(struct argp_state *state, const char *option, const char *text)
{
    const size_t length = strlen(text);
    if (length < 4 || strcmp(text + length - 4, ".npy") != 0)
        tool_usage(state, "%s: '%s' does not end in .npy, which is what is written", option,
                   TALC_SHOWN(text));
    return text;
}

enum { MAX_OPTIONS = 16, KEY_WITHOUT_LETTER = 4000 };

/* What a command takes, and its arguments. */
typedef struct parsing {
    const tool_syntax *syntax;
    void *arguments;
} parsing;

static int key_of(const tool_option *options, int index)
{
    return options[index].key != 0 || options[index].name == NULL ? options[index].key
                                                                  : KEY_WITHOUT_LETTER + index;
}

static void keep(const tool_option *option, void *field, char *argument, struct argp_state *state)
{
    char name[64];
    snprintf(name, sizeof name, "--%s", option->name);
    if (option->kind == TOOL_STRING)
        *(const char **)field = argument;
    else if (option->kind == TOOL_NPY)
        *(const char **)field = npy_name(state, name, argument);
    else if (option->kind == TOOL_NUMBER)
        *(int64_t *)field = tool_count(state, name, argument, option->low);
    else
        *(bool *)field = option->kind == TOOL_TRUE;
}

static error_t parse_command(int key, char *argument, struct argp_state *state)
{
    parsing *self = state->input;
    const tool_syntax *syntax = self->syntax;
    const tool_option *options = syntax->options;
    for (int i = 0; options != NULL && options[i].help != NULL; i++)
        if (options[i].kind != TOOL_OWN && key == key_of(options, i)) {
            keep(&options[i], (char *)self->arguments + options[i].offset, argument, state);
            return 0;
        }
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = self->arguments;
    if (key == ARGP_KEY_ARG && state->arg_num < syntax->texts) {
        ((const char **)((char *)self->arguments + syntax->text))[state->arg_num] = argument;
        return 0;
    }
    if (key == ARGP_KEY_ARG && (syntax->parse == NULL || syntax->texts > 0))
        tool_usage(state, "'%s' is one argument too many", TALC_SHOWN(argument));
    if (key == ARGP_KEY_END && state->arg_num < syntax->needed)
        tool_usage(state, "%s", syntax->missing);
    if (syntax->parse == NULL)
        return ARGP_ERR_UNKNOWN;
    state->input = self->arguments;
    const error_t error = syntax->parse(key, argument, state);
    state->input = self;
    return error;
}

void tool_parse(const tool_syntax *syntax, int argc, char **argv, void *arguments)
{
    static const struct argp_child children[] = { { &tool_argp, 0, NULL, 10 }, { 0 } };
    const tool_option *options = syntax->options;
    struct argp_option known[MAX_OPTIONS + 1] = { { 0 } };
    for (int i = 0; options != NULL && i < MAX_OPTIONS && options[i].help != NULL; i++)
        known[i] =
            (struct argp_option){ options[i].name, key_of(options, i), options[i].argument, 0,
                                  options[i].help, options[i].group };
    /* Of a list without options argp's help leaks a byte. A heading has a doc and no name. */
    const struct argp argp = { .options = known[0].doc == NULL ? NULL : known,
                               .parser = parse_command,
                               .args_doc = syntax->args_doc,
                               .doc = syntax->doc,
                               .children = syntax->children != NULL ? syntax->children : children };
    argp_err_exit_status = TOOL_USAGE;
    const error_t error = argp_parse(&argp, argc, argv, syntax->in_order ? ARGP_IN_ORDER : 0, NULL,
                                     &(parsing){ syntax, arguments });
    if (error != 0)
        exit(tool_fail("%s", strerror(error)));
}

talc_device *tool_open(const tool_options *self)
{
    if (self->threads > 0 && !talc_set_threads((int)self->threads))
        return NULL;
    talc_device *device =
        self->device == NULL ? talc_device_default() : talc_device_get(self->device);
    if (device != NULL && self->workspace >= 0 &&
        !talc_workspace_set_limit(device, (size_t)self->workspace))
        return NULL;
    return device;
}

// ---- Numbers in arguments -----------------------------------------------------------------------

int tool_numbers(const char *text, int max, int64_t *numbers)
{
    for (int count = 0; count < max; count++) {
        if (*text < '0' || *text > '9')
            return 0;
        char *end;
        errno = 0;
        numbers[count] = strtoll(text, &end, 10);
        if (errno != 0)
            return 0;
        if (*end == '\0')
            return count + 1;
        if (*end != ',')
            return 0;
        text = end + 1;
    }
    return 0;
}

int64_t tool_count(struct argp_state *state, const char *option, const char *text, int64_t low)
{
    int64_t number = 0;
    if (tool_numbers(text, 1, &number) != 1 || number < low)
        tool_usage(state, "%s: '%s' is not a whole number of at least %lld", option,
                   TALC_SHOWN(text), (long long)low);
    return number;
}

int64_t tool_count_to(struct argp_state *state, const char *option, const char *text, int64_t high)
{
    const int64_t number = tool_count(state, option, text, 1);
    if (number > high)
        tool_usage(state, "%s: %s is more than %lld", option, TALC_SHOWN(text), (long long)high);
    return number;
}

int64_t tool_size(struct argp_state *state, const char *option, const char *text, int64_t low)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = { { "", 0 }, { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 }, { "TiB", 40 } };
    char *end = (char *)text;
    errno = 0;
    const long long number = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    end += strspn(end, " ");
    for (size_t i = 0; number >= 0 && errno == 0 && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].name) == 0 && number <= INT64_MAX >> units[i].shift &&
            number << units[i].shift >= low)
            return number << units[i].shift;
    tool_usage(state, "%s: '%s' is not a size such as 64MiB, 1GiB or 5000, of at least %lld bytes",
               option, TALC_SHOWN(text), (long long)low);
    return low;
}

void tool_pair(struct argp_state *state, const char *option, const char *text, int64_t low,
               int64_t pair[2])
{
    int count = tool_numbers(text, 2, pair);
    if (count == 1)
        pair[1] = pair[0];
    if (count == 0 || pair[0] < low || pair[1] < low)
        tool_usage(state, "%s: '%s' is not a number or a pair such as 2,1, of at least %lld",
                   option, TALC_SHOWN(text), (long long)low);
}

FILE *tool_open_file(const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return NULL;
    /* What a pipe's writer has yet to write is waited for. */
    (void)fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
    FILE *file = fdopen(descriptor, "r");
    if (file == NULL) {
        const int number = errno;
        (void)close(descriptor);
        errno = number;
    }
    return file;
}

// ---- Text ---------------------------------------------------------------------------------------

const char *tool_seconds(double seconds, char text[TOOL_TEXT])
{
    if (seconds >= 1)
        snprintf(text, TOOL_TEXT, "%.2f s", seconds);
    else if (seconds >= 1e-3)
        snprintf(text, TOOL_TEXT, "%.3g ms", seconds * 1e3);
    else
        snprintf(text, TOOL_TEXT, "%.3g us", seconds * 1e6);
    return text;
}

static bool styled(void)
{
    const char *no_color = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && (no_color == NULL || *no_color == '\0');
}

const char *tool_bold(void)
{
    return styled() ? "\033[1m" : "";
}

const char *tool_dim(void)
{
    return styled() ? "\033[2m" : "";
}

const char *tool_plain(void)
{
    return styled() ? "\033[0m" : "";
}

// ---- Clock and memory ---------------------------------------------------------------------------

double tool_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The value of a "Name:   123 kB" line, in bytes; 0 when there is none. */
static size_t kilobytes_line(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[256];
    size_t bytes = 0;
    while (file != NULL && bytes == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            bytes = (size_t)strtoull(line + strlen(name) + 1, NULL, 10) * 1024;
    if (file != NULL)
        fclose(file);
    return bytes;
}

size_t tool_resident_peak(void)
{
    return kilobytes_line("/proc/self/status", "VmHWM");
}

void tool_resident_reset(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file == NULL)
        return;
    fputs("5", file);
    fclose(file);
}

size_t tool_memory_available(void)
{
    return kilobytes_line("/proc/meminfo", "MemAvailable");
}
