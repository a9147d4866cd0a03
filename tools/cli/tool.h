/// What the subcommands of the talc command share: exit codes, errors, options, devices, clock and
/// JSON.
///
/// Each subcommand is one file, talc_NAME.c, whose function gets argv[0] = "talc NAME" and returns
/// an exit code. The command uses the public interface of talc alone.
#ifndef TALC_TOOLS_CLI_TOOL_H
#define TALC_TOOLS_CLI_TOOL_H

#include <talc/talc.h>

#include <argp.h>
#include <jansson.h>
#include <stddef.h>

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

typedef struct command {
    const char *name;
    const char *summary; ///< one line of `talc --help`
    int (*run)(int argc, char **argv);
} command;

int command_bench(int argc, char **argv);
int command_bench_growth(int argc, char **argv); ///< talc bench growth
int command_bench_model(int argc, char **argv);  ///< talc bench NETWORK
int command_check(int argc, char **argv);
int command_check_grad(int argc, char **argv);  ///< talc check grad
int command_check_model(int argc, char **argv); ///< talc check model
int command_conv2d(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_info(int argc, char **argv);
int command_launch(int argc, char **argv);
int command_ops(int argc, char **argv);
int command_run(int argc, char **argv);
int command_run_model(int argc, char **argv); ///< talc run NETWORK
int command_show(int argc, char **argv);
int command_export(int argc, char **argv);
int command_summary(int argc, char **argv);
int command_trace(int argc, char **argv);

// ---- Errors -------------------------------------------------------------------------------------

/// What errors begin with: "talc conv2d".
void tool_set_name(const char *name);

/// Prints "talc NAME: message" on stderr. Returns TOOL_FAILED.
int tool_fail(const char *format, ...) TALC_PRINTF(1, 2);

/// The same for wrong arguments, with a word of where help is; ends the program with TOOL_USAGE, so
/// that what was allocated is freed before. argp_error prints "(null)" without memory.
_Noreturn void tool_usage(const struct argp_state *state, const char *format, ...)
    TALC_PRINTF(2, 3);

/// tool_fail with the failure that stands in the library.
int tool_fail_talc(void);

/// The same for a failure that an argument caused: returns TOOL_USAGE.
int tool_usage_talc(void);

/// Adds to a failure that stands how an array of f64 or of integers, which came from `path`,
/// becomes f32. NULL passes, and so does one that is f32.
void tool_convert_hint(const char *path, const talc_tensor *array);

/// Ends a subcommand that printed on stdout: TOOL_OK, or TOOL_FAILED when stdout could not be
/// written.
int tool_finish(void);

// ---- Options that most subcommands have ---------------------------------------------------------

/// Zeroed: the default device, the default threads and workspace, plain text.
typedef struct tool_options {
    const char *device;
    int64_t threads;
    int64_t workspace; ///< bytes; -1 when not given
    bool json;
} tool_options;

/// argp child for --device, --threads, --workspace and --json; its input is a tool_options.
extern const struct argp tool_argp;

/// How an option's argument is kept in a command's arguments.
typedef enum tool_kind {
    TOOL_OWN, ///< the command's parser sees to it
    TOOL_STRING,
    TOOL_TRUE,
    TOOL_FALSE,
    TOOL_NUMBER, ///< int64_t
    TOOL_NPY     ///< the name of an .npy file to be written
} tool_kind;

/// An option of a command. `key` is its letter; 0 for none, of one that the parser does not see.
typedef struct tool_option {
    const char *name;
    int key;
    const char *argument, *help;
    int group;
    tool_kind kind;
    size_t offset; ///< of the field that keeps it
    int64_t low;   ///< the least number
} tool_option;

/// Where an option is kept: the end of its row.
#define TOOL_STRING_AT(type, field)      TOOL_STRING, offsetof(type, field), 0
#define TOOL_TRUE_AT(type, field)        TOOL_TRUE, offsetof(type, field), 0
#define TOOL_FALSE_AT(type, field)       TOOL_FALSE, offsetof(type, field), 0
#define TOOL_NUMBER_AT(type, field, low) TOOL_NUMBER, offsetof(type, field), low
#define TOOL_NPY_AT(type, field)         TOOL_NPY, offsetof(type, field), 0

/// What a command takes. Its arguments begin with a tool_options.
typedef struct tool_syntax {
    const tool_option *options; ///< ended by one without a name and help; NULL: none
    /// Arguments without an option: where the first is kept, of `texts` const char * one after the
    /// other, and what is said where the `needed` first ones are not there.
    size_t text;
    unsigned texts, needed;
    const char *missing;
    argp_parser_t parse;               ///< of TOOL_OWN options and other arguments; NULL: of none
    const char *args_doc, *doc;        ///< as argp has them
    const struct argp_child *children; ///< the first tool_argp; NULL: it alone
    bool in_order; ///< options behind an argument are for `parse` to see, as arguments
} tool_syntax;

/// Parses one of the whole command's arguments; ends the program with TOOL_USAGE when they are
/// wrong.
void tool_parse(const tool_syntax *syntax, int argc, char **argv, void *arguments);

/// The device that the options ask for, with threads and workspace limit set; NULL with a talc
/// failure.
talc_device *tool_open(const tool_options *options);

/// A whole number, low .. INT64_MAX; a usage error that names `option` otherwise.
int64_t tool_count(struct argp_state *state, const char *option, const char *text, int64_t low);

/// The same of 1 .. high.
int64_t tool_count_to(struct argp_state *state, const char *option, const char *text, int64_t high);

/// "64MiB", "1GiB", "2KiB" or "5000" as bytes, low .. INT64_MAX; a usage error that names `option`
/// otherwise.
int64_t tool_size(struct argp_state *state, const char *option, const char *text, int64_t low);

/// "2" or "2,1" as a pair, each at least `low`; a usage error otherwise.
void tool_pair(struct argp_state *state, const char *option, const char *text, int64_t low,
               int64_t pair[2]);

/// Numbers with commas between, "8,3,32,32": how many, at most `max`; 0 when the text is something
/// else.
int tool_numbers(const char *text, int max, int64_t *numbers);

/// A file open for reading; NULL with errno set. It does not wait until a program writes to a pipe.
FILE *tool_open_file(const char *path);

// ---- Text ---------------------------------------------------------------------------------------

#define TOOL_TEXT 32

/// Seconds as "3.21 s", "12.3 ms" or "45.6 us".
const char *tool_seconds(double seconds, char text[TOOL_TEXT]);

/// ", forced by OPENBLAS_CORETYPE" where the environment says which kernels OpenBLAS runs; "".
const char *tool_blas_forced(void);

/// Terminal codes, empty when stdout is not a terminal or NO_COLOR is set.
const char *tool_bold(void);
const char *tool_dim(void);
const char *tool_plain(void);

// ---- Clock and memory ---------------------------------------------------------------------------

/// Seconds on a clock that never goes back.
double tool_clock(void);

/// The maximum of memory that the process held at once (VmHWM), in bytes; 0 when unknown.
size_t tool_resident_peak(void);

/// Starts that count anew, where the system allows it.
void tool_resident_reset(void);

/// What the system can still give (MemAvailable), in bytes; 0 when unknown.
size_t tool_memory_available(void);

// ---- JSON ---------------------------------------------------------------------------------------

/// Has jansson's allocations of this process watched: it leaves some out of a value without a word,
/// so that JSON after one that failed is not printed.
void tool_json_watch(void);

/// A number, null when it is not finite.
json_t *tool_real(double value);

/// A text, null for NULL. What is no UTF-8, as a path may be, is written as messages show it.
json_t *tool_json_text(const char *text);

/// A shape as an array.
json_t *tool_json_dims(talc_dims dims);

/// All fields of a problem, and its text.
json_t *tool_json_problem(const talc_conv2d_problem *problem);

/// Op, device, the problem, which it takes over, workspace limit, candidates with their reasons,
/// and the chosen one's name or null.
json_t *tool_json_explanation(const talc_explanation *explanation, json_t *problem);

/// The JSON, which it releases, as text in ASCII, with flags of jansson's; NULL when memory ran
/// out. The text goes to tool_json_free.
char *tool_json_dump(json_t *json, size_t flags);
void tool_json_free(char *text);

/// Prints on stdout, in ASCII, and releases `json`. Returns the exit code.
int tool_json_print(json_t *json);

#endif
