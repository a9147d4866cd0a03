/// A file written by the reference implementation, safetensors 0.8 for Python: a scalar whose name
/// has quotes, an accent and a newline, and a matrix.
#ifndef TALC_TESTS_SUPPORT_SAFETENSORS_REFERENCE_H
#define TALC_TESTS_SUPPORT_SAFETENSORS_REFERENCE_H

static const char REFERENCE[] =
    "\250\000\000\000\000\000\000\000{\"__metadata__\":{\"format\":\"pt\"},\"bias \\\"q\\\" "
    "\303\251\\n\":{\"dtype\":"
    "\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"layer.weight\":{\"dtype\":\"F32\",\"shape\":[2,"
    "3],"
    "\"data_offsets\":[4,28]}}   "
    "\000\000\340@\000\000\300?\000\000\000\300\000\000@@\000\000\200@\000\000\240@"
    "\000\000\200\177";

#endif
