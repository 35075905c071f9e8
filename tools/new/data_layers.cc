#include "new/data_layers.h"

#include <array>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

// The size to which pictures are resized before random crops, as 256 is to 224.
uint32_t BeforeCrop(int side) { return static_cast<uint32_t>(std::lround(side * 256.0 / 224)); }

// Means of the training pictures: blue, green and red, or gray.
std::vector<float> MeansOf(const Job& job) {
  const std::array<double, 3>& mean = job.looks.mean;
  const auto rounded = [](double value) { return static_cast<float>(std::round(value * 10) / 10); };
  if (!job.gray()) return {rounded(mean[0]), rounded(mean[1]), rounded(mean[2])};
  return {rounded(0.114 * mean[0] + 0.587 * mean[1] + 0.299 * mean[2])};
}

const LayerParameter& DataOfModel(const Job& job) { return job.model.net.layer(0); }

// Means as in the model. Without weights that expect these, those of the pictures take their place.
void SetMeans(const TransformationParameter& model, const Job& job,
              TransformationParameter* transform) {
  transform->clear_mean_value();
  if (model.mean_value_size() == 0) return;
  if (!job.weights.empty()) {
    transform->mutable_mean_value()->CopyFrom(model.mean_value());
    return;
  }
  for (const float mean : MeansOf(job)) transform->add_mean_value(mean);
}

LayerParameter NewLayer(const std::string& name, const std::string& type, Phase phase) {
  LayerParameter layer;
  layer.set_name(name);
  layer.set_type(type);
  layer.add_include()->set_phase(phase);
  return layer;
}

// Reads a list of the job in the size of the net. Sets no tops.
LayerParameter ListLayer(const Job& job, Phase phase) {
  const bool trains = phase == TRAIN;
  const TransformationParameter& model = DataOfModel(job).transform_param();
  LayerParameter layer = NewLayer("data", "ImageData", phase);
  TransformationParameter* transform = layer.mutable_transform_param();
  if (model.has_scale()) transform->set_scale(model.scale());
  SetMeans(model, job, transform);
  ImageDataParameter* images = layer.mutable_image_data_param();
  images->set_source(job.File(trains ? "train.txt" : "test.txt"));
  const std::string& root = trains ? job.train.root : job.test.root;
  if (!root.empty()) images->set_root_folder(root);
  images->set_batch_size(static_cast<uint32_t>(trains ? job.batch : job.test_batch));
  if (trains) images->set_shuffle(true);
  if (job.gray()) images->set_is_color(false);
  images->set_new_height(static_cast<uint32_t>(job.height));
  images->set_new_width(static_cast<uint32_t>(job.width));
  return layer;
}

void SetRecords(const std::string& source, int batch, Phase phase, DataParameter* data) {
  data->set_source(source);
  data->set_backend(DataParameter::LMDB);
  data->set_batch_size(static_cast<uint32_t>(batch));
  if (phase == TRAIN) data->set_shuffle(true);
}

// Returns the blob of labels in a net that reads them by a layer of their own.
std::string LabelsOfModel(const NetParameter& net) {
  const std::string& pictures = net.layer(0).top(0);
  for (const LayerParameter& layer : net.layer()) {
    if (layer.bottom_size() > 0) continue;
    for (const std::string& top : layer.top()) {
      if (top != pictures) return top;
    }
  }
  Fail(ErrorCode::kUnsupported, "--model: the net reads no labels");
}

}  // namespace

std::vector<LayerParameter> ClassifyData(const Job& job) {
  std::vector<LayerParameter> layers;
  for (const Phase phase : {TRAIN, TEST}) {
    LayerParameter layer = ListLayer(job, phase);
    layer.mutable_top()->CopyFrom(DataOfModel(job).top());
    const TransformationParameter& model = DataOfModel(job).transform_param();
    TransformationParameter* transform = layer.mutable_transform_param();
    if (phase == TRAIN && model.mirror() && job.mirror) transform->set_mirror(true);
    if (phase == TRAIN && model.crop_size() > 0) {
      transform->set_crop_h(static_cast<uint32_t>(job.height));
      transform->set_crop_w(static_cast<uint32_t>(job.width));
      layer.mutable_image_data_param()->set_new_height(BeforeCrop(job.height));
      layer.mutable_image_data_param()->set_new_width(BeforeCrop(job.width));
    }
    layers.push_back(layer);
  }
  return layers;
}

std::vector<LayerParameter> DetectData(const Job& job) {
  std::vector<LayerParameter> layers;
  for (const LayerParameter& model : job.model.net.layer()) {
    if (model.type() != "AnnotatedData" || model.include_size() != 1) continue;
    LayerParameter layer = model;
    const Phase phase = model.include(0).phase();
    TransformationParameter* transform = layer.mutable_transform_param();
    SetMeans(model.transform_param(), job, transform);
    transform->set_force_color(true);
    transform->mutable_resize_param()->set_height(static_cast<uint32_t>(job.height));
    transform->mutable_resize_param()->set_width(static_cast<uint32_t>(job.width));
    if (!job.mirror) transform->clear_mirror();
    SetRecords(job.File(phase == TRAIN ? "train_lmdb" : "test_lmdb"),
               phase == TRAIN ? job.batch : job.test_batch, phase, layer.mutable_data_param());
    layer.mutable_annotated_data_param()->set_label_map_file(job.File("labelmap.prototxt"));
    layers.push_back(layer);
  }
  if (layers.size() != 2) {
    Fail(ErrorCode::kUnsupported, StrCat("--model: '", job.model.name,
                                         "' has no two layers AnnotatedData, to train and to "
                                         "test"));
  }
  return layers;
}

std::vector<LayerParameter> SegmentData(const Job& job) {
  const TransformationParameter& model = DataOfModel(job).transform_param();
  const std::string& pictures = DataOfModel(job).top(0);
  const std::string labels = LabelsOfModel(job.model.net);

  LayerParameter both = NewLayer("data", "Data", TRAIN);
  both.add_top("data_and_label");
  SetMeans(model, job, both.mutable_transform_param());
  if (both.transform_param().mean_value_size() > 0) {
    both.mutable_transform_param()->add_mean_value(0);  // of the label
  }
  // No model can say this: with a layer for pictures and one for labels, it cannot mirror both.
  if (job.mirror) both.mutable_transform_param()->set_mirror(true);
  SetRecords(job.File("train_lmdb"), job.batch, TRAIN, both.mutable_data_param());

  LayerParameter slice = NewLayer("slice", "Slice", TRAIN);
  slice.add_bottom("data_and_label");
  slice.add_top(model.has_scale() ? "data_unscaled" : pictures);
  slice.add_top(labels);
  slice.mutable_slice_param()->set_axis(1);
  slice.mutable_slice_param()->add_slice_point(3);
  std::vector<LayerParameter> layers = {both, slice};
  if (model.has_scale()) {
    LayerParameter scale = NewLayer("data_scale", "Power", TRAIN);
    scale.add_bottom("data_unscaled");
    scale.add_top(pictures);
    scale.mutable_power_param()->set_scale(model.scale());
    layers.push_back(scale);
  }

  LayerParameter test = ListLayer(job, TEST);
  test.add_top(pictures);
  LayerParameter test_labels = NewLayer("label", "Data", TEST);
  test_labels.add_top(labels);
  SetRecords(job.File("test_labels_lmdb"), job.test_batch, TEST, test_labels.mutable_data_param());
  layers.push_back(test);
  layers.push_back(test_labels);
  return layers;
}

}  // namespace crema::tools
