/* The picture of talc check: which outcome is kept, and that what is written is XML whatever was found. */
#include "tests/support/hooks.h"
#include "tools/check_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

static float shares[MOST];

/* An outcome of conv2d whose output has these extents; its shares run up to `share`. */
static talc_check_outcome outcome_of(int rank, const int64_t *dims, double share)
{
    talc_check_outcome o = { .op = "conv2d",
                             .algorithm = "im2col",
                             .device = "cpu",
                             .problem = "n1c1<\"&>\001",
                             .kind = TALC_CHECK_RANDOM,
                             .passed = share <= 1,
                             .share = share,
                             .output = "y",
                             .place = "tail",
                             .rank = rank,
                             .shares = shares };
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        o.dims[i] = dims[i];
        o.where[i] = dims[i] - 1;
        count *= dims[i];
    }
    cr_assert(count <= MOST);
    for (int64_t i = 0; i < count; i++)
        shares[i] = (float)(i % 7 == 0 ? 0 : i % 11 == 0 ? NAN : pow(10, -5.0 * (double)i / MOST));
    shares[count - 1] = (float)share;
    o.compared = count;
    snprintf(o.reason, sizeof o.reason, "%s", o.passed ? "" : "3 < 4 & wrong");
    return o;
}

/* Whether a text is one well-formed element with what it holds, by the rules that these documents need. */
static bool well_formed(const char *text)
{
    char open[16][16];
    int depth = 0, roots = 0;
    const char *at = strstr(text, "?>");
    for (at = at == NULL ? text : at + 2; *at != '\0';) {
        if (*at == '&' && strncmp(at, "&lt;", 4) != 0 && strncmp(at, "&gt;", 4) != 0 &&
            strncmp(at, "&amp;", 5) != 0)
            return false;
        if ((unsigned char)*at < ' ' && *at != '\n')
            return false;
        if (*at != '<') {
            at++;
            continue;
        }
        const char *end = strchr(at, '>');
        char name[16] = "";
        if (end == NULL || memchr(at + 1, '<', (size_t)(end - at - 1)) != NULL)
            return false;
        sscanf(at + (at[1] == '/' ? 2 : 1), "%15[a-z]", name);
        int quotes = 0;
        for (const char *c = at; c < end; c++)
            quotes += *c == '"';
        if (quotes % 2 != 0 || name[0] == '\0')
            return false;
        if (at[1] == '/') {
            if (depth == 0 || strcmp(open[--depth], name) != 0)
                return false;
        } else if (end[-1] != '/') {
            roots += depth == 0;
            if (depth == 16)
                return false;
            strcpy(open[depth++], name);
        }
        at = end + 1;
    }
    return depth == 0 && roots == 1;
}

static char document[1 << 20];

/* Keeps and writes one outcome. */
static void draw(const talc_check_outcome *o)
{
    check_picture picture = { .kept = false };
    check_picture_observe(&picture, o);
    cr_assert(picture.kept);
    FILE *file = fmemopen(document, sizeof document, "w");
    cr_assert(file != NULL);
    check_picture_write(&picture, file);
    cr_assert(fclose(file) == 0);
    check_picture_free(&picture);
}

static void assert_holds(const char *part, const talc_check_outcome *o)
{
    cr_assert(strstr(document, part) != NULL, "rank %d, share %g: no %s", o->rank, o->share, part);
}

Test(check_svg, documents_are_well_formed)
{
    static const int64_t dims[][5] = { { 2, 3, 10, 20, 0 },
                                       { 1, 1, 1, 1, 0 },
                                       { 1, 1, 3, 1000, 0 },
                                       { 1, 1, 4000, 1, 0 },
                                       { 2, 2, 2, 5, 50 } };
    static const double worst[] = { 0, 1e-9, 0.3, 1, 1.0001, 40, 3e7, 1e30, INFINITY };
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int rank = 0; rank <= 5; rank++)
            for (size_t j = 0; j < sizeof worst / sizeof *worst; j++) {
                if (rank == 5 && dims[i][4] == 0)
                    continue;
                const talc_check_outcome o = outcome_of(rank, dims[i], worst[j]);
                draw(&o);
                cr_assert(well_formed(document), "rank %d, share %g", rank, worst[j]);
                assert_holds(worst[j] == 1e30 ? ">1e12<" : "1 = bound", &o);
                assert_holds("n1c1&lt;\"&amp;&gt; <", &o);
                assert_holds(o.passed ? "random, passed" : "3 &lt; 4 &amp; wrong", &o);
                cr_assert(strstr(document, "\"nan") == NULL && strstr(document, "\"inf") == NULL &&
                          strstr(document, "\"-nan") == NULL && strstr(document, ">1e16<") == NULL);
            }
    assert_all_freed();
}

Test(check_svg, the_plane_of_the_worst_element_is_drawn)
{
    const int64_t dims[] = { 2, 3, 4, 5 };
    talc_check_outcome o = outcome_of(4, dims, 0.5);
    for (int i = 0; i < 120; i++)
        shares[i] = i >= 100 ? 0.0F : NAN;
    const int64_t where[] = { 1, 2, 1, 3 };
    memcpy(o.where, where, sizeof where);
    draw(&o);
    assert_holds("y[1, 2, :, :]", &o);
    assert_holds("y[1, 2, 1, 3], tail", &o);
    /* Four rows of five white cells, each one stroke. */
    assert_holds("fill=\"#ffffff\" d=\"M0 0h5v1h-5zM0 1h5v1h-5zM0 2h5v1h-5zM0 3h5v1h-5z\"", &o);
    o.where[1] = 1;
    draw(&o);
    assert_holds("fill=\"#d4d4d4\" d=\"M0 0h5v1h-5z", &o);
    assert_all_freed();
}

Test(check_svg, shares_beyond_the_bound_and_none_have_their_own_colours)
{
    const int64_t dims[] = { 1, 4 };
    talc_check_outcome o = outcome_of(2, dims, INFINITY);
    shares[0] = 0.9F;
    shares[1] = 1.1F;
    shares[2] = NAN;
    draw(&o);
    assert_holds("fill=\"#0b336d\" d=\"M0 0h1v1h-1z\"", &o); /* dark blue */
    assert_holds("d=\"M1 0h1v1h-1z\"", &o);
    cr_assert(strstr(document, "d=\"M0 0h2") == NULL, "within and beyond the bound look alike");
    assert_holds("fill=\"#d4d4d4\" d=\"M2 0h1v1h-1z\"", &o);
    assert_holds("fill=\"#7a0177\" d=\"M3 0h1v1h-1z\"", &o);
    assert_all_freed();
}

/* A long plane is reduced by maximum: the one bad element of many shows. */
Test(check_svg, large_planes_are_reduced_by_maximum)
{
    const int64_t dims[] = { 1, 4000 };
    talc_check_outcome o = outcome_of(2, dims, 0.5);
    for (int i = 0; i < 4000; i++)
        shares[i] = 0;
    shares[2007] = INFINITY;
    draw(&o);
    /* 2007 * 256 / 4000 = 128.4 */
    assert_holds("fill=\"#7a0177\" d=\"M128 0h1v1h-1z\"", &o);
    assert_holds("1 x 4000 elements", &o);
    assert_all_freed();
}

Test(check_svg, the_first_failure_is_kept_else_the_largest_share)
{
    const int64_t dims[] = { 3 };
    check_picture picture = { .kept = false };
    talc_check_outcome o = outcome_of(1, dims, 0.2);
    o.shares = NULL;
    check_picture_observe(&picture, &o);
    cr_assert(!picture.kept, "there is nothing to draw");
    static const struct {
        double share, kept;
    } steps[] = { { 0, 0 },     { 0.2, 0.2 }, { 0.5, 0.5 }, { 0.3, 0.5 },
                  { 1.5, 1.5 }, { 0.9, 1.5 }, { 9, 1.5 },   { INFINITY, 1.5 } };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        o = outcome_of(1, dims, steps[i].share);
        check_picture_observe(&picture, &o);
        cr_assert(picture.outcome.share == steps[i].kept, "step %zu keeps %g", i,
                  picture.outcome.share);
        cr_assert(picture.count == 3 && picture.shares[2] == (float)steps[i].kept);
    }
    check_picture_free(&picture);
    assert_all_freed();
}
