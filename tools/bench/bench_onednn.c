/// oneDNN (2.x, C interface) on the operands of a bench problem.
#define _GNU_SOURCE /* RTLD_DEFAULT */

#include "tools/bench/bench.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

/* One operand: as the user has it (NCHW, OIHW) and as the kernel wants it. */
typedef struct operand {
    int argument;                 ///< what the kernel calls it
    dnnl_memory_t plain, blocked; ///< the same memory where the layouts are equal
    dnnl_primitive_t reorder;     ///< NULL where they are
} operand;

typedef struct executor {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t kernel;
    operand read[2], written;
    int users; ///< contenders that hold it
} executor;

static void operand_free(operand *self)
{
    dnnl_primitive_destroy(self->reorder);
    if (self->blocked != self->plain)
        dnnl_memory_destroy(self->blocked);
    dnnl_memory_destroy(self->plain);
}

static void executor_free(void *context)
{
    executor *self = context;
    if (--self->users > 0)
        return;
    dnnl_primitive_destroy(self->kernel);
    operand_free(&self->read[0]);
    operand_free(&self->read[1]);
    operand_free(&self->written);
    dnnl_stream_destroy(self->stream);
    dnnl_engine_destroy(self->engine);
    free(self);
}

/* Works on the same number of threads as talc. oneDNN leaves that to its OpenMP library. */
static void set_threads(int threads)
{
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    void (*function)(int) = NULL;
    memcpy(&function, &symbol, sizeof function);
    if (function != NULL)
        function(threads);
}

static bool reorder(const executor *self, dnnl_primitive_t primitive, dnnl_memory_t from,
                    dnnl_memory_t to)
{
    const dnnl_exec_arg_t arguments[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };
    return primitive == NULL ||
           dnnl_primitive_execute(primitive, self->stream, 2, arguments) == dnnl_success;
}

static bool run_kernel(void *context)
{
    const executor *self = context;
    const dnnl_exec_arg_t arguments[] = { { self->read[0].argument, self->read[0].blocked },
                                          { self->read[1].argument, self->read[1].blocked },
                                          { self->written.argument, self->written.blocked } };
    if (dnnl_primitive_execute(self->kernel, self->stream, 3, arguments) == dnnl_success &&
        dnnl_stream_wait(self->stream) == dnnl_success)
        return true;
    talc_fail(TALC_UNSUPPORTED, "bench: oneDNN did not run");
    return false;
}

static bool run_whole(void *context)
{
    const executor *self = context;
    const operand *a = &self->read[0], *b = &self->read[1], *to = &self->written;
    if (reorder(self, a->reorder, a->plain, a->blocked) &&
        reorder(self, b->reorder, b->plain, b->blocked) && run_kernel(context) &&
        reorder(self, to->reorder, to->blocked, to->plain) &&
        dnnl_stream_wait(self->stream) == dnnl_success)
        return true;
    talc_fail(TALC_UNSUPPORTED, "bench: oneDNN did not reorder");
    return false;
}

/* An operand whose user layout is `plain` in the caller's memory `data` (NULL: memory of oneDNN's
 * own; it is written), and the reorder between it and the kernel's layout. */
static bool operand_make(executor *self, operand *made, int argument,
                         const dnnl_memory_desc_t *plain, const_dnnl_primitive_desc_t kernel,
                         const void *data)
{
    const dnnl_memory_desc_t *wanted =
        dnnl_primitive_desc_query_md(kernel, dnnl_query_exec_arg_md, argument);
    const bool is_output = data == NULL;
    void *handle = is_output ? DNNL_MEMORY_ALLOCATE : (void *)(uintptr_t)data;
    made->argument = argument;
    if (dnnl_memory_create(&made->plain, plain, self->engine, handle) != dnnl_success)
        return false;
    if (dnnl_memory_desc_equal(plain, wanted)) {
        made->blocked = made->plain;
        return true;
    }
    dnnl_primitive_desc_t description;
    if (dnnl_memory_create(&made->blocked, wanted, self->engine, DNNL_MEMORY_ALLOCATE) !=
            dnnl_success ||
        dnnl_reorder_primitive_desc_create(&description, is_output ? wanted : plain, self->engine,
                                           is_output ? plain : wanted, self->engine,
                                           NULL) != dnnl_success)
        return false;
    const dnnl_status_t status = dnnl_primitive_create(&made->reorder, description);
    dnnl_primitive_desc_destroy(description);
    return status == dnnl_success;
}

typedef struct layouts {
    dnnl_memory_desc_t x, w, y;
} layouts;

static bool layouts_make(layouts *made, const talc_conv2d_problem *p, bool any)
{
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups;
    const dnnl_dims_t x = { p->N, p->C, p->H, p->W }, y = { p->N, p->OC, p->OH, p->OW };
    const dnnl_dims_t dense = { OC, IC, p->KH, p->KW },
                      grouped = { p->groups, OC, IC, p->KH, p->KW };
    const dnnl_format_tag_t image = any ? dnnl_format_tag_any : dnnl_nchw;
    const bool is_grouped = p->groups > 1;
    return dnnl_memory_desc_init_by_tag(&made->x, 4, x, dnnl_f32, image) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&made->y, 4, y, dnnl_f32, image) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&made->w, is_grouped ? 5 : 4, is_grouped ? grouped : dense,
                                        dnnl_f32,
                                        any          ? dnnl_format_tag_any
                                        : is_grouped ? dnnl_goihw
                                                     : dnnl_oihw) == dnnl_success;
}

/* The kernel for a direction, in the layouts that it likes best. A gradient's is chosen with the
 * forward one as a hint. */
static bool kernel_of(const executor *self, const talc_conv2d_problem *p,
                      dnnl_primitive_desc_t *made)
{
    const dnnl_dims_t strides = { p->stride_h, p->stride_w },
                      dilates = { p->dilation_h - 1, p->dilation_w - 1 },
                      begin = { p->pad_top, p->pad_left }, end = { p->pad_bottom, p->pad_right };
    const dnnl_prop_kind_t kind =
        p->direction == TALC_FORWARD ? dnnl_forward_inference : dnnl_forward_training;
    layouts any;
    dnnl_convolution_desc_t forward, gradient;
    dnnl_primitive_desc_t hint;
    if (!layouts_make(&any, p, true) ||
        dnnl_dilated_convolution_forward_desc_init(&forward, kind, dnnl_convolution_direct, &any.x,
                                                   &any.w, NULL, &any.y, strides, dilates, begin,
                                                   end) != dnnl_success ||
        dnnl_primitive_desc_create(&hint, &forward, NULL, self->engine, NULL) != dnnl_success)
        return false;
    if (p->direction == TALC_FORWARD) {
        *made = hint;
        return true;
    }
    dnnl_status_t status = p->direction == TALC_GRAD_INPUT
                               ? dnnl_dilated_convolution_backward_data_desc_init(
                                     &gradient, dnnl_convolution_direct, &any.x, &any.w, &any.y,
                                     strides, dilates, begin, end)
                               : dnnl_dilated_convolution_backward_weights_desc_init(
                                     &gradient, dnnl_convolution_direct, &any.x, &any.w, NULL,
                                     &any.y, strides, dilates, begin, end);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(made, &gradient, NULL, self->engine, hint);
    dnnl_primitive_desc_destroy(hint);
    return status == dnnl_success;
}

static bool executor_open(executor *self, const bench_operands *o)
{
    const talc_conv2d_problem *p = &o->problem;
    operand *a = &self->read[0], *b = &self->read[1], *to = &self->written;
    layouts plain;
    dnnl_primitive_desc_t kernel;
    if (!layouts_make(&plain, p, false) ||
        dnnl_engine_create(&self->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&self->stream, self->engine, dnnl_stream_default_flags) !=
            dnnl_success ||
        !kernel_of(self, p, &kernel))
        return false;
    bool made;
    if (p->direction == TALC_GRAD_INPUT)
        made = operand_make(self, a, DNNL_ARG_DIFF_DST, &plain.y, kernel, o->dy->data) &&
               operand_make(self, b, DNNL_ARG_WEIGHTS, &plain.w, kernel, o->w->data) &&
               operand_make(self, to, DNNL_ARG_DIFF_SRC, &plain.x, kernel, NULL);
    else if (p->direction == TALC_GRAD_WEIGHT)
        made = operand_make(self, a, DNNL_ARG_SRC, &plain.x, kernel, o->x->data) &&
               operand_make(self, b, DNNL_ARG_DIFF_DST, &plain.y, kernel, o->dy->data) &&
               operand_make(self, to, DNNL_ARG_DIFF_WEIGHTS, &plain.w, kernel, NULL);
    else
        made = operand_make(self, a, DNNL_ARG_SRC, &plain.x, kernel, o->x->data) &&
               operand_make(self, b, DNNL_ARG_WEIGHTS, &plain.w, kernel, o->w->data) &&
               operand_make(self, to, DNNL_ARG_DST, &plain.y, kernel, NULL);
    made = made && dnnl_primitive_create(&self->kernel, kernel) == dnnl_success;
    dnnl_primitive_desc_destroy(kernel);
    return made;
}

static const char *refusal(const talc_conv2d_problem *p)
{
    if (p->dtype != TALC_F32)
        return "f32 only";
    if (p->bias || p->residual || p->activation != TALC_ACTIVATION_NONE)
        return "compared without bias, residual and activation only";
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return "zero padding only";
    return NULL;
}

void bench_onednn(contender *whole, contender *kernel, const bench_operands *operands)
{
    const talc_conv2d_problem *p = &operands->problem;
    *whole = (contender){ .name = "oneDNN",
                          .peer = true,
                          .times = 1,
                          .flops = talc_conv2d_flops(p),
                          .run = run_whole,
                          .free = executor_free };
    *kernel = *whole;
    kernel->name = "oneDNN kernel";
    kernel->run = run_kernel;
    const char *reason = refusal(p);
    executor *self = reason != NULL ? NULL : calloc(1, sizeof *self);
    whole->context = kernel->context = self;
    if (self != NULL) {
        self->users = 2;
        set_threads(talc_threads());
        reason = executor_open(self, operands) ? NULL : "oneDNN refuses";
    } else if (reason == NULL) {
        reason = "no memory";
    }
    if (reason != NULL) {
        snprintf(whole->reason, sizeof whole->reason, "%s", reason);
        snprintf(kernel->reason, sizeof kernel->reason, "%s", reason);
    } else {
        run_whole(self); /* the kernel alone needs its operands in place */
    }
}
