// Conversion of blobs of any memory format of the CPU to plain floats.
#pragma once

#include "core/memory_format.h"
#include "core/shape.h"
#include "math/int8_copy.h"

namespace crema {

// x: a blob of floats, bfloat16 or bytes in this format (core/memory_format.h), of four axes unless
// it is plain. y: row-major. `scale` is that of bytes. Thread safety: any.
void StoredToPlain(int threads, const Shape& shape, MemoryFormat format, const void* x,
                   Int8Scale scale, float* y);

}  // namespace crema
