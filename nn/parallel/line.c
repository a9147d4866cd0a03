#include "nn/parallel/line.h"

#include "nn/parallel/roll.h"
#include "tensor/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static const char *const WHO = "group";

/* What a connection begins with, so that others' connections are told from members'. */
static const char GREETING[] = "talc group 1";

/* Milliseconds between two attempts, and seconds that a notice may take once it has begun, or a
 * host without any sign. */
enum { RETRY = 100, PATIENCE = 5 };

struct talc_line {
    talc_member member;
    /* [size]: to the others, -1 where there is none. Ranks but 0 have one, to 0. */
    struct pollfd *sockets;
};

static int left_of(double end)
{
    const double left = end - talc_roll_now();
    return left <= 0 ? 0 : left > 1000 ? 1000 * 1000 : (int)(1000 * left) + 1;
}

/* A host that loses power or cable says nothing of it. */
static void prepare(int fd)
{
    const int on = 1, seconds = PATIENCE;
    const struct timeval time = { .tv_sec = PATIENCE };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static bool send_notice(int fd, const talc_notice *notice)
{
    return send(fd, notice, sizeof *notice, MSG_NOSIGNAL) == (ssize_t)sizeof *notice;
}

static bool receive_notice(int fd, talc_notice *notice)
{
    const bool whole = recv(fd, notice, sizeof *notice, MSG_WAITALL) == (ssize_t)sizeof *notice;
    notice->text[whole ? sizeof notice->text - 1 : 0] = '\0';
    return whole;
}

static talc_notice notice_of(const talc_line *line, talc_notice_kind kind, int64_t number,
                             const char *text)
{
    talc_notice notice = { .kind = kind, .from = line->member.rank, .number = number };
    snprintf(notice.text, sizeof notice.text, "%s", text);
    return notice;
}

// ---- Rank 0 -------------------------------------------------------------------------------------

/* For this host alone where the others find it by a name that no other host understands. */
static int listen_at(bool local, int *port)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)*port),
                                   .sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY) };
    socklen_t length = sizeof address;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 ||
        listen(fd, SOMAXCONN) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        talc_fail(TALC_IO_ERROR, "%s: rank 0 cannot listen at port %d: %s", WHO, *port,
                  strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    *port = ntohs(address.sin_port);
    return fd;
}

int talc_line_listen(int *port)
{
    *port = 0;
    return listen_at(false, port);
}

/* Whether it is a member; one that does not greet is none of the group's. */
static bool admit(talc_line *line, int fd)
{
    talc_notice hello;
    prepare(fd);
    if (!receive_notice(fd, &hello) || hello.kind != TALC_NOTICE_HELLO ||
        strcmp(hello.text, GREETING) != 0) {
        close(fd);
        return false;
    }
    if (hello.number != line->member.size)
        talc_fail(TALC_BAD_ARGUMENT, "%s: rank %d has a group of %d processes, rank 0 one of %d",
                  WHO, (int)hello.from, (int)hello.number, line->member.size);
    else if (hello.from <= 0 || hello.from >= line->member.size ||
             line->sockets[hello.from].fd >= 0)
        talc_fail(TALC_BAD_ARGUMENT, "%s: two processes say that they are rank %d", WHO,
                  (int)hello.from);
    else
        line->sockets[hello.from].fd = fd;
    if (talc_failed()) {
        const talc_notice refusal = notice_of(line, TALC_NOTICE_BROKEN, 0, talc_error_message());
        send_notice(fd, &refusal);
        close(fd);
    }
    return !talc_failed();
}

static void fail_absent(const talc_line *line, double timeout)
{
    bool *present = talc_memory_new((size_t)line->member.size, WHO);
    for (int rank = 0; present != NULL && rank < line->member.size; rank++)
        present[rank] = rank == 0 || line->sockets[rank].fd >= 0;
    if (present != NULL)
        talc_roll_absent(&line->member, WHO, present, "is not there after", "are not there after",
                         timeout);
    talc_memory_free(present);
}

static bool gather(talc_line *line, int listener, double timeout, const char *text)
{
    int missing = line->member.size - 1;
    for (const double end = talc_roll_now() + timeout; missing > 0 && !talc_failed();) {
        struct pollfd ready = { .fd = listener, .events = POLLIN };
        const int fd = poll(&ready, 1, left_of(end)) > 0 ? accept(listener, NULL, NULL) : -1;
        if (fd >= 0)
            missing -= admit(line, fd);
        else if (talc_roll_now() >= end)
            fail_absent(line, timeout);
    }
    if (talc_failed()) {
        talc_line_tell(line, TALC_NOTICE_BROKEN, 0, talc_error_message());
        return false;
    }
    talc_notice welcome = notice_of(line, TALC_NOTICE_WELCOME, 0, "");
    memcpy(welcome.text, text, sizeof welcome.text);
    for (int rank = 1; rank < line->member.size; rank++)
        send_notice(line->sockets[rank].fd, &welcome);
    return true;
}

// ---- The others ---------------------------------------------------------------------------------

/* A connection, or -1 and why. Without an answer an attempt lasts PATIENCE (SO_SNDTIMEO). */
static int connect_to(const struct addrinfo *found, int *why)
{
    const int fd = socket(found->ai_family, SOCK_STREAM, 0);
    if (fd >= 0) {
        prepare(fd);
        if (connect(fd, found->ai_addr, found->ai_addrlen) == 0)
            return fd;
    }
    *why = errno == EINPROGRESS ? ETIMEDOUT : errno;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int reach(const talc_line *line, const char *host, int number, double timeout)
{
    char port[8];
    snprintf(port, sizeof port, "%d", number);
    const double end = talc_roll_now() + timeout;
    const struct addrinfo wanted = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    const int unknown = getaddrinfo(host, port, &wanted, &found);
    if (unknown != 0) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: the address of rank 0, %s:%s: %s", WHO, host, port,
                  gai_strerror(unknown));
        return -1;
    }
    int fd = -1, why = 0;
    while (fd < 0 && talc_roll_now() < end) {
        fd = connect_to(found, &why);
        if (fd < 0)
            poll(NULL, 0, left_of(end) < RETRY ? left_of(end) : RETRY);
    }
    freeaddrinfo(found);
    if (fd < 0)
        talc_fail(TALC_PEER_LOST,
                  "%s: rank %d of %d does not reach rank 0 at %s:%s within %g s: %s", WHO,
                  line->member.rank, line->member.size, host, port, timeout, strerror(why));
    return fd;
}

static bool join(talc_line *line, const char *host, int port, double timeout, char *text)
{
    const double end = talc_roll_now() + timeout;
    const int fd = reach(line, host, port, timeout);
    if (fd < 0)
        return false;
    line->sockets[0].fd = fd;
    talc_notice notice = notice_of(line, TALC_NOTICE_HELLO, line->member.size, GREETING);
    send_notice(fd, &notice);
    if (!talc_line_hear(line, &notice, left_of(end)))
        talc_fail(TALC_PEER_LOST, "%s: the %d processes are not there after %g s", WHO,
                  line->member.size, timeout);
    else if (notice.kind != TALC_NOTICE_WELCOME)
        talc_fail(TALC_PEER_LOST, "%s", notice.text);
    memcpy(text, notice.text, sizeof notice.text);
    return !talc_failed();
}

// ---- Both ---------------------------------------------------------------------------------------

/* host and port of "host:port". */
static bool split(const char *address, char host[256], int *port)
{
    const char *colon = strrchr(address, ':');
    char *end = NULL;
    *port = colon == NULL ? 0 : (int)strtol(colon + 1, &end, 10);
    if (colon == NULL || colon == address || colon - address > 255 || end == colon + 1 ||
        *end != '\0' || *port < 1 || *port > 65535) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: the address of rank 0, %.200s, is no host:port", WHO,
                  address);
        return false;
    }
    snprintf(host, 256, "%.*s", (int)(colon - address), address);
    return true;
}

static bool open_line(talc_line *line, const char *address, int listener, double timeout,
                      char text[TALC_NOTICE_TEXT])
{
    char host[256];
    int port;
    if (line->member.size == 1)
        return true;
    if (!split(address, host, &port))
        return false;
    if (line->member.rank > 0)
        return join(line, host, port, timeout, text);
    if (listener < 0)
        listener =
            listen_at(strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0, &port);
    const bool ok = listener >= 0 && gather(line, listener, timeout, text);
    if (listener >= 0)
        close(listener);
    return ok;
}

talc_line *talc_line_open(const talc_member *member, const char *address, int listener,
                          double timeout, char text[TALC_NOTICE_TEXT])
{
    talc_line *line = talc_memory_new(sizeof *line, WHO);
    if (line == NULL)
        return NULL;
    line->member = *member;
    line->sockets = talc_memory_new((size_t)member->size * sizeof *line->sockets, WHO);
    for (int rank = 0; line->sockets != NULL && rank < member->size; rank++)
        line->sockets[rank] = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (line->sockets != NULL && open_line(line, address, listener, timeout, text))
        return line;
    talc_line_close(line);
    return NULL;
}

void talc_line_close(talc_line *line)
{
    if (line == NULL)
        return;
    for (int rank = 0; line->sockets != NULL && rank < line->member.size; rank++)
        if (line->sockets[rank].fd >= 0)
            close(line->sockets[rank].fd);
    talc_memory_free(line->sockets);
    talc_memory_free(line);
}

static void tell_all_but(talc_line *line, const talc_notice *notice, int but)
{
    for (int rank = 0; rank < line->member.size; rank++)
        if (rank != but && line->sockets[rank].fd >= 0)
            send_notice(line->sockets[rank].fd, notice);
}

void talc_line_tell(talc_line *line, talc_notice_kind kind, int64_t number, const char *text)
{
    const talc_notice notice = notice_of(line, kind, number, text);
    tell_all_but(line, &notice, line->member.rank);
}

bool talc_line_hear(talc_line *line, talc_notice *notice, int milliseconds)
{
    if (poll(line->sockets, (nfds_t)line->member.size, milliseconds) <= 0)
        return false;
    int rank = 0;
    while (rank < line->member.size - 1 && line->sockets[rank].revents == 0)
        rank++;
    struct pollfd *from = &line->sockets[rank];
    const bool told = receive_notice(from->fd, notice);
    if (!told) {
        *notice = notice_of(line, TALC_NOTICE_BROKEN, 0, "");
        notice->from = rank;
        snprintf(notice->text, sizeof notice->text, "rank %d of %d is gone", rank,
                 line->member.size);
    }
    if (!told || (notice->kind == TALC_NOTICE_LEFT && notice->from == rank)) {
        close(from->fd);
        from->fd = -1;
    }
    if (line->member.rank == 0)
        tell_all_but(line, notice, notice->from);
    return true;
}
