/* A network by name: its summary, a forward pass, the weights written to a file, and a second
 * network that reads them and agrees. The first sees a batch in train mode before, so that its
 * batch norms' running statistics, which are saved too, have moved.
 *
 *     save_and_load [network] [file]
 *
 * The network is lenet unless another of examples/networks is named; the file stays when its name
 * is given. */
#include <talc/networks.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "lenet";
    char own[64];
    snprintf(own, sizeof own, "save_and_load_%.32s.safetensors", name);
    const char *path = argc > 2 ? argv[2] : own;
    talc_device *device = talc_device_default();
    talc_manual_seed(1);

    const talc_network *found = talc_network_find(name);
    if (found == NULL) {
        fprintf(stderr, "%s\n", talc_error_message());
        return 2;
    }
    talc_module *net = talc_network_new(name, NULL);
    talc_module_to(net, device);
    talc_tensor *images =
        talc_randn(device, TALC_F32,
                   TALC_DIMS(2, found->image.channels, found->image.height, found->image.width));
    talc_module_summary(stdout, net, images);

    talc_forward(net, images); /* in train mode, in which a module is made */
    talc_module_eval(net);
    talc_tensor *y = talc_forward(net, images);
    talc_print(stdout, y);
    talc_module_save(net, path);

    /* Another network, with other random weights until it loads those of the first. */
    talc_module *copy = talc_network_new(name, NULL);
    talc_module_to(copy, device);
    talc_module_load(copy, path, true);
    talc_module_eval(copy);
    bool equal = talc_item(talc_max(talc_abs(talc_sub(talc_forward(copy, images), y)), TALC_SCALAR,
                                    false)) == 0;

    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    else
        printf("after saving and loading the outputs are %s\n",
               equal ? "equal to the bit" : "DIFFERENT");
    talc_module_free(net);
    talc_module_free(copy);
    if (argc < 3)
        remove(path);
    return equal && !talc_failed() ? 0 : 1;
}
