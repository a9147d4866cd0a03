/// What members tell each other beside the elements: one TCP connection from rank 0 to each of the
/// others. Private to nn/parallel.
///
/// It brings members together, carries what rank 0 alone knows, and stays open: a connection that
/// ends says which process has ended. Rank 0 passes on what it hears.
#ifndef TALC_NN_PARALLEL_LINE_H
#define TALC_NN_PARALLEL_LINE_H

#include "nn/parallel/launcher.h"

typedef enum talc_notice_kind {
    TALC_NOTICE_HELLO,   ///< of who connects
    TALC_NOTICE_WELCOME, ///< rank 0's answer, with what it carries
    TALC_NOTICE_ROLL,    ///< where the sender is, whose time has run out
    TALC_NOTICE_PLACE,   ///< where the sender is, who heard that
    TALC_NOTICE_BROKEN,  ///< the group is of no use any more, and why
    TALC_NOTICE_LEFT     ///< the sender ends the connection in peace
} talc_notice_kind;

enum { TALC_NOTICE_TEXT = 240 };

typedef struct talc_notice {
    int32_t kind, from;
    int64_t number;
    char text[TALC_NOTICE_TEXT];
} talc_notice;

typedef struct talc_line talc_line;

/// A listening socket for members on any host, and its port. -1 with a failure.
int talc_line_listen(int *port);

/// Connects the members, once all are there: rank 0 listens at `address`, "host:port", or at
/// `listener` unless that is -1, which it takes over; `text` goes from rank 0 to the others. NULL
/// with a failure: a port in use, a host that is unknown or not reached in time, members that are
/// not there in time, of other sizes, or twice.
talc_line *talc_line_open(const talc_member *member, const char *address, int listener,
                          double timeout, char text[TALC_NOTICE_TEXT]);

/// NULL passes.
void talc_line_close(talc_line *line);

/// Tells all others; those that are gone are passed over. From is this member.
void talc_line_tell(talc_line *line, talc_notice_kind kind, int64_t number, const char *text);

/// Waits up to `milliseconds` for what another member tells. A connection that ends without
/// TALC_NOTICE_LEFT is TALC_NOTICE_BROKEN, with a text that names the member. False: nothing came.
bool talc_line_hear(talc_line *line, talc_notice *notice, int milliseconds);

#endif
