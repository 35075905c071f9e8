// Components of a Model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "inference/model.h"
#include "inference/model_inputs.h"
#include "inference/plan_cache.h"
#include "inference/running_session.h"
#include "runtime/packed_weight_cache.h"

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
  std::shared_ptr<const Plan> plan;  // for the shapes in the text
  std::shared_ptr<const Weights> weights;
  std::unique_ptr<PlanCache> plans;
  mutable PackedWeightCache packed_weights;  // outlives the sessions
  mutable WarmSession warm;

  // Plans the text's shapes and derives all parts except the weights.
  static std::unique_ptr<Parts> Make(const NetFile& net, const ModelCard& card,
                                     const ModelOptions& options, const Registry& registry,
                                     LogSink& log);

  std::shared_ptr<const Plan> MakePlanFor(std::span<const Shape> shapes) const;
  void CheckShapes(std::span<const Shape> shapes) const;
};

}  // namespace crema
