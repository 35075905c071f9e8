#include "support/layer_fixture.h"

#include <stdexcept>

namespace crema::test {

RunResult CallLayer(const LayerType& type, const LayerCall& call) {
  LayerSample sample{.name = "call", .prototxt = call.prototxt, .inputs = {}};
  sample.outputs = call.outputs;
  sample.phase = call.phase;
  CaseValues values;
  for (const Blob& input : call.inputs) {
    sample.inputs.push_back({.shape = input.shape});
    values.inputs.push_back(input.values);
  }
  values.parameters = call.parameters;
  values.output_grads = call.output_grads;
  const LayerCase layer_case(type, sample, call.dtype);
  if (call.parameters.size() != layer_case.info().parameters.size()) {
    throw std::logic_error("the call does not give the parameter blobs of the layer");
  }
  RunResult result = RunLayer(layer_case, values, {.backward = !call.output_grads.empty()});
  if (!result.failures.empty()) throw std::logic_error(result.failures.front());
  return result;
}

}  // namespace crema::test
