/// EXIF, as far as it says how an image is turned. Private to nn/data.
#ifndef TALC_NN_DATA_EXIF_H
#define TALC_NN_DATA_EXIF_H

#include <stddef.h>
#include <stdint.h>

/// The orientation, 1 .. 8, that a TIFF structure gives its image: what follows "Exif\0\0" in a
/// JPEG file's APP1, and what a PNG's eXIf holds. 1, as it is stored, where it says none or is
/// damaged. Source: CIPA DC-008 (Exif 2.32), 4.5 and 4.6.4; TIFF 6.0, section 2.
int talc_exif_orientation(const uint8_t *bytes, size_t count);

#endif
