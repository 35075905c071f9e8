// Values as blobs of halves hold them.
#pragma once

#include <vector>

#include "support/half.h"
#include "support/layer_case.h"

namespace crema::test {

// To f16 or bf16.
inline void RoundTo(DType dtype, std::vector<Values>* blobs) {
  for (Values& blob : *blobs) {
    for (double& v : blob) {
      const auto value = static_cast<float>(v);
      v = dtype == DType::kF16 ? static_cast<float>(Half(value)) : float{BFloat16(value)};
    }
  }
}

inline CaseValues RoundedTo(DType dtype, CaseValues values) {
  RoundTo(dtype, &values.inputs);
  RoundTo(dtype, &values.parameters);
  RoundTo(dtype, &values.output_grads);
  return values;
}

}  // namespace crema::test
