/* LeNet-5: a forward pass, the weights written to a file, and a second network that reads them and agrees.
 *
 *     lenet [file]                     the file stays when its name is given */
#include "lenet.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "lenet.safetensors";
    talc_device *device = talc_device_default();
    talc_manual_seed(1);

    talc_module *net = lenet_new();
    talc_module_to(net, device);
    talc_tensor *images = talc_rand(device, TALC_F32, TALC_DIMS(4, 1, 28, 28));
    talc_module_summary(stdout, net, images);
    talc_tensor *logits = talc_forward(net, images);
    talc_print(stdout, talc_softmax(logits, 1));
    talc_module_save(net, path);

    /* Another network, with other random weights until it loads those of the first. */
    talc_module *copy = lenet_new();
    talc_module_to(copy, device);
    talc_module_load(copy, path, true);
    talc_tensor *again = talc_forward(copy, images);

    float a[4 * 10] = { 0 }, b[4 * 10] = { 0 };
    talc_to_host(logits, a, sizeof a);
    talc_to_host(again, b, sizeof b);
    bool equal = !talc_failed() && memcmp(a, b, sizeof a) == 0;

    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    else
        printf("after saving and loading the outputs are %s\n",
               equal ? "equal to the bit" : "DIFFERENT");
    talc_module_free(net);
    talc_module_free(copy);
    if (argc < 2)
        remove(path);
    return equal ? 0 : 1;
}
