#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "layers/gpu_row.h"
#include "layers/tf32_rows.h"
#include "math/cuda/gemm.h"

namespace crema {
namespace {

Support SupportsTf32(const Kernel& row, const KernelQuery& query) {
  if (query.precision != TF32) return Support::No("is for precision: TF32");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  return row.supports ? row.supports(query) : Support{};
}

Kernel InTf32(const Kernel& row) {
  Kernel rounding = row;
  rounding.name = StrCat(row.name, " tf32");
  rounding.supports = [=](const KernelQuery& query) { return SupportsTf32(row, query); };
  rounding.forward = [=](const Layer& layer, const ForwardArgs& args) {
    const Tf32Scope scope(BoundQueue(args.context));
    row.forward(layer, args);
  };
  rounding.backward = [=](const Layer& layer, const BackwardArgs& args) {
    const Tf32Scope scope(BoundQueue(args.context));
    row.backward(layer, args);
  };
  return rounding;
}

}  // namespace

void AddTf32Rows(Registry* registry) {
  for (const std::string& type : registry->Names()) {
    if (!registry->Find(type)->traits.multiplies_matrices) continue;
    std::vector<Kernel> rows;
    for (const Kernel& row : registry->Find(type)->kernels) {
      const bool f32 = RowMajor(row.input_format) == MemoryFormat::kPlain &&
                       RowMajor(row.output_format) == MemoryFormat::kPlain;
      if (row.device == DeviceType::kCuda && f32) rows.push_back(row);
    }
    CREMA_CHECK(!rows.empty());
    std::ranges::reverse(rows);  // each goes to the front
    for (const Kernel& row : rows) registry->AddKernel(type, InTf32(row));
  }
}

}  // namespace crema
