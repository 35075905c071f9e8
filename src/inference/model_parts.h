// What a Model is made of.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "inference/model.h"
#include "inference/model_inputs.h"
#include "inference/plan_cache.h"
#include "inference/running_session.h"

namespace crema {

struct Model::Parts {
  NetFile net;
  NetState state;
  ModelCard card;
  ModelOptions options;
  const Registry* registry = nullptr;
  std::vector<InputBlob> input_blobs;
  std::vector<BlobInfo> inputs;
  std::vector<BlobInfo> outputs;
  bool batches = false;
  std::shared_ptr<const Plan> plan;  // of the extents in the text
  std::shared_ptr<const Weights> weights;
  std::unique_ptr<PlanCache> plans;
  mutable PackedWeightCache packed_weights;  // goes behind the sessions
  mutable WarmSession warm;

  // The plan for the text as it is, and what follows from it; all but the weights.
  static std::unique_ptr<Parts> Make(const NetFile& net, const ModelCard& card,
                                     const ModelOptions& options, const Registry& registry,
                                     LogSink& log);

  std::shared_ptr<const Plan> MakePlanFor(std::span<const Shape> shapes) const;
  void CheckShapes(std::span<const Shape> shapes) const;
};

}  // namespace crema
