#include "ops/choice.h"

#include "tensor/environment.h"
#include "tensor/memory.h"
#include "tensor/shown.h"

#include <stdio.h>
#include <string.h>

// ---- Forced algorithms --------------------------------------------------------------------------------------

enum { MAX_FORCED = 16, NAME_LENGTH = 32 };

static _Thread_local struct {
    char op[NAME_LENGTH];
    char name[NAME_LENGTH];
} forced_rows[MAX_FORCED];

static int forced_index(const char *op)
{
    for (int i = 0; i < MAX_FORCED; i++)
        if (strcmp(forced_rows[i].op, op) == 0)
            return i;
    return -1;
}

const char *talc_algorithm_forced(const char *op)
{
    int index = op == NULL || *op == '\0' ? -1 : forced_index(op);
    return index < 0 ? NULL : forced_rows[index].name;
}

bool talc_algorithm_force(const char *op, const char *name)
{
    if (talc_operand_missing("algorithm_force", "op", op))
        return false;
    if (*op == '\0' || strlen(op) >= NAME_LENGTH || (name != NULL && strlen(name) >= NAME_LENGTH)) {
        talc_fail(TALC_BAD_ARGUMENT, "algorithm_force: names have 1 to %d characters: '%s', '%s'",
                  NAME_LENGTH - 1, TALC_SHOWN(op), TALC_SHOWN(name == NULL ? "" : name));
        return false;
    }
    int index = forced_index(op);
    if (name == NULL) {
        if (index >= 0)
            forced_rows[index].op[0] = '\0';
        return true;
    }
    index = index < 0 ? forced_index("") : index;
    if (index < 0) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "algorithm_force: %d ops are forced already, the most there may be", MAX_FORCED);
        return false;
    }
    memcpy(forced_rows[index].op, op, strlen(op) + 1);
    memcpy(forced_rows[index].name, name, strlen(name) + 1);
    return true;
}

// ---- Choice -------------------------------------------------------------------------------------------------

talc_choice talc_choice_begin(const char *op, talc_device *device, const char *forced,
                              unsigned precision)
{
    talc_choice choice; /* what refused_count does not count stays as it is */
    choice.op = op;
    choice.device = device;
    choice.forced = forced != NULL ? forced : talc_algorithm_forced(op);
    choice.precision = precision != 0 ? precision | TALC_STRICT : talc_precision_admitted();
    choice.limit = talc_workspace_limit(device);
    choice.forced_seen = false;
    choice.refused_count = 0;
    return choice;
}

const char *talc_choice_refusal(const talc_choice *choice, const talc_algorithm *row,
                                const char *refusal, size_t workspace, char text[96])
{
    if (choice->forced != NULL && strcmp(choice->forced, row->name) != 0) {
        char name[64];
        snprintf(text, 96, "'%s' is asked for",
                 talc_shown(choice->forced, SIZE_MAX, name, sizeof name));
        return text;
    }
    if (refusal != NULL)
        return refusal;
    if ((row->arithmetic.precision & choice->precision) == 0) {
        snprintf(text, 96, "precision class %s is not admitted",
                 talc_precision_name(row->arithmetic.precision));
        return text;
    }
    if (workspace > choice->limit) {
        char needed[TALC_BYTES_TEXT], limit[TALC_BYTES_TEXT];
        snprintf(text, 96, "needs %s of workspace, the limit is %s",
                 talc_bytes_text((double)workspace, needed),
                 talc_bytes_text((double)choice->limit, limit));
        return text;
    }
    return NULL;
}

static void dispatch_line(const talc_choice *choice, const talc_algorithm *row, const char *reason)
{
    if ((talc_environment()->verbose & TALC_VERBOSE_DISPATCH) != 0)
        fprintf(stderr, "talc,dispatch,%s,%s,%s,%s\n", choice->device->name, choice->op, row->name,
                reason == NULL ? "chosen" : reason);
}

bool talc_choice_admits(talc_choice *choice, const talc_algorithm *row, const char *refusal,
                        size_t workspace)
{
    if (choice->forced != NULL && strcmp(choice->forced, row->name) != 0)
        return false;
    choice->forced_seen = true;
    char text[96];
    const char *reason = talc_choice_refusal(choice, row, refusal, workspace, text);
    dispatch_line(choice, row, reason);
    if (reason == NULL)
        return true;
    if (choice->refused_count < TALC_MAX_REFUSED) {
        int i = choice->refused_count++;
        choice->refused[i].row = row;
        choice->refused[i].refusal = refusal;
        choice->refused[i].workspace = workspace;
    }
    return false;
}

talc_status talc_choice_fail(const talc_choice *choice)
{
    if (choice->forced != NULL && !choice->forced_seen)
        return talc_fail(TALC_NOT_FOUND, "%s on %s: there is no algorithm '%s'", choice->op,
                         choice->device->name, TALC_SHOWN(choice->forced));
    char reasons[640] = ""; /* "name: reason; ..." */
    size_t used = 0;
    for (int i = 0; i < choice->refused_count && used < sizeof reasons; i++) {
        const talc_algorithm *row = choice->refused[i].row;
        char text[96];
        const char *reason = talc_choice_refusal(choice, row, choice->refused[i].refusal,
                                                 choice->refused[i].workspace, text);
        used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %s",
                                 used == 0 ? "" : "; ", row->name, reason);
    }
    return talc_fail(TALC_UNSUPPORTED, "%s on %s: %s", choice->op, choice->device->name,
                     used > 0 ? reasons : "this device has no algorithm for it");
}
