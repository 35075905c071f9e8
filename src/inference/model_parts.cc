#include "inference/model_parts.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "crema.pb.h"
#include "graph/graph.h"

namespace crema {
namespace {

// Gives each top its own shape; in the text, one may serve all.
InputParameter* OneShapeEach(LayerParameter* layer) {
  InputParameter* param = layer->mutable_input_param();
  while (param->shape_size() < layer->top_size()) {
    const BlobShape first = param->shape(0);
    *param->add_shape() = first;
  }
  return param;
}

}  // namespace

std::vector<InputBlob> FindInputs(const NetParameter& net, const NetState& state) {
  std::vector<InputBlob> inputs;
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
    if (layer.type() != "Input" || !IsIncluded(layer, state)) continue;
    for (int t = 0; t < layer.top_size(); ++t) inputs.push_back({layer.top(t), i, t});
  }
  return inputs;
}

void SetInputShapes(std::span<const InputBlob> inputs, std::span<const Shape> shapes,
                    NetParameter* net) {
  CREMA_CHECK(inputs.size() == shapes.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputParameter* param = OneShapeEach(net->mutable_layer(inputs[i].layer));
    BlobShape* shape = param->mutable_shape(inputs[i].top);
    shape->clear_dim();
    for (const int64_t dim : shapes[i].dims()) shape->add_dim(dim);
  }
}

PlanCache::PlanCache(size_t most, Make make)
    : most_(std::max<size_t>(most, 1)), make_(std::move(make)) {}

std::shared_ptr<const Plan> PlanCache::Find(std::span<const Shape> inputs) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return std::ranges::equal(entry.inputs, inputs); });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().plan;
}

std::shared_ptr<const Plan> PlanCache::Get(std::span<const Shape> inputs) {
  if (auto plan = Find(inputs)) return plan;
  const std::lock_guard making(making_);
  if (auto plan = Find(inputs)) return plan;  // another thread was faster
  std::shared_ptr<const Plan> plan = make_(inputs);
  const std::lock_guard lock(mutex_);
  entries_.push_front({{inputs.begin(), inputs.end()}, plan});
  if (entries_.size() > most_) entries_.pop_back();
  return plan;
}

}  // namespace crema
