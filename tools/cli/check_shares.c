#include "tools/cli/check_shares.h"

#include <stdlib.h>
#include <string.h>

static bool worth_more(const talc_check_outcome *outcome, const check_shares *self)
{
    if (outcome->shares == NULL || (self->of != NULL && !self->passed))
        return false;
    return self->of == NULL || !outcome->passed || outcome->share > self->share;
}

void check_shares_observe(void *context, const talc_check_outcome *outcome)
{
    check_shares *self = context;
    if (!worth_more(outcome, self))
        return;
    talc_dims dims = { .rank = outcome->rank };
    size_t count = 1;
    for (int i = 0; i < outcome->rank; i++) {
        dims.dim[i] = outcome->dims[i];
        count *= (size_t)outcome->dims[i];
    }
    float *shares = count > 0 ? malloc(count * sizeof *shares) : NULL;
    if (shares == NULL) {
        self->no_memory = self->no_memory || count > 0;
        return;
    }
    memcpy(shares, outcome->shares, count * sizeof *shares);
    free(self->of);
    self->of = shares;
    self->dims = dims;
    self->passed = outcome->passed;
    self->share = outcome->share;
    snprintf(self->what, sizeof self->what, "%s of %s by %s on %s, %s: %s", outcome->output,
             outcome->op, outcome->algorithm, outcome->device, talc_check_kind_name(outcome->kind),
             outcome->problem);
}

bool check_shares_save(const check_shares *self, const char *path)
{
    if (self->no_memory) {
        talc_fail(TALC_NO_MEMORY, "%s: no memory for the shares", TALC_SHOWN(path));
        return false;
    }
    if (self->of == NULL) {
        talc_fail(TALC_NOT_FOUND, "%s: no check compared values, there are no shares",
                  TALC_SHOWN(path));
        return false;
    }
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *shares =
        talc_from_host(talc_device_get("cpu"), TALC_F32, self->dims, self->of);
    const bool saved = shares != NULL && talc_npy_save(path, shares);
    talc_scope_leave(scope);
    return saved;
}

void check_shares_free(check_shares *self)
{
    free(self->of);
    self->of = NULL;
}
