/// The talc command: finds the subcommand and hands its arguments on.
#include "tools/cli/load.h"
#include "tools/cli/tool.h"

#include <signal.h>
#include <string.h>

static const command commands[] = {
    { "info", "devices, memory, build and algorithms", command_info },
    { "conv2d", "a convolution of .npy files", command_conv2d },
    { "explain", "which algorithm a convolution would use, and why", command_explain },
    { "bench", "verifies, then times every algorithm beside its peers", command_bench },
    { "check", "checks every algorithm of every op against an oracle", command_check },
    { "export", "writes a network as an ONNX file", command_export },
    { "launch", "starts a program several times, as a group that trains together", command_launch },
    { "run", "runs a network on an image, or model-new", command_run },
    { "show", "a page for a browser that shows one convolution", command_show },
    { "ops", "the ops, and in JSON the whole interface of the library", command_ops },
    { "summary", "the layers of a network, its parameters and memory", command_summary },
    { "trace", "an output of a convolution term by term, and who computes it", command_trace },
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *file)
{
    fprintf(file,
            "Usage: talc COMMAND [ARGUMENT...]\n"
            "talc (Tensors And Layers in C) is a C library of tensors, convolution, layers\n"
            "and training, on the CPU and on GPUs. This command says which algorithm a\n"
            "convolution takes and why, checks and times all of them, and runs networks.\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(file, "\n  --help     this text; talc COMMAND --help tells more\n"
                  "  --version  the version\n\n"
                  "Exit codes: 0 success, 1 failure, 2 wrong usage.\n");
}

int main(int argc, char **argv)
{
    /* A file over the size limit is then a failed write like any other. */
    (void)signal(SIGXFSZ, SIG_IGN);
    tool_json_watch();
    talc_no_grad_enter(); /* subcommands that want gradients leave it */
    const char *name = argc < 2 ? NULL : argv[1];
    if (name == NULL) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-?") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return tool_finish();
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("talc %s\n", talc_build_info().version);
        return tool_finish();
    }
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) {
            char full[TOOL_TEXT];
            snprintf(full, sizeof full, "talc %s", name);
            tool_set_name(full);
            argv[1] = full;
            /* What it launches loads its own. */
            if (commands[i].run != command_launch && !load_objects(argc - 1, argv + 1))
                return tool_usage_talc();
            return commands[i].run(argc - 1, argv + 1);
        }
    tool_fail("there is no command '%s'; talc --help lists them", TALC_SHOWN(name));
    return TOOL_USAGE;
}
