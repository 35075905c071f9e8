// Models to export, for tests: nets as text, and the samples of all layer types.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/registry.h"
#include "inference/model.h"
#include "onnx/export.h"

namespace crema::test {

// A net of one layer and its inputs.
struct SampleNet {
  std::string name;  // "Pooling-max"
  std::string text;
  const LayerSample* sample = nullptr;
};

// The samples of all types of TestRegistry, except data layers and samples with empty blobs.
std::vector<SampleNet> SampleNets();

// Returns a model with weights of fillers, which lives as long as the test.
std::shared_ptr<const Model> ModelWithCard(const std::string& text, const ModelCard& card = {});

// Returns null if inference does not take the net (training nets, Python).
std::shared_ptr<const Model> ModelOfSample(const SampleNet& sample);

// Returns a model whose matrices and filters, which deploy nets fill with 0, are drawn, so that
// every layer counts: few enough to leave numbers in range. Variances and factors of running
// statistics are 1.
std::shared_ptr<const Model> ModelWithWeights(const NetFile& net);

// Returns the blobs `names`, by default all outputs.
std::vector<Tensor> OutputsFor(const std::shared_ptr<const Model>& model,
                               const std::vector<Tensor>& inputs,
                               std::vector<std::string> names = {});

OnnxExport ExportOf(const std::string& text, const OnnxExportOptions& options = {});

// Draws the inputs of a sample, in the order of the model's inputs.
std::vector<Tensor> InputsOf(const Model& model, const LayerSample* sample, uint64_t seed);

}  // namespace crema::test
