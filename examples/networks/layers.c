#include "layers.h"

enum { MAX = 12 };

typedef struct block {
    talc_module base;
    block_options options;
    int count;
    talc_module *body[MAX], *shortcut;
} block;

static bool init(talc_module *module, const void *options)
{
    ((block *)module)->options = *(const block_options *)options;
    return true;
}

/* The addition and the activation are the last steps of the body's last layer, where it can. */
static talc_tensor *forward(talc_module *module, talc_tensor *x)
{
    const block *self = (const block *)module;
    talc_tensor *beside = self->shortcut == NULL ? x : talc_forward(self->shortcut, x);
    talc_chain_end end = { .residual = beside, .activation = self->options.activation };
    if (!self->options.concat)
        return talc_forward_chain(self->body, self->count, x, &end);
    talc_tensor *y = talc_forward_chain(self->body, self->count, x, NULL);
    end.residual = NULL;
    return talc_forward_chain(NULL, 0, talc_concat((const talc_tensor *[]){ beside, y }, 2, 1),
                              &end);
}

static const talc_module_class block_class = {
    .name = "Block", .size = sizeof(block), .init = init, .forward = forward
};

talc_module *block_new(block_options options)
{
    return talc_module_new(&block_class, &options);
}

void block_add(talc_module *module, const char *name, talc_module *child)
{
    block *self = (block *)module;
    child = talc_module_add(module, name, child);
    if (child != NULL && self->count < MAX)
        self->body[self->count++] = child;
    else
        talc_fail(TALC_BAD_ARGUMENT, "Block: more than %d layers", MAX);
}

void block_shortcut(talc_module *module, const char *name, talc_module *child)
{
    child = talc_module_add(module, name, child);
    if (child != NULL)
        ((block *)module)->shortcut = child;
}
