/// IDX files: 00 00, the type of the elements, the number of dimensions, each as 32 bits with the
/// high byte first, the elements. Source: Y. LeCun, C. Cortes, C. Burges: The MNIST database of
/// handwritten digits.
#include "nn/data/dataset.h"

#include "nn/data/inflated.h"
#include "tensor/memory.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { MAGIC_BYTES = 4, DIM_BYTES = 4, TYPE_BYTE = 8 };

/* Of a file of images, or of labels. */
typedef struct content {
    const char *name;
    int min_rank, max_rank;
} content;

static const content images_kind = { "images", 3, 4 }, labels_kind = { "labels", 1, 1 };

static talc_status bad(const talc_inflated *in, const char *what)
{
    return talc_fail(TALC_BAD_FORMAT, "%s: '%s' %s", in->who, TALC_SHOWN(in->file.path), what);
}

static talc_status read_magic(talc_inflated *in, const content *kind, int *rank)
{
    uint8_t magic[MAGIC_BYTES];
    if (talc_inflated_read(in, magic, sizeof magic) != TALC_OK)
        return talc_error_status();
    const char *path = in->file.path;
    if (magic[0] != 0 || magic[1] != 0)
        return talc_fail(TALC_BAD_FORMAT,
                         "%s: '%s' begins with %02x%02x%02x%02x, an IDX file with 0000", in->who,
                         TALC_SHOWN(path), magic[0], magic[1], magic[2], magic[3]);
    if (magic[2] != TYPE_BYTE)
        return talc_fail(TALC_BAD_FORMAT,
                         "%s: '%s' holds elements of type 0x%02x, %s are bytes, 0x%02x", in->who,
                         TALC_SHOWN(path), magic[2], kind->name, TYPE_BYTE);
    *rank = magic[3];
    if (*rank >= kind->min_rank && *rank <= kind->max_rank)
        return TALC_OK;
    return talc_fail(TALC_BAD_FORMAT, "%s: '%s' has %d dimensions, %s have %s", in->who,
                     TALC_SHOWN(path), *rank, kind->name, kind->max_rank == 1 ? "1" : "3 or 4");
}

/* Whether the file can hold what its header says, before memory is taken for it. */
static talc_status check_size(const talc_inflated *in, talc_dims dims)
{
    char text[TALC_DIMS_TEXT];
    int64_t bytes = 1;
    for (int i = 0; i < dims.rank; i++)
        if (!talc_multiply(bytes, dims.dim[i], &bytes))
            bytes = INT64_MAX; /* extents past this stay past it: none is 0 */
    const int64_t header = MAGIC_BYTES + DIM_BYTES * dims.rank;
    const int64_t max = talc_inflated_max(in) - header;
    if (bytes > max)
        return talc_fail(TALC_BAD_FORMAT,
                         "%s: '%s' says %s, but after its header come at most %" PRId64 " byte%s",
                         in->who, TALC_SHOWN(in->file.path), talc_dims_text(dims, text), max,
                         TALC_PLURAL(max));
    if (!in->gzip && bytes < max)
        return talc_fail(
            TALC_BAD_FORMAT, "%s: '%s' says %s, but after its header come %" PRId64 " byte%s",
            in->who, TALC_SHOWN(in->file.path), talc_dims_text(dims, text), max, TALC_PLURAL(max));
    return TALC_OK;
}

static talc_status read_header(talc_inflated *in, const content *kind, talc_dims *dims)
{
    int rank;
    if (read_magic(in, kind, &rank) != TALC_OK)
        return talc_error_status();
    *dims = (talc_dims){ .rank = rank };
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        uint8_t b[DIM_BYTES];
        if (talc_inflated_read(in, b, sizeof b) != TALC_OK)
            return talc_error_status();
        dims->dim[i] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
        empty = empty || dims->dim[i] == 0;
    }
    return empty ? bad(in, "is empty") : check_size(in, *dims);
}

static talc_status read_labels(talc_inflated *in, talc_samples *samples)
{
    uint8_t *bytes = talc_memory_new((size_t)samples->count, in->who);
    if (bytes == NULL)
        return talc_error_status();
    const talc_status status = talc_inflated_read(in, bytes, (size_t)samples->count);
    for (int64_t i = 0; i < samples->count; i++)
        samples->labels[i] = bytes[i];
    talc_memory_free(bytes);
    return status;
}

/* Both files stand after nothing yet. */
static talc_samples *read_both(talc_inflated *images, talc_inflated *labels)
{
    talc_dims dims, count;
    if (read_header(images, &images_kind, &dims) != TALC_OK ||
        read_header(labels, &labels_kind, &count) != TALC_OK)
        return NULL;
    if (dims.dim[0] != count.dim[0]) {
        talc_fail(TALC_BAD_FORMAT, "%s: '%s' has %" PRId64 " image%s, '%s' %" PRId64 " label%s",
                  images->who, TALC_SHOWN(images->file.path), dims.dim[0], TALC_PLURAL(dims.dim[0]),
                  TALC_SHOWN(labels->file.path), count.dim[0], TALC_PLURAL(count.dim[0]));
        return NULL;
    }
    const int last = dims.rank - 1;
    talc_samples *samples = talc_samples_new(
        images->who, dims.dim[0],
        TALC_DIMS(last == 3 ? dims.dim[1] : 1, dims.dim[last - 1], dims.dim[last]));
    if (samples == NULL)
        return NULL;
    if (talc_inflated_read(images, samples->pixels,
                           (size_t)(samples->count * samples->image_bytes)) == TALC_OK &&
        talc_inflated_end(images) == TALC_OK && read_labels(labels, samples) == TALC_OK &&
        talc_inflated_end(labels) == TALC_OK)
        return samples;
    talc_samples_release(samples);
    return NULL;
}

static talc_dataset *read_files(const char *who, const char *images, const char *labels)
{
    talc_inflated in, label_in;
    if (talc_inflated_open(&in, who, images) != TALC_OK)
        return NULL;
    talc_samples *samples = NULL;
    if (talc_inflated_open(&label_in, who, labels) == TALC_OK) {
        samples = read_both(&in, &label_in);
        talc_inflated_close(&label_in);
    }
    talc_inflated_close(&in);
    return samples == NULL ? NULL : talc_samples_dataset(who, samples);
}

talc_dataset *talc_dataset_idx(const char *images, const char *labels)
{
    if (talc_operand_missing("dataset_idx", "images", images) ||
        talc_operand_missing("dataset_idx", "labels", labels))
        return NULL;
    return read_files("dataset_idx", images, labels);
}

// ---- Under their usual names --------------------------------------------------------------------

static const char *const MNIST = "dataset_mnist";

/* The path of a file that is there, with a dash before a dot and plain before gzip; NULL with a
 * failure. */
static char *find(const char *directory, const char *part, const char *kind)
{
    static const char *const marks[] = { "-", "." }, *const ends[] = { "", ".gz" };
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s%s%s", part, marks[i / 2], kind, ends[i % 2]);
        char *path = talc_path_in(MNIST, directory, name);
        if (path == NULL || access(path, F_OK) == 0)
            return path;
        talc_memory_free(path);
    }
    talc_fail(TALC_NOT_FOUND, "%s: '%s' has neither %s-%s nor %s.%s, plain or .gz", MNIST,
              TALC_SHOWN(directory), part, kind, part, kind);
    return NULL;
}

talc_dataset *talc_dataset_mnist(const char *directory, bool train)
{
    if (talc_operand_missing(MNIST, "directory", directory))
        return NULL;
    char *images = find(directory, train ? "train-images" : "t10k-images", "idx3-ubyte");
    char *labels = images == NULL
                       ? NULL
                       : find(directory, train ? "train-labels" : "t10k-labels", "idx1-ubyte");
    talc_dataset *dataset = labels == NULL ? NULL : read_files(MNIST, images, labels);
    talc_memory_free(images);
    talc_memory_free(labels);
    return dataset;
}
