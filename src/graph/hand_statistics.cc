#include "graph/hand_statistics.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "graph/layer_query.h"
#include "graph/plan_readers.h"

namespace crema {
namespace {

using Asked = std::function<Support(const KernelQuery&)> Kernel::*;

class Hander {
 public:
  explicit Hander(Plan* plan) : plan_(*plan), readers_(*plan) {}

  void Run() {
    const auto layers = static_cast<int>(plan_.layers.size());
    for (int n = 0; n < layers; ++n) HandSums(n);
    for (int n = 0; n < layers; ++n) HandFactors(n);
    BookTotals(&plan_);
  }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }
  PlannedLayer& LayerOf(int n) { return plan_.layers[Index(n)]; }

  // Layer n, if it could hand something to another one or take it.
  PlannedLayer* Candidate(int n, Asked row) {
    if (n < 0) return nullptr;
    PlannedLayer& layer = LayerOf(n);
    const bool runs = layer.kernel != nullptr && layer.kernel->*row && layer.absorbed_by < 0;
    return runs && layer.backward && !layer.recompute ? &layer : nullptr;
  }

  void HandSums(int n) {
    PlannedLayer* convolution = Candidate(n, &Kernel::helps_norm);
    if (convolution == nullptr || convolution->outputs.size() != 1) return;
    const int v = convolution->outputs[0];
    PlannedLayer* norm = Candidate(readers_.OnlyReader(v), &Kernel::hands_as_norm);
    if (norm == nullptr || norm->inputs[0] != v) return;
    if (!Agree(norm, &Handed::takes_sums, convolution, &Handed::gives_sums)) return;
    const int sums = AddValue(n, v, "_sums", kSumsRows, false);
    convolution->outputs.push_back(sums);
    norm->inputs.push_back(sums);
    norm->to_input.push_back(false);
    BookAgain(plan_, convolution);
    BookAgain(plan_, norm);
  }

  void HandFactors(int n) {
    PlannedLayer* norm = Candidate(n, &Kernel::hands_as_norm);
    if (norm == nullptr || norm->outputs.size() != 1 || !norm->to_input[0]) return;
    const int last = norm->absorbs.empty() ? n : norm->absorbs.back();
    const int v = LayerOf(last).outputs[0];
    PlannedLayer* convolution = Candidate(readers_.OnlyReader(v), &Kernel::helps_norm);
    if (convolution == nullptr || convolution->OwnInputs() != 1) return;
    if (!Agree(norm, &Handed::gives_factors, convolution, &Handed::takes_factors)) return;
    const int factors = AddValue(n, v, "_factors", kFactorsRows, true);
    norm->outputs.push_back(factors);
    convolution->inputs.push_back(factors);
    convolution->to_input.push_back(true);
    BookAgain(plan_, norm);
    BookAgain(plan_, convolution);
    convolution->info.backward_reads_input.resize(convolution->inputs.size());
    convolution->info.backward_reads_input.back() = true;
  }

  bool Agree(PlannedLayer* norm, bool Handed::*norm_does, PlannedLayer* convolution,
             bool Handed::*convolution_does) const {
    if (!Ask(norm, &Kernel::hands_as_norm, norm_does) ||
        !Ask(convolution, &Kernel::helps_norm, convolution_does)) {
      return false;
    }
    norm->handed.*norm_does = true;
    convolution->handed.*convolution_does = true;
    return true;
  }

  // Whether its row does that too; keeps why not.
  bool Ask(PlannedLayer* layer, Asked row, bool Handed::*does) const {
    const Support support = WithQuery(plan_, *layer, 0, [&](const KernelQuery& query) {
      KernelQuery more = query;
      more.handed.*does = true;
      return (layer->kernel->*row)(more);
    });
    if (support.yes) return true;
    const bool sums = does == &Handed::gives_sums || does == &Handed::takes_sums;
    layer->skipped.push_back(
        {StrCat(layer->kernel->name, sums ? " handing sums" : " normalising"), support.reason});
    return false;
  }

  // f32, of the channels of value v; made by layer n.
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

void HandStatistics(Plan* plan) {
  if (!plan->options.passes.hand_statistics || !plan->options.backward) return;
  Hander(plan).Run();
}

}  // namespace crema
