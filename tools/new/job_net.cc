#include "new/job_net.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "new/data_layers.h"
#include "new/net_classes.h"

namespace crema::tools {
namespace {

std::vector<LayerParameter> DataLayersOf(const Job& job) {
  if (job.task() == PictureTask::kDetect) return DetectData(job);
  return job.task() == PictureTask::kSegment ? SegmentData(job) : ClassifyData(job);
}

// Sizes of boxes are in pixels of the input.
void ScaleBoxes(const Job& job, NetParameter* net) {
  if (job.height == job.model.height && job.width == job.model.width) return;
  const double pixels = static_cast<double>(job.height) * job.width;
  const double factor = std::sqrt(pixels / (job.model.height * job.model.width));
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "PriorBox") continue;
    PriorBoxParameter* boxes = layer.mutable_prior_box_param();
    for (float& size : *boxes->mutable_min_size()) size = static_cast<float>(size * factor);
    for (float& size : *boxes->mutable_max_size()) size = static_cast<float>(size * factor);
    boxes->clear_step();  // then it is computed from the sizes of input and map
    boxes->clear_step_h();
    boxes->clear_step_w();
  }
}

// The last pooling of a classifier covers the whole map, which has another size in other inputs.
void PoolWholeMaps(const Job& job, NetParameter* net) {
  if (job.height == job.model.height && job.width == job.model.width) return;
  constexpr uint32_t kWholeMap = 6;  // from this kernel on
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "Pooling") continue;
    PoolingParameter* pooling = layer.mutable_pooling_param();
    const bool whole = pooling->pool() == PoolingParameter::AVE && pooling->stride() == 1 &&
                       pooling->kernel_size() >= kWholeMap;
    if (!whole) continue;
    pooling->clear_kernel_size();
    pooling->clear_stride();
    pooling->set_global_pooling(true);
  }
}

// The default average of BatchNorm spans a thousand steps, which may be all that a job has.
void ShortenAverages(NetParameter* net) {
  constexpr float kFraction = 0.98F;
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "BatchNorm") continue;
    layer.mutable_batch_norm_param()->set_moving_average_fraction(kFraction);
  }
}

// The median of those above 0; 0: there is none.
double MedianShare(std::vector<double> shares) {
  std::erase(shares, 0);
  if (shares.empty()) return 0;
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::ranges::nth_element(shares, middle);
  return *middle;
}

// Rare classes count more, by the inverse square root of their share of the pixels, or a net that
// sees mostly background would learn nothing else.
void WeightClasses(const PictureSet& train, NetParameter* net) {
  const double median = MedianShare(train.shares);
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "SoftmaxWithLoss") continue;
    for (const double share : train.shares) {
      constexpr double kMost = 10;
      const double weight = share > 0 ? std::sqrt(median / share) : 1;
      layer.mutable_loss_param()->add_class_weight(
          static_cast<float>(std::round(std::clamp(weight, 1 / kMost, kMost) * 100) / 100));
    }
  }
}

}  // namespace

NetParameter MakeJobNet(const Job& job) {
  NetParameter net = job.model.net;
  net.clear_layer();
  for (const LayerParameter& layer : job.model.net.layer()) {
    if (layer.bottom_size() > 0) *net.add_layer() = layer;
  }
  const std::vector<std::string> heads = SetClasses(job.outputs(), &net);
  if (!job.weights.empty()) RenameUnlikeWeights(heads, job.weights, &net);
  ScaleBoxes(job, &net);
  PoolWholeMaps(job, &net);
  ShortenAverages(&net);
  if (job.task() == PictureTask::kSegment) WeightClasses(job.train, &net);
  const NetParameter rest = net;
  net.clear_layer();
  for (const LayerParameter& layer : DataLayersOf(job)) *net.add_layer() = layer;
  net.mutable_layer()->MergeFrom(rest.layer());
  return net;
}

}  // namespace crema::tools
