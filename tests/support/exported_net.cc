#include "support/exported_net.h"

#include "core/rng.h"
#include "core/strings.h"
#include "support/net.h"

namespace crema::test {

std::vector<SampleNet> SampleNets() {
  std::vector<SampleNet> nets;
  for (const std::string& name : TestRegistry().Names()) {
    const LayerType& type = *TestRegistry().Find(name);
    if (!type.alias_of.empty() || (type.category == "input" && name != "PixelsToFloat")) continue;
    for (const LayerSample& sample : type.samples) {
      std::string text, bottoms, tops;
      bool is_empty = false;
      for (size_t i = 0; i < sample.inputs.size(); ++i) {
        std::string dims;
        for (const int64_t dim : sample.inputs[i].shape) {
          dims += StrCat(" dim: ", dim);
          is_empty = is_empty || dim == 0;
        }
        text += StrCat("layer { name: 'in", i, "' type: 'Input' top: 'in", i,
                       "' input_param { shape {", dims, " } } }\n");
        bottoms += StrCat(" bottom: 'in", i, "'");
      }
      for (int o = 0; o < sample.outputs; ++o) tops += StrCat(" top: 'out", o, "'");
      text += StrCat("layer { name: 'layer' type: '", name, "'", bottoms, tops, " ",
                     sample.prototxt, " }\n");
      if (!is_empty) nets.push_back({StrCat(name, "-", sample.name), text, &sample});
    }
  }
  return nets;
}

std::shared_ptr<const Model> ModelOf(const std::string& text, const ModelCard& card) {
  return Model::Make(ParseNet(text, "net.prototxt"), {}, card, {}, TestRegistry(), NullSink());
}

std::shared_ptr<const Model> ModelOfSample(const SampleNet& sample) {
  try {
    return ModelOf(sample.text);
  } catch (const Error&) {
    return nullptr;
  }
}

OnnxExport ExportOf(const std::string& text, const OnnxExportOptions& options) {
  static std::vector<std::shared_ptr<const Model>> models;  // exports refer to their weights
  models.push_back(ModelOf(text));
  return ToOnnx(*models.back(), options);
}

std::vector<Tensor> InputsOf(const Model& model, const LayerSample* sample, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < model.inputs().size(); ++i) {
    std::vector<int64_t> dims = model.inputs()[i].shape;
    SampleInput from{.shape = {}, .low = 0, .high = 1};
    if (sample != nullptr) {
      from = sample->inputs[i];
      dims = from.shape;
    }
    if (!dims.empty() && dims[0] < 0) dims[0] = 2;
    Tensor& tensor = inputs.emplace_back(Shape(std::span<const int64_t>(dims)), DType::kF32);
    const RandomStream stream(seed, i, 0);
    const std::span<float> values = tensor.view().span<float>();
    for (size_t v = 0; v < values.size(); ++v) {
      const double part = stream.Uniform(v);
      double value = from.low + (from.high - from.low) * part;
      if (from.integer) {
        value = from.low + stream.Below(v, static_cast<uint32_t>(from.high - from.low) + 1);
      }
      values[v] = static_cast<float>(value);
    }
  }
  return inputs;
}

}  // namespace crema::test
