/* ViT_C: a vision transformer whose stem is convolutions in place of patches. Xiao, Singh, Mintun,
 * Darrell, Dollar and Girshick 2021, "Early convolutions help transformers see better", arXiv
 * 2106.14881, in its size of 1 GFLOP; the encoder is that of Dosovitskiy and others 2020, arXiv
 * 2010.11929. Images have 224x224 pixels, which become 14x14 tokens. */
#include "families.h"
#include "layers.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 192, DEPTH = 11, HEADS = 3, MLP = 576, TOKENS = 14 * 14 };

static talc_module *layer_norm(void)
{
    return talc_nn_layer_norm(
        &(talc_layer_norm_layer){ .normalised = { 1, { WIDTH } }, .eps = 1e-6 });
}

/* Uniform in +-bound. */
static talc_tensor *parameter(talc_module *module, const char *name, talc_dims dims, double bound)
{
    talc_tensor *drawn = talc_uniform(talc_device_get("cpu"), TALC_F32, dims, -1, 1);
    return talc_module_parameter(module, name, talc_mul_scalar(drawn, bound));
}

// ---- Self-attention: softmax(q k^T / sqrt(d)) v for each head of d numbers ----------------------

typedef struct attention {
    talc_module base;
    talc_tensor *weight, *bias; /* of q, k and v, one below the other */
    talc_module *out_proj;
} attention;

static bool attention_init(talc_module *module, const void *options)
{
    (void)options;
    attention *self = (attention *)module;
    self->weight =
        parameter(module, "in_proj_weight", TALC_DIMS(3 * WIDTH, WIDTH), sqrt(6.0 / (4 * WIDTH)));
    self->bias = parameter(module, "in_proj_bias", TALC_DIMS(3 * WIDTH), 0);
    self->out_proj = talc_module_add(module, "out_proj", linear(WIDTH, WIDTH));
    return !talc_failed();
}

static talc_tensor *attention_forward(talc_module *module, talc_tensor *x)
{
    const attention *self = (const attention *)module;
    const int64_t N = x->dims[0], T = x->dims[1], D = WIDTH / HEADS;
    talc_tensor *qkv = talc_linear(x, self->weight, self->bias, NULL);
    qkv = talc_permute(talc_reshape(qkv, TALC_DIMS(N, T, 3, HEADS, D)), TALC_DIMS(2, 0, 3, 1, 4));
    talc_tensor *q =
        talc_mul_scalar(talc_select(qkv, 0, 0), 1 / sqrt((double)D)); /* [N,HEADS,T,D] */
    talc_tensor *k = talc_select(qkv, 0, 1), *v = talc_select(qkv, 0, 2);
    talc_tensor *weights = talc_softmax(talc_matmul(q, talc_transpose(k, 2, 3)), 3);
    talc_tensor *y = talc_transpose(talc_matmul(weights, v), 1, 2);
    return talc_forward(self->out_proj, talc_reshape(y, TALC_DIMS(N, T, WIDTH)));
}

static const talc_module_class attention_class = { .name = "MultiheadAttention",
                                                   .size = sizeof(attention),
                                                   .init = attention_init,
                                                   .forward = attention_forward };

// ---- A layer of the encoder: z = x + attention(norm(x)), y = z + mlp(norm(z)) -------------------

typedef struct encoder_layer {
    talc_module base;
    talc_module *ln_1, *self_attention, *ln_2, *mlp;
} encoder_layer;

static bool layer_init(talc_module *module, const void *options)
{
    (void)options;
    encoder_layer *self = (encoder_layer *)module;
    self->ln_1 = talc_module_add(module, "ln_1", layer_norm());
    self->self_attention =
        talc_module_add(module, "self_attention", talc_module_new(&attention_class, NULL));
    self->ln_2 = talc_module_add(module, "ln_2", layer_norm());
    self->mlp = talc_module_add(module, "mlp", talc_nn_sequential());
    talc_module_add(self->mlp, "0", linear(WIDTH, MLP));
    talc_module_add(self->mlp, "1", talc_nn_gelu());
    talc_module_add(self->mlp, "3", linear(MLP, WIDTH));
    return !talc_failed();
}

static talc_tensor *layer_forward(talc_module *module, talc_tensor *x)
{
    const encoder_layer *self = (const encoder_layer *)module;
    talc_chain_end end = { .residual = x };
    end.residual = talc_forward_chain(TALC_CHAIN(self->ln_1, self->self_attention), x, &end);
    return talc_forward_chain(TALC_CHAIN(self->ln_2, self->mlp), end.residual, &end);
}

static const talc_module_class layer_class = { .name = "EncoderLayer",
                                               .size = sizeof(encoder_layer),
                                               .init = layer_init,
                                               .forward = layer_forward };

// ---- The network --------------------------------------------------------------------------------

typedef struct vit {
    talc_module base;
    talc_module *conv_proj, *layers, *ln, *heads;
    talc_tensor *class_token, *pos_embedding;
} vit;

static talc_module *stem(int64_t channels)
{
    static const int64_t widths[] = { 24, 48, 96, 192 };
    talc_module *chain = talc_nn_sequential();
    char name[32];
    for (int i = 0; i < 4; channels = widths[i++]) {
        snprintf(name, sizeof name, "conv_bn_relu_%d", i);
        talc_module_add(chain, name, conv_norm(channels, widths[i], 3, 2, 1, talc_nn_relu()));
    }
    talc_module_add(chain, "conv_last", conv_bias(channels, WIDTH, 1, 1));
    return chain;
}

static bool init(talc_module *module, const void *options)
{
    const talc_network_options *o = options;
    vit *self = (vit *)module;
    self->class_token = parameter(module, "class_token", TALC_DIMS(1, 1, WIDTH), 0);
    self->conv_proj = talc_module_add(module, "conv_proj", stem(o->channels));
    talc_module *encoder = talc_module_add(module, "encoder", talc_nn_sequential());
    self->pos_embedding =
        parameter(encoder, "pos_embedding", TALC_DIMS(1, TOKENS + 1, WIDTH), 0.02 * sqrt(3));
    self->layers = talc_module_add(encoder, "layers", talc_nn_sequential());
    char name[32];
    for (int i = 0; i < DEPTH; i++) {
        snprintf(name, sizeof name, "encoder_layer_%d", i);
        talc_module_add(self->layers, name, talc_module_new(&layer_class, NULL));
    }
    self->ln = talc_module_add(encoder, "ln", layer_norm());
    self->heads = talc_module_add(module, "heads", talc_nn_sequential());
    talc_module_add(self->heads, "head", linear(WIDTH, o->classes));
    return !talc_failed();
}

static talc_tensor *forward(talc_module *module, talc_tensor *x)
{
    const vit *self = (const vit *)module;
    x = talc_transpose(talc_flatten(talc_forward(self->conv_proj, x), 2, 3), 1,
                       2); /* [N,TOKENS,WIDTH] */
    const talc_tensor *tokens[] = { talc_expand(self->class_token, TALC_DIMS(x->dims[0], 1, WIDTH)),
                                    x };
    x = talc_forward(self->layers, talc_add(talc_concat(tokens, 2, 1), self->pos_embedding));
    /* The class is read from its own token alone; torchvision's norm gives the others too. */
    return talc_forward(self->heads, talc_select(talc_forward(self->ln, x), 1, 0));
}

static const talc_module_class vit_class = {
    .name = "ViT", .size = sizeof(vit), .init = init, .forward = forward
};

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    return talc_module_new(&vit_class,
                           &(talc_network_options){ .channels = channels, .classes = classes });
}

const talc_network vit_networks[] = {
    { "vit_c",
      "ViT_C of 1 GFLOP: arXiv 2106.14881, 2010.11929",
      { 3, 224, 224 },
      1000,
      make,
      NULL },
    { 0 },
};
