/// talc launch: a program several times over, as members of a group on this host.
#define _GNU_SOURCE /* pipe2 */

#include "tools/cli/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds after the first failure until the others are asked to end, and until they are made to. */
enum { TO_TELL = 3, TO_END = 3 };

enum { MAX_MEMBERS = 64, LINE = 4096, STREAMS = 2 };

typedef struct arguments {
    tool_options tool;
    int64_t count, port;
    char **program; ///< with its arguments, ended by NULL
} arguments;

enum { DEVICE = 'd', PORT = 'p' };

static const tool_option options[] = {
    { "processes", 'n', "N", "how many", 1, TOOL_NUMBER_AT(arguments, count, 1) },
    { "device", DEVICE, "DEVICE",
      "cuda: a GPU for each process; cpu: mpirun starts them (default: what the program finds)", 1,
      TOOL_STRING_AT(arguments, tool.device) },
    { "port", PORT, "PORT", "of this host, at which they meet (default: one that is free)", 1,
      TOOL_NUMBER_AT(arguments, port, 1) },
    { .name = NULL },
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case ARGP_KEY_ARG: /* the rest is the program's */
        (void)argument;
        self->program = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (self->count == 0 || self->count > MAX_MEMBERS)
            tool_usage(state, "give the number of processes, 1 to %d: -n 2", MAX_MEMBERS);
        if (self->program == NULL)
            tool_usage(state, "give a program");
        if (self->port > 65535)
            tool_usage(state, "--port %lld: ports are 1 to 65535", (long long)self->port);
        if (self->tool.device != NULL && strcmp(self->tool.device, "cpu") != 0 &&
            strcmp(self->tool.device, "cuda") != 0)
            tool_usage(state, "--device %s: cpu or cuda", TALC_SHOWN(self->tool.device));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// ---- On the CPU ---------------------------------------------------------------------------------

static void set_number(const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    setenv(name, text, 1);
}

/* In another process, so that this one holds no GPU. */
static bool on_host(const arguments *self)
{
    if (self->tool.device != NULL)
        return strcmp(self->tool.device, "cpu") == 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(talc_device_is_host(talc_device_default()) ? 0 : 1);
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0;
}

static bool is_folder(const char *path)
{
    struct stat about;
    const bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    if (folder)
        errno = EISDIR;
    return folder;
}

/* Whether exec finds a program: a path, or a name in a folder of PATH. */
static bool is_found(const char *program)
{
    if (strchr(program, '/') != NULL)
        return access(program, X_OK) == 0 && !is_folder(program);
    const char *path = getenv("PATH");
    for (const char *at = path; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, ":");
        char file[4096];
        snprintf(file, sizeof file, "%.*s/%s", (int)length, at, program);
        if (access(file, X_OK) == 0 && !is_folder(file))
            return true;
        at += length + (at[length] == ':');
    }
    errno = ENOENT;
    return false;
}

static int run_mpirun(const arguments *self)
{
    char count[24];
    if (!is_found(self->program[0])) {
        tool_fail("%s: %s", TALC_SHOWN(self->program[0]), strerror(errno));
        return 127;
    }
    char *argv[256] = { "mpirun", "--oversubscribe", "--bind-to", "none", "--tag-output", "-n",
                        count };
    int at = 7;
    snprintf(count, sizeof count, "%lld", (long long)self->count);
    /* Open MPI would give each of two processes one processor, however many there are. */
    const int64_t threads = talc_threads() / self->count;
    const char *set = getenv("TALC_THREADS");
    if (set == NULL || strtol(set, NULL, 10) < 1)
        set_number("TALC_THREADS", threads > 1 ? threads : 1);
    for (char **given = self->program; *given != NULL; given++) {
        if (strcmp(*given, ":") == 0)
            return tool_fail("':' begins another program for mpirun, and cannot be an argument");
        if (at == sizeof argv / sizeof *argv - 1)
            return tool_fail("more than %d arguments", at - 8);
        argv[at++] = *given;
    }
    execvp(argv[0], argv);
    return tool_fail("mpirun, which starts processes on the CPU (openmpi-bin): %s",
                     strerror(errno));
}

// ---- On GPUs ------------------------------------------------------------------------------------

/* What a member has written and is not shown yet: up to the end of a line. */
typedef struct output {
    int fd; /* -1 at its end */
    size_t length;
    char line[LINE];
} output;

static struct member {
    pid_t process; /* 0 once it has ended */
    output streams[STREAMS];
} members[MAX_MEMBERS];

static volatile sig_atomic_t stopped_by;

static void stop(int number)
{
    stopped_by = number;
}

static int free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        address.sin_port = 0;
    if (fd >= 0)
        close(fd);
    return ntohs(address.sin_port);
}

/* Ends with this process, and with 127 where there is no such program. */
static _Noreturn void become(const arguments *self, int64_t rank, int out, int err)
{
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execvp(self->program[0], self->program);
    tool_fail("%s: %s", TALC_SHOWN(self->program[0]), strerror(errno));
    _exit(127);
}

static bool start(const arguments *self, int64_t rank)
{
    struct member *m = &members[rank];
    int ends[STREAMS][2] = { { -1, -1 }, { -1, -1 } };
    fflush(NULL);
    const bool ready = pipe2(ends[0], O_CLOEXEC) == 0 && pipe2(ends[1], O_CLOEXEC) == 0;
    m->process = ready ? fork() : -1;
    if (m->process == 0)
        become(self, rank, ends[0][1], ends[1][1]);
    for (int i = 0; i < STREAMS; i++) {
        m->streams[i].fd = ends[i][0];
        if (ends[i][1] >= 0)
            close(ends[i][1]);
    }
    if (m->process > 0)
        return true;
    m->process = 0;
    tool_fail("rank %lld: %s", (long long)rank, strerror(errno));
    return false;
}

static void show(int64_t rank, int stream, output *o, size_t length)
{
    FILE *file = stream == 0 ? stdout : stderr;
    fprintf(file, "[%lld] %.*s\n", (long long)rank, (int)length, o->line);
    fflush(file);
}

/* Whole lines, and what is left at the end. */
static void read_output(int64_t rank, int stream)
{
    output *o = &members[rank].streams[stream];
    const ssize_t more = read(o->fd, o->line + o->length, LINE - o->length);
    if (more < 0 && errno == EINTR)
        return;
    if (more <= 0) {
        if (o->length > 0)
            show(rank, stream, o, o->length);
        close(o->fd);
        o->fd = -1;
        return;
    }
    o->length += (size_t)more;
    const char *end;
    while ((end = memchr(o->line, '\n', o->length)) != NULL || o->length == LINE) {
        const size_t length = end == NULL ? LINE : (size_t)(end - o->line);
        const size_t used = length + (end != NULL);
        show(rank, stream, o, length);
        memmove(o->line, o->line + used, o->length - used);
        o->length -= used;
    }
}

/* Returns whether some output is open. */
static bool read_outputs(int64_t count)
{
    struct pollfd all[STREAMS * MAX_MEMBERS];
    bool open = false;
    for (int i = 0; i < STREAMS * count; i++) {
        all[i] = (struct pollfd){ members[i / STREAMS].streams[i % STREAMS].fd, POLLIN, 0 };
        open = open || all[i].fd >= 0;
    }
    if (poll(all, STREAMS * (nfds_t)count, 50) > 0)
        for (int i = 0; i < STREAMS * count; i++)
            if (all[i].fd >= 0 && all[i].revents != 0)
                read_output(i / STREAMS, i % STREAMS);
    return open;
}

static void send_all(int64_t count, int number)
{
    for (int64_t rank = 0; rank < count; rank++)
        if (members[rank].process > 0)
            kill(members[rank].process, number);
}

/* What a member's end means for the command: its exit code, and a line where it is a failure. */
static int code_of(int64_t rank, int status)
{
    if (WIFSIGNALED(status)) {
        tool_fail("rank %lld was killed by signal %d (%s)", (long long)rank, WTERMSIG(status),
                  strsignal(WTERMSIG(status)));
        return 128 + WTERMSIG(status);
    }
    if (WEXITSTATUS(status) != 0)
        tool_fail("rank %lld ended with exit code %d", (long long)rank, WEXITSTATUS(status));
    return WEXITSTATUS(status);
}

/* Whether a member ended by a signal that is not what becomes of one whose peer has ended. */
static bool is_cause(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) != SIGPIPE && WTERMSIG(status) != SIGABRT &&
           WTERMSIG(status) != SIGTERM;
}

/* Until all have ended. The first failure is told of, or one by a signal that nobody here has
 * sent: what becomes of the others follows from that, though they may be sooner gone. What is in
 * the pipes then is shown; a process that a member leaves behind may hold them open. */
static int watch(int64_t count, int code)
{
    double end = 0;      /* of waiting for the others */
    int next = SIGTERM;  /* what they get then */
    int64_t running = 0; /* members */
    int64_t failed = -1; /* the member that is told of */
    int how = 0;         /* it ended */
    bool sent = false;   /* a signal, to members */
    for (int64_t rank = 0; rank < count; rank++)
        running += members[rank].process > 0;
    while (running > 0) {
        read_outputs(count);
        for (int64_t rank = 0; rank < count; rank++) {
            int status;
            if (members[rank].process <= 0 || waitpid(members[rank].process, &status, WNOHANG) <= 0)
                continue;
            members[rank].process = 0;
            running--;
            if (status != 0 && (failed < 0 || (is_cause(status) && !is_cause(how) && !sent))) {
                failed = rank;
                how = status;
            }
        }
        if (stopped_by != 0 && code == 0 && failed < 0) {
            code = 128 + stopped_by;
            send_all(count, stopped_by);
        }
        if ((code != 0 || failed >= 0) && end == 0)
            end = tool_clock() + TO_TELL;
        if (end != 0 && tool_clock() > end) {
            sent = true;
            send_all(count, next);
            next = SIGKILL;
            end = tool_clock() + TO_END;
        }
    }
    for (const double last = tool_clock() + 0.5; read_outputs(count) && tool_clock() < last;)
        ;
    return code != 0 || failed < 0 ? code : code_of(failed, how);
}

int command_launch(int argc, char **argv)
{
    static const struct argp_child none[] = { { 0 } };
    static const tool_syntax syntax = {
        .options = options,
        .parse = parse,
        .args_doc = "PROGRAM [ARGUMENT...]",
        .doc = "Starts a program several times on this host, as the members of a group "
               "(talc_group_new): each with its RANK, and what it writes with that before each "
               "line. The first that fails ends all, and its exit code is the command's. On the "
               "CPU mpirun does so, in its own words: [1,RANK]<stdout>: before what is written.",
        .children = none,
        .in_order = true,
    };
    arguments self = { 0 };
    tool_parse(&syntax, argc, argv, &self);
    if (on_host(&self))
        return run_mpirun(&self);
    const struct sigaction action = { .sa_handler = stop };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    set_number("WORLD_SIZE", self.count);
    set_number("LOCAL_WORLD_SIZE", self.count);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", self.port != 0 ? self.port : free_port());
    int code = 0;
    for (int64_t rank = 0; rank < self.count && code == 0; rank++)
        code = start(&self, rank) ? 0 : TOOL_FAILED;
    return watch(self.count, code);
}
