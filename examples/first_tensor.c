/* Tensors, views and scopes: rows and columns of a small matrix, and a sum that broadcasts. */
#include <talc/talc.h>
#include <stdio.h>

int main(void)
{
    talc_device *cpu = talc_device_get("cpu");
    talc_scope *scope = talc_scope_enter();

    /* The numbers 0 .. 11 as three rows of four. */
    talc_tensor *x = talc_reshape(talc_arange(cpu, TALC_F32, 0, 12, 1), TALC_DIMS(3, 4));
    printf("x is ");
    talc_print(stdout, x);

    /* Views share x's storage: nothing is copied. */
    printf("its second row ");
    talc_print(stdout, talc_select(x, 0, 1));
    printf("every other column ");
    talc_print(stdout, talc_slice(x, 1, 0, TALC_END, 2));

    /* A row of four stretches over the three rows. */
    const float tens[] = { 10, 20, 30, 40 };
    talc_tensor *row = talc_from_host(cpu, TALC_F32, TALC_DIMS(4), tens);
    printf("x plus a row ");
    talc_print(stdout, talc_add(x, row));

    talc_scope_leave(scope); /* frees all that was made since it was entered */

    /* One check at the end: the first failure stops everything after it and keeps its message. */
    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    return talc_failed();
}
