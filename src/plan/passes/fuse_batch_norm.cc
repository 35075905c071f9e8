#include "plan/passes/fuse_batch_norm.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "plan/layer_query.h"
#include "plan/plan_readers.h"

namespace crema {
namespace {

class NormFuser {
 public:
  explicit NormFuser(Plan* plan) : plan_(*plan), readers_(*plan) {}

  void Run() {
    const auto layers = static_cast<int>(plan_.layers.size());
    for (int n = 0; n < layers; ++n) FuseSums(n);
    for (int n = 0; n < layers; ++n) FuseFactors(n);
  }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }
  PlannedLayer& LayerOf(int n) { return plan_.layers[Index(n)]; }

  // Returns layer n if it could take part in a norm fusion.
  PlannedLayer* Candidate(int n, NormRole role) {
    if (n < 0) return nullptr;
    PlannedLayer& layer = LayerOf(n);
    const bool can = layer.implementation != nullptr && layer.implementation->norm_role == role &&
                     layer.fusion.leader < 0;
    return can && layer.backward && !layer.recompute ? &layer : nullptr;
  }

  // Lets convolution n compute the sums for a BatchNorm after it.
  void FuseSums(int n) {
    PlannedLayer* convolution = Candidate(n, NormRole::kConvolution);
    if (convolution == nullptr || convolution->outputs.size() != 1) return;
    const int v = convolution->outputs[0];
    PlannedLayer* norm = Candidate(readers_.SoleConsumer(v), NormRole::kNorm);
    if (norm == nullptr || norm->inputs[0] != v) return;
    if (!Agree(norm, &NormFusion::consumes_sums, convolution, &NormFusion::emits_sums)) return;
    const int sums = AddValue(n, v, "_sums", kSumsRows, false);
    convolution->outputs.push_back(sums);
    norm->inputs.push_back(sums);
    norm->to_input.push_back(false);
    UpdateRequirements(plan_, convolution);
    UpdateRequirements(plan_, norm);
  }

  // Lets the convolution after BatchNorm n and its fused layers normalise its input.
  void FuseFactors(int n) {
    PlannedLayer* norm = Candidate(n, NormRole::kNorm);
    if (norm == nullptr || norm->outputs.size() != 1 || !norm->to_input[0]) return;
    const std::vector<int>& followers = norm->fusion.followers;
    const int last = followers.empty() ? n : followers.back();
    const int v = LayerOf(last).outputs[0];
    PlannedLayer* convolution = Candidate(readers_.SoleConsumer(v), NormRole::kConvolution);
    if (convolution == nullptr || convolution->OwnInputs() != 1) return;
    if (!Agree(norm, &NormFusion::emits_factors, convolution, &NormFusion::consumes_factors))
      return;
    const int factors = AddValue(n, v, "_factors", kFactorsRows, true);
    norm->outputs.push_back(factors);
    convolution->inputs.push_back(factors);
    convolution->to_input.push_back(true);
    UpdateRequirements(plan_, norm);
    UpdateRequirements(plan_, convolution);
    convolution->info.backward_reads_input.resize(convolution->inputs.size());
    convolution->info.backward_reads_input.back() = true;
  }

  // Marks both layers if the implementations of both accept the fusion.
  bool Agree(PlannedLayer* norm, bool NormFusion::*norm_does, PlannedLayer* convolution,
             bool NormFusion::*convolution_does) const {
    if (!Ask(norm, norm_does) || !Ask(convolution, convolution_does)) return false;
    norm->fusion.norm.*norm_does = true;
    convolution->fusion.norm.*convolution_does = true;
    return true;
  }

  // Returns true if its implementation accepts the fusion; records the reason if not.
  bool Ask(PlannedLayer* layer, bool NormFusion::*does) const {
    const Support support = WithQuery(plan_, *layer, 0, [&](const OpDesc& query) {
      OpDesc more = query;
      more.norm_fusion.*does = true;
      return layer->implementation->Accepts(more);
    });
    if (support.yes) return true;
    const bool sums = does == &NormFusion::emits_sums || does == &NormFusion::consumes_sums;
    layer->skipped.push_back(
        {StrCat(layer->implementation->name, sums ? " emitting sums" : " normalising"),
         support.reason});
    return false;
  }

  // Adds an f32 value for the channels of value v, with producer n.
  int AddValue(int n, int v, const char* suffix, int64_t rows, bool has_gradient) {
    const PlannedValue& of = plan_.values[Index(v)];
    PlannedValue value;
    value.name = of.name + suffix;
    while (plan_.FindValue(value.name) >= 0) value.name += '_';
    value.spec = {Shape{rows, of.spec.shape[1]}, DType::kF32};
    value.producer = n;
    value.has_gradient = has_gradient;
    plan_.values.push_back(std::move(value));
    return static_cast<int>(plan_.values.size()) - 1;
  }

  Plan& plan_;
  const PlanReaders readers_;
};

}  // namespace

void FuseBatchNorm(Plan* plan) {
  if (!plan->options.passes.fuse_batch_norm || !plan->options.backward) return;
  NormFuser(plan).Run();
}

}  // namespace crema
