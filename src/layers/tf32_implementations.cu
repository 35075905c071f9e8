#include <memory>
#include <string>

#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/gpu_implementations.h"
#include "math/cuda/gemm.h"

namespace crema {
namespace {

Support SupportsTf32(const OpDesc& query) {
  if (query.precision != TF32) return Support::No("is for precision: TF32");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  return {};
}

class Tf32Implementation final : public ImplementationAdapter {
 public:
  explicit Tf32Implementation(const ImplementationPtr& own)
      : ImplementationAdapter(FactsOf(*own), own, {SupportsTf32}) {}
  void Forward(const Layer& layer, const ForwardArgs& args) const override {
    const Tf32Scope scope(BoundQueue(args.context));
    own().Forward(layer, args);
  }
  void Backward(const Layer& layer, const BackwardArgs& args) const override {
    const Tf32Scope scope(BoundQueue(args.context));
    own().Backward(layer, args);
  }

 private:
  static ImplementationFacts FactsOf(ImplementationFacts facts) {
    facts.name += " tf32";
    return facts;
  }
};

}  // namespace

void AddTf32Implementations(Registry* registry) {
  for (const std::string& type : registry->Names()) {
    if (!registry->Find(type)->traits.multiplies_matrices) continue;
    AddVariants(type, *registry, [&](const ImplementationPtr& own) {
      registry->AddImplementation(type, std::make_shared<Tf32Implementation>(own));
    });
  }
}

}  // namespace crema
