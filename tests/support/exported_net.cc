#include "support/exported_net.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "core/strings.h"
#include "inference/model_parts.h"
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

std::shared_ptr<const Model> ModelWithCard(const std::string& text, const ModelCard& card) {
  return Model::Make(ParseNet(text, "net.prototxt"), {}, card, {}, TestRegistry(), NullSink());
}

std::shared_ptr<const Model> ModelOfSample(const SampleNet& sample) {
  try {
    return ModelWithCard(sample.text);
  } catch (const Error&) {
    return nullptr;
  }
}

std::shared_ptr<const Model> ModelWithWeights(const NetFile& net) {
  const auto model = Model::Make(net, {}, {}, {}, TestRegistry(), NullSink());
  const Plan& plan = *model->parts().plan;
  const std::shared_ptr<Weights> weights = Weights::Make(plan, 1);
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    const std::span<float> values = weights->blob(s).span<float>();
    if (slot.statistic && !slot.role.starts_with("mean")) std::ranges::fill(values, 1.0F);
    if (slot.shape.axes() < 2 || slot.owner != static_cast<int>(s)) continue;
    const RandomStream stream(1, s);
    const double spread = 1 / std::sqrt(static_cast<double>(slot.shape.count(1)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(spread * stream.Gaussian(i));
    }
  }
  return Model::MakeSharing(model->parts().net, *weights, {}, {}, TestRegistry(), NullSink());
}

std::vector<Tensor> OutputsFor(const std::shared_ptr<const Model>& model,
                               const std::vector<Tensor>& inputs, std::vector<std::string> names) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < inputs.size(); ++i) {
    named.push_back({model->inputs()[i].name, inputs[i].view()});
  }
  ModelRunner runner(model);
  runner.Run(named);
  if (names.empty()) {
    for (const BlobInfo& output : model->outputs()) names.push_back(output.name);
  }
  std::vector<Tensor> outputs;
  for (const std::string& name : names) {
    const ConstTensorView value = runner.Output(name);
    Tensor& copy = outputs.emplace_back(value.shape(), value.dtype());
    std::copy_n(static_cast<const char*>(value.raw()), value.bytes(),
                static_cast<char*>(copy.view().raw()));
  }
  return outputs;
}

OnnxExport ExportOf(const std::string& text, const OnnxExportOptions& options) {
  static std::vector<std::shared_ptr<const Model>> models;  // exports refer to their weights
  models.push_back(ModelWithCard(text));
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
