#include "graph/precision.h"

#include <utility>
#include <vector>

#include "core/bfloat16.h"
#include "core/strings.h"

namespace crema {
namespace {

Problem Refused(Precision precision, Where where) {
  where.field = "precision";
  return {.code = ErrorCode::kInvalidArgument,
          .where = std::move(where),
          .message = StrCat("precision ", Precision_Name(precision),
                            " is for a GPU; on the CPU there are FP32 and BF16")};
}

bool IsOfGpu(Precision precision) { return precision == TF32 || precision == FP16; }

}  // namespace

Precision PrecisionOf(const Layer& layer, const PlanOptions& options) {
  return layer.param().has_precision() ? layer.param().precision() : options.precision;
}

Support StoresBFloat16(const KernelQuery& query) {
  if (query.precision != BF16) return Support::No("is for precision: BF16");
  if (!HasBFloat16()) return Support::No("needs a processor with AVX512-BF16");
  return {};
}

void CheckPrecisions(const Graph& graph, const NetParameter& net, const PlanOptions& options) {
  if (options.device.type != DeviceType::kCpu) return;
  std::vector<Problem> problems;
  if (IsOfGpu(net.precision())) {
    problems.push_back(Refused(net.precision(), graph.source.Locate("precision")));
  } else if (IsOfGpu(options.precision)) {
    problems.push_back(Refused(options.precision, {}));
  }
  for (const Node& node : graph.nodes) {
    const Precision precision = node.layer->param().precision();
    if (IsOfGpu(precision)) problems.push_back(Refused(precision, graph.Locate(node, "precision")));
  }
  if (!problems.empty()) throw Error(std::move(problems));
}

}  // namespace crema
