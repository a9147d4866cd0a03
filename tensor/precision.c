#include "tensor/precision.h"

#include "tensor/environment.h"
#include "tensor/storage.h"

static _Thread_local unsigned admitted; /* 0: this thread has not said */

const char *talc_precision_name(talc_precision precision)
{
    switch (precision) {
    case TALC_STRICT:
        return "strict";
    case TALC_NORMWISE:
        return "normwise";
    case TALC_TF32:
        return "tf32";
    }
    return "?";
}

bool talc_operand_precision(const char *who, unsigned classes)
{
    const unsigned known = TALC_STRICT | TALC_NORMWISE | TALC_TF32;
    if ((classes & ~known) == 0)
        return true;
    talc_fail(TALC_BAD_ARGUMENT,
              "%s: precision %#x is not a combination of TALC_STRICT, TALC_NORMWISE and TALC_TF32, "
              "at most %#x",
              who, classes, known);
    return false;
}

unsigned talc_precision_admitted(void)
{
    return TALC_STRICT | (admitted != 0 ? admitted : talc_environment()->precision);
}

bool talc_precision_admit(unsigned classes)
{
    if (talc_failed())
        return false;
    if (!talc_operand_precision("precision_admit", classes))
        return false;
    admitted = TALC_STRICT | classes;
    return true;
}
