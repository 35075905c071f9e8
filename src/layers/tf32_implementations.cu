#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "layers/gpu_implementation.h"
#include "layers/tf32_implementations.h"
#include "math/cuda/gemm.h"

namespace crema {
namespace {

Support SupportsTf32(const Implementation& implementation, const OpDesc& query) {
  if (query.precision != TF32) return Support::No("is for precision: TF32");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  return implementation.supports ? implementation.supports(query) : Support{};
}

Implementation InTf32(const Implementation& implementation) {
  Implementation rounding = implementation;
  rounding.name = StrCat(implementation.name, " tf32");
  rounding.supports = [=](const OpDesc& query) { return SupportsTf32(implementation, query); };
  rounding.forward = [=](const Layer& layer, const ForwardArgs& args) {
    const Tf32Scope scope(BoundQueue(args.context));
    implementation.forward(layer, args);
  };
  rounding.backward = [=](const Layer& layer, const BackwardArgs& args) {
    const Tf32Scope scope(BoundQueue(args.context));
    implementation.backward(layer, args);
  };
  return rounding;
}

}  // namespace

void AddTf32Implementations(Registry* registry) {
  for (const std::string& type : registry->Names()) {
    if (!registry->Find(type)->traits.multiplies_matrices) continue;
    std::vector<Implementation> implementations;
    for (const Implementation& implementation : registry->Find(type)->implementations) {
      const bool f32 = RowMajor(implementation.input_format) == MemoryFormat::kPlain &&
                       RowMajor(implementation.output_format) == MemoryFormat::kPlain;
      if (implementation.device == DeviceType::kCuda && f32)
        implementations.push_back(implementation);
    }
    CREMA_CHECK(!implementations.empty());
    std::ranges::reverse(implementations);  // each goes to the front
    for (const Implementation& implementation : implementations)
      registry->AddImplementation(type, InTf32(implementation));
  }
}

}  // namespace crema
