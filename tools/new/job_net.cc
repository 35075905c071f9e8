#include "new/job_net.h"

#include <cmath>
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

// The default average of BatchNorm spans a thousand steps, which may be all that a job has.
void ShortenAverages(NetParameter* net) {
  constexpr float kFraction = 0.98F;
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "BatchNorm") continue;
    layer.mutable_batch_norm_param()->set_moving_average_fraction(kFraction);
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
  ShortenAverages(&net);
  const NetParameter rest = net;
  net.clear_layer();
  for (const LayerParameter& layer : DataLayersOf(job)) *net.add_layer() = layer;
  net.mutable_layer()->MergeFrom(rest.layer());
  return net;
}

}  // namespace crema::tools
