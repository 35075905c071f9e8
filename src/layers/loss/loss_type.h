// Registration of losses: facts and texts that their types share.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/registry.h"

namespace crema {

// Message of CheckEqualItems.
constexpr const char* kUnequalItems = "same batch size and the same number of values";
constexpr const char* kLabelErrors =
    "Labels that are not whole numbers, or outside the classes, are an error that names the item.";

// Returns a type with two inputs and a scalar output that counts in the total loss.
template <typename Loss>
LayerType LossType(const char* name) {
  LayerType type;
  type.name = name;
  type.category = "loss";
  type.output_docs = {"loss: scalar"};
  type.inputs = {2, 2};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& param) { return std::make_unique<const Loss>(param); };
  return type;
}

// Returns a LossType with the probabilities as a second output. `param_field` names the message of
// the layer, which it reads besides loss_param.
template <typename Loss>
LayerType SoftmaxLossType(const char* name, const char* param_field) {
  LayerType type = LossType<Loss>(name);
  type.output_docs.emplace_back("probabilities: softmax of the scores, in their shape; optional");
  type.param_fields = {param_field, "loss_param"};
  type.outputs = {1, 2};
  return type;
}

// Returns the fields of loss_param that SoftmaxWithLoss alone reads.
inline std::vector<std::string> FieldsOfSoftmaxWithLoss() {
  return {"loss_param.class_weight", "loss_param.class_weighting",
          "loss_param.class_weighting_mode", "loss_param.weight_by_label_freqs",
          "loss_param.label_smoothing"};
}

// Returns an input of whole numbers low..high.
inline SampleInput Labels(std::vector<int64_t> shape, double high, double low = 0) {
  return {.shape = std::move(shape), .low = low, .high = high, .integer = true};
}

}  // namespace crema
