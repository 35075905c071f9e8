#include "compare/runner_inputs.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "core/json.h"
#include "core/rng.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema::compare {

RunnerInputs::RunnerInputs(const Plan& plan, const std::map<std::string, Shape>& integers) {
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name != "Input") continue;
    for (int v : layer.outputs) {
      const PlannedValue& value = plan.values[static_cast<size_t>(v)];
      Input input{.name = value.name, .shape = value.spec.shape, .integer = false, .values = {}};
      const RandomStream stream(1, HashName(input.name));
      const auto bound = integers.find(input.name);
      input.integer = bound != integers.end();
      input.values.resize(static_cast<size_t>(input.shape.count()));
      for (size_t i = 0; i < input.values.size(); ++i) {
        input.values[i] = static_cast<float>(
            input.integer ? stream.Below(i, static_cast<uint32_t>(bound->second[0]))
                          : stream.Gaussian(i));
      }
      inputs_.push_back(std::move(input));
    }
  }
}

void RunnerInputs::CopyTo(Session* session) const {
  for (const Input& input : inputs_) {
    std::ranges::copy(input.values, session->MutableData(input.name).span<float>().begin());
  }
}

std::string RunnerInputs::Write(const std::string& folder) const {
  std::vector<std::string> items;
  for (const Input& input : inputs_) {
    const std::string file = StrCat("input", items.size(), ".f32");
    WriteFloats(StrCat(folder, "/", file), input.values);
    items.push_back(DescribeBlob(input.name, input.shape, file, input.integer));
  }
  return StrCat("[", Join(items, ", "), "]");
}

std::string DescribeBlob(const std::string& name, const Shape& shape, const std::string& file,
                         bool integer) {
  std::vector<std::string> sizes;
  for (int64_t dim : shape.dims()) sizes.push_back(std::to_string(dim));
  return StrCat("{\"name\": ", JsonString(name), ", \"shape\": [", Join(sizes, ", "),
                "], \"file\": ", JsonString(file), ", \"integer\": ", integer ? "true" : "false",
                "}");
}

void WriteFloats(const std::string& path, std::span<const float> values) {
  WriteFileAtomically(path, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

}  // namespace crema::compare
