/// Planes of bytes in other sizes, for talc_image_load too. Private to nn/data.
#ifndef TALC_NN_DATA_IMAGE_RESIZE_H
#define TALC_NN_DATA_IMAGE_RESIZE_H

#include "nn/data/image.h"

/// The size that an image of `from` gets where `asked` is asked for, checked, each step from it
/// having at most `max` pixels. False with a failure, whose message begins with `who`.
bool talc_image_resized_size(const char *who, talc_image_size from, talc_image_size asked,
                             int64_t max, talc_image_size *size);
bool talc_image_cropped_size(const char *who, talc_image_size asked, int64_t max,
                             talc_image_size *size);

/// False, with a failure raised, unless there is such a filter.
bool talc_image_filter_is_known(const char *who, talc_image_filter filter);

/// [planes,from] as [planes,to], sizes that were checked. Errors: no memory.
talc_status talc_image_resample(const char *who, const uint8_t *source, int64_t planes,
                                talc_image_size from, talc_image_filter filter, uint8_t *target,
                                talc_image_size to);

typedef struct talc_image_part {
    int64_t top, left;
    talc_image_size size;
} talc_image_part;

/// The same of a part that lies inside [planes,whole].
talc_status talc_image_resample_part(const char *who, const uint8_t *source, int64_t planes,
                                     talc_image_size whole, talc_image_part part,
                                     talc_image_filter filter, uint8_t *target, talc_image_size to);

/// The middle of [planes,from] as [planes,to], zeros where there is nothing.
void talc_image_cut(const uint8_t *source, int64_t planes, talc_image_size from, uint8_t *target,
                    talc_image_size to);

#endif
