/* ResNet-20: user-defined modules, batch norm and shortcuts. It sees a batch in train mode, so that its running
 * statistics move, then classifies in evaluation mode; a second network that loads its state agrees.
 *
 *     resnet20 [A|B] [file]            how shortcuts change the number of channels, see resnet20.h;
 *                                      the file stays when its name is given */
#include "resnet20.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    resnet20_shortcut shortcut =
        argc > 1 && strcmp(argv[1], "B") == 0 ? RESNET20_OPTION_B : RESNET20_OPTION_A;
    const char *path = argc > 2                        ? argv[2]
                       : shortcut == RESNET20_OPTION_B ? "resnet20_b.safetensors"
                                                       : "resnet20_a.safetensors";
    talc_device *device = talc_device_default();
    talc_manual_seed(1);

    talc_module *net = resnet20_new(shortcut);
    talc_module_to(net, device);
    talc_tensor *images = talc_randn(device, TALC_F32, TALC_DIMS(2, 3, 32, 32));
    talc_module_summary(stdout, net, images);

    talc_forward(net, images); /* in train mode, in which a module is made */
    talc_module_eval(net);
    talc_tensor *logits = talc_forward(net, images);
    talc_print(stdout, logits);
    talc_module_save(net, path);

    talc_module *copy = resnet20_new(shortcut);
    talc_module_to(copy, device);
    talc_module_load(copy, path, true);
    talc_module_eval(copy);
    talc_tensor *again = talc_forward(copy, images);

    float a[2 * 10] = { 0 }, b[2 * 10] = { 0 };
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
    if (argc < 3)
        remove(path);
    return equal ? 0 : 1;
}
