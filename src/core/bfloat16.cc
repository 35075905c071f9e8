#include "core/bfloat16.h"

#include "core/processor.h"

namespace crema {

bool HasBFloat16() { return Processor().avx512_bf16; }

}  // namespace crema
