/// The end of a process: tensors, modules and a forked child that outlive what they stand on. Exits
/// with 0 when all that can be seen of it was right; a leak checker sees the rest; for one that
/// does not follow children, any argument leaves the child out.
#include <talc/talc.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static talc_module *early, *late;
static talc_tensor *kept;

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "at_exit: %s: %s\n", what, talc_error_message());
    _Exit(1);
}

/* Registered before the device is opened, so it runs after the device's end. */
static void free_early(void)
{
    talc_error_clear();
    require(talc_dims_of(kept).dim[0] == 1000, "a tensor's shape");
    talc_module_free(early);
    talc_release(kept);
}

static void free_late(void)
{
    talc_module_free(late);
}

static talc_module *layer_on(talc_device *device)
{
    talc_module *layer =
        talc_nn_linear(&(talc_linear_layer){ .in_features = 3, .out_features = 2 });
    require(layer != NULL && talc_module_to(layer, device), "module_to");
    return layer;
}

static void fork_and_end(void)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        exit(0);
    }
    int status = 1;
    require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
            "a child's end");
}

int main(int argc, char **argv)
{
    (void)argv;
    require(atexit(free_early) == 0, "atexit");
    const char *name = getenv("TALC_TEST_DEVICE");
    talc_device *device = talc_device_get(name == NULL ? "cpu" : name);
    require(device != NULL, "device_get");
    require(atexit(free_late) == 0, "atexit");
    early = layer_on(device);
    late = layer_on(device);
    kept = talc_retain(talc_ones(device, TALC_F32, TALC_DIMS(1000)));
    talc_scope_enter(); /* never left */
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(4, 3));
    require(talc_forward(late, x) != NULL, "forward");
    require(talc_item(talc_sum(kept, TALC_SCALAR, false)) == 1000, "sum");
    talc_release(talc_ones(device, TALC_F32, TALC_DIMS(1 << 20))); /* into the cache */

    if (argc == 1)
        fork_and_end();
    return 0;
}
