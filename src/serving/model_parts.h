// What a Model is made of.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serving/model.h"
#include "serving/model_inputs.h"
#include "serving/plan_cache.h"
#include "serving/running_session.h"

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
  mutable KeptPool kept;  // goes behind the sessions
  mutable WarmSession warm;

  // The plan for the text as it is, and what follows from it; all but the weights.
  static std::unique_ptr<Parts> Make(const NetFile& net, const ModelCard& card,
                                     const ModelOptions& options, const Registry& registry,
                                     LogSink& log);

  std::shared_ptr<const Plan> MakePlanFor(std::span<const Shape> shapes) const;
  void CheckExtents(std::span<const Shape> shapes) const;
};

}  // namespace crema
