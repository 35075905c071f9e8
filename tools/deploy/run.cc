#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <span>

#include "common/json.h"
#include "common/output_file.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "core/strings.h"
#include "deploy/actions.h"
#include "deploy/arrays.h"
#include "deploy/options.h"
#include "format/tensor_files.h"
#include "inference/model_batches.h"

namespace crema::tools {
namespace {

// Like NumPy's min, mean and max: one NaN makes all of them NaN, and so does an empty array.
struct Range {
  double least = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  double most = std::numeric_limits<double>::quiet_NaN();
};

template <typename T>
Range RangeOfType(const ConstTensorView& view) {
  const std::span values(static_cast<const T*>(view.raw()), static_cast<size_t>(view.count()));
  const bool has_nan = std::ranges::any_of(values, [](T value) { return value != value; });
  if (values.empty() || has_nan) return {};
  const auto [least, most] = std::ranges::minmax(values);
  double sum = 0;
  for (const T value : values) sum += static_cast<double>(value);
  return {static_cast<double>(least), sum / static_cast<double>(values.size()),
          static_cast<double>(most)};
}

Range RangeOf(const ConstTensorView& view) {
  if (view.dtype() == DType::kF32) return RangeOfType<float>(view);
  if (view.dtype() == DType::kF64) return RangeOfType<double>(view);
  if (view.dtype() == DType::kU8) return RangeOfType<uint8_t>(view);
  if (view.dtype() == DType::kI32) return RangeOfType<int32_t>(view);
  if (view.dtype() == DType::kI64) return RangeOfType<int64_t>(view);
  return {};
}

void Print(const std::vector<NamedOutput>& outputs) {
  std::string json = "{";
  for (const NamedOutput& output : outputs) {
    const ConstTensorView view = output.value.view();
    const Range range = RangeOf(view);
    if (FLAGS_json) {
      std::vector<std::string> dims;
      for (int64_t dim : view.shape().dims()) dims.push_back(std::to_string(dim));
      json += StrCat(json.size() == 1 ? "" : ", ", JsonString(output.name), ": {\"shape\": [",
                     Join(dims, ", "), "], \"min\": ", JsonNumber(range.least),
                     ", \"mean\": ", JsonNumber(range.mean), ", \"max\": ", JsonNumber(range.most),
                     "}");
    } else {
      std::printf("%s: %s, min %g, mean %g, max %g\n", output.name.c_str(),
                  ToString(view.shape()).c_str(), range.least, range.mean, range.most);
    }
  }
  if (FLAGS_json) std::printf("%s}\n", json.c_str());
}

}  // namespace

int RunNet(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("unexpected argument '", arguments[0],
                "': run takes arrays, --input=x.npy; pictures go to classify, detect or segment"));
  }
  const ModelNames names = ModelOfFlags();
  RequireFlag(HasInputFiles() ? "yes" : "", "input");
  ProtectedFiles(InputFiles()).RefuseToReplace("output", FLAGS_output);
  const Registry registry = LayersOfFlag();
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
