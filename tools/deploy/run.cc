#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>

#include "common/json.h"
#include "common/tool.h"
#include "core/strings.h"
#include "deploy/actions.h"
#include "deploy/arrays.h"
#include "deploy/options.h"
#include "format/tensor_files.h"
#include "serving/model_batches.h"

namespace crema::tools {
namespace {

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0;
};

Range RangeOf(const ConstTensorView& view) {
  Range range;
  const auto add = [&](auto values) {
    for (const auto value : values) {
      range.least = std::min(range.least, double{value});
      range.most = std::max(range.most, double{value});
      range.sum += double{value};
    }
  };
  if (view.dtype() == DType::kF32) add(view.span<float>());
  if (view.dtype() == DType::kF64) add(view.span<double>());
  return range;
}

void Print(const std::vector<NamedOutput>& outputs) {
  std::string json = "{";
  for (const NamedOutput& output : outputs) {
    const ConstTensorView view = output.value.view();
    const Range range = RangeOf(view);
    const double mean = range.sum / static_cast<double>(view.count());
    if (FLAGS_json) {
      std::vector<std::string> extents;
      for (int64_t extent : view.shape().dims()) extents.push_back(std::to_string(extent));
      json += StrCat(json.size() == 1 ? "" : ", ", JsonString(output.name), ": {\"shape\": [",
                     Join(extents, ", "), "], \"min\": ", JsonNumber(range.least),
                     ", \"mean\": ", JsonNumber(mean), ", \"max\": ", JsonNumber(range.most), "}");
    } else {
      std::printf("%s: %s, min %g, mean %g, max %g\n", output.name.c_str(),
                  ToString(view.shape()).c_str(), range.least, mean, range.most);
    }
  }
  if (FLAGS_json) std::printf("%s}\n", json.c_str());
}

}  // namespace

int RunNet(const std::vector<std::string>& arguments) {
  RefusePositional(arguments);
  const ModelNames names = ModelOfFlags();
  RequireFlag(HasInputFiles() ? "yes" : "", "input");
  const Registry registry = BuiltinRegistry();
  const auto model = OpenModel(names, registry, ModelOptionsOfFlags(ThreadsOfFlag()));
  if (!FLAGS_output.empty()) CheckArraysPath(FLAGS_output, model->outputs().size());
  const std::vector<NamedOutput> inputs = InputsOfFlags(*model);
  ModelRunner runner(model);
  const std::vector<NamedOutput> outputs =
      RunOnArrays(*model, &runner, ViewsOf(inputs), IsGiven("batch") ? BatchOfFlag() : 0);
  Print(outputs);
  if (FLAGS_output.empty()) return 0;
  std::vector<NamedArrayView> arrays;
  for (const NamedOutput& output : outputs) arrays.push_back({output.name, output.value.view()});
  WriteArrays(FLAGS_output, arrays);
  return 0;
}

}  // namespace crema::tools
