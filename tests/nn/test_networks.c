/// The list of networks, and those that a program adds. What each is stands in test_models.c.
#include "tests/support/hooks.h"

#include <talc/networks.h>

#include <stdio.h>
#include <string.h>

static int made;

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    made++;
    return talc_nn_linear(&(talc_linear_layer){ .in_features = channels * *(const int64_t *)config,
                                                .out_features = classes });
}

static talc_module *make_nothing(const void *config, int64_t channels, int64_t classes)
{
    (void)config, (void)channels, (void)classes;
    return NULL;
}

static const int64_t seven = 7;
static const talc_network own = {
    .name = "own_net-1",
    .what = "a layer",
    .image = { 2, 1, 1 },
    .classes = 3,
    .make = make,
    .config = &seven,
};

static int count_all(void)
{
    int count = 0;
    while (talc_network_at(count) != NULL)
        count++;
    return count;
}

Test(networks, one_that_is_added_is_found)
{
    const int before = count_all();
    cr_assert(before > 20 && talc_network_at(-1) == NULL);
    cr_assert(talc_network_add(&own));
    cr_assert(count_all() == before + 1 && talc_network_at(before) == &own);
    cr_assert(talc_network_find("own_net-1") == &own);
    owned_module *net = talc_network_new("own_net-1", NULL);
    cr_assert(made == 1 && talc_module_count(net) == 14 * 3 + 3);
    owned_module *other =
        talc_network_new("own_net-1", &(talc_network_options){ .channels = 1, .classes = 5 });
    cr_assert(talc_module_count(other) == 7 * 5 + 5);
}

static float first_weight(const talc_network_options *options)
{
    owned_module *net = talc_network_new("lenet", options);
    return *(const float *)talc_data_read(talc_module_find(net, "conv1.weight"), TALC_F32);
}

Test(networks, a_seed_gives_its_weights_and_leaves_the_generator)
{
    talc_manual_seed(5);
    const float fifth = first_weight(NULL);
    talc_manual_seed(1);
    const talc_generator before = talc_generator_get();
    cr_assert(first_weight(&(talc_network_options){ .seed = 5 }) == fifth);
    const talc_generator after = talc_generator_get();
    cr_assert(after.seed == before.seed && memcmp(&after, &before, sizeof after) == 0);
    cr_assert(first_weight(NULL) != fifth);
    cr_assert(memcmp(&before, &(talc_generator){ 0 }, sizeof before) != 0);
}

static void refused(talc_network wrong, talc_status status, const char *message)
{
    cr_assert(!talc_network_add(&wrong));
    assert_failure(status, message);
}

Test(networks, what_cannot_be_added)
{
    const int before = count_all();
    cr_assert(!talc_network_add(NULL));
    assert_failure(TALC_NULL_ARGUMENT, "network_add: network is NULL");
#define WRONG(text, change, fault)                                                                 \
    do {                                                                                           \
        talc_network n = own;                                                                      \
        n.name = text;                                                                             \
        change;                                                                                    \
        refused(n, TALC_BAD_ARGUMENT, "network_add: network '" text "': " fault);                  \
    } while (0)
    static const char *const names[] = { "", "-a", "a b", "a/b", "a.png" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        talc_network n = own;
        n.name = names[i];
        cr_assert(!talc_network_add(&n));
        assert_failure_with(TALC_BAD_ARGUMENT,
                            "network_add: network '%s': a name has letters, digits, _ and -, and "
                            "does not begin with -",
                            names[i]);
    }
    WRONG("", n.name = NULL, "a name has letters, digits, _ and -, and does not begin with -");
    WRONG("a", n.what = NULL, "it does not say what it is");
    WRONG("a", n.make = NULL, "it has no function 'make'");
    WRONG("a", n.classes = 0, "channels, height, width and classes must be at least 1");
    WRONG("a", n.image.channels = 0, "channels, height, width and classes must be at least 1");
    WRONG("a", n.image.height = -1, "channels, height, width and classes must be at least 1");
    WRONG("a", n.image.width = 0, "channels, height, width and classes must be at least 1");
    talc_network taken = own;
    taken.name = "vgg16";
    refused(taken, TALC_BAD_ARGUMENT, "network_add: there is a network 'vgg16' already");
    cr_assert(talc_network_add(&own));
    refused(own, TALC_BAD_ARGUMENT, "network_add: there is a network 'own_net-1' already");
    talc_fail(TALC_UNSUPPORTED, "earlier");
    taken.name = "other";
    cr_assert(!talc_network_add(&taken));
    assert_failure(TALC_UNSUPPORTED, "earlier");
    cr_assert(count_all() == before + 1);
}

Test(networks, so_many_can_be_added)
{
    static talc_network many[TALC_NETWORKS_ADDED + 1];
    static char names[TALC_NETWORKS_ADDED + 1][8];
    for (int i = 0; i <= TALC_NETWORKS_ADDED; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        many[i] = own;
        many[i].name = names[i];
        cr_assert(talc_network_add(&many[i]) == (i < TALC_NETWORKS_ADDED));
    }
    assert_failure(TALC_UNSUPPORTED, "network_add: 32 were added already, the most there may be");
}

Test(networks, a_network_that_makes_nothing)
{
    static talc_network nothing;
    nothing = own;
    nothing.make = make_nothing;
    cr_assert(talc_network_add(&nothing));
    cr_assert(talc_network_new("own_net-1", NULL) == NULL);
    assert_failure(TALC_BAD_ARGUMENT, "own_net-1: make gave no module and raised no failure");
}
