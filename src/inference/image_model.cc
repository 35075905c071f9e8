#include "inference/image_model.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "inference/model_parts.h"
#include "inference/region_head.h"

namespace crema {
namespace {

std::string SizesOf(const BlobInfo& blob) {
  std::vector<std::string> dims;
  for (int64_t dim : blob.shape) dims.push_back(dim < 0 ? "N" : std::to_string(dim));
  return Join(dims, "x");
}

}  // namespace

ImageModel::ImageModel(std::shared_ptr<const Model> model, const std::string& task)
    : model_(std::move(model)), sizes_input_(FindSizesInput(model_->parts().plan->written)) {
  std::vector<BlobInfo> inputs = model_->inputs();
  const auto sizes = std::ranges::find(inputs, sizes_input_, &BlobInfo::name);
  if (sizes != inputs.end()) {
    const Shape shape(std::span<const int64_t>(sizes->shape));
    if (shape.count() != 3) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat(task, " takes one image at a time; '", sizes_input_, "' is ", ToString(shape),
                  ", expected 1x3 for its height, width and scale"));
    }
    inputs.erase(sizes);
  }
  if (inputs.size() != 1) {
    std::vector<std::string> names;
    for (const BlobInfo& blob : inputs) names.push_back(blob.name);
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a net for ", task, " has one input; this one has ", inputs.size(),
                inputs.empty() ? ": give the deploy net, which begins with an Input layer"
                               : StrCat(": ", Join(names, ", "))));
  }
  const BlobInfo& input = inputs[0];
  input_ = input.name;
  if (input.dtype == DType::kU8) {
    Fail(ErrorCode::kUnsupported,
         StrCat("input '", input.name,
                "' holds bytes, but images are handed over as numbers: remove pipeline_param and "
                "the PixelsToFloat layer, and give mean and scale as flags"));
  }
  const std::vector<int64_t>& shape = input.shape;
  const bool fits = input.dtype == DType::kF32 && shape.size() == 4 &&
                    (shape[1] == 1 || shape[1] == 3) && shape[2] > 0 && shape[3] > 0;
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument, StrCat(task, " needs an input of N x 1 or 3 x H x W; '",
                                             input.name, "' is ", SizesOf(input)));
  }
  sample_ = Shape{shape[1], shape[2], shape[3]};
}

Shape ImageModel::BatchShape(int64_t images) const {
  return {images, sample_[0], sample_[1], sample_[2]};
}

std::shared_ptr<const Plan> ImageModel::PlanForBatch(int64_t images) const {
  std::vector<Shape> shapes;
  for (const BlobInfo& blob : model_->inputs()) {
    shapes.push_back(blob.name == input_ ? BatchShape(images)
                                         : Shape(std::span<const int64_t>(blob.shape)));
  }
  return model_->PlanFor(shapes);
}

std::string ImageModel::FindOutput(const std::string& wanted) const {
  std::vector<std::string> outputs;
  for (const BlobInfo& output : model_->outputs()) outputs.push_back(output.name);
  if (!wanted.empty()) {
    if (std::ranges::find(outputs, wanted) != outputs.end()) return wanted;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the net has no output '", wanted, "'", DidYouMean(wanted, outputs),
                "; its outputs: ", Join(outputs, " ")));
  }
  if (outputs.size() != 1) {
    Fail(ErrorCode::kInvalidArgument, StrCat("the net has several outputs (", Join(outputs, " "),
                                             "); choose one with --output"));
  }
  return outputs[0];
}

Shape ImageModel::OutputShape(const std::string& output, int64_t images) const {
  const std::shared_ptr<const Plan> plan = PlanForBatch(images);
  return plan->values[static_cast<size_t>(plan->FindValue(output))].spec.shape;
}

void CheckPreprocessing(const Preprocessing& preprocessing, const ImageModel& model) {
  const std::string problem =
      FindPreprocessingProblem(preprocessing, model.sample(), !model.sizes_input().empty());
  if (!problem.empty()) Fail(ErrorCode::kInvalidArgument, problem);
}

ImageRunner::ImageRunner(const ImageModel& model, Preprocessing preprocessing)
    : model_(model), preprocessing_(std::move(preprocessing)), runner_(model.shared_model()) {}

ImagePlacement ImageRunner::Place(const Image& image) const {
  return PlaceImage(preprocessing_, image.height, image.width, model_.height(), model_.width());
}

void ImageRunner::RunBySample(std::span<const Image> images) {
  if (images.size() > 1 && !model_.model().Batches()) {
    Fail(ErrorCode::kInvalidArgument,
         "the samples of this net cannot be taken apart: it takes one image at a time");
  }
  Run(images);
}

void ImageRunner::Run(std::span<const Image> images) {
  inputs_.Fill(model_, preprocessing_, images);
  runner_.Run(inputs_.tensors());
}

void ImageInputs::Fill(const ImageModel& model, const Preprocessing& preprocessing,
                       std::span<const Image> images) {
  CREMA_CHECK(!images.empty());
  model_ = &model;
  const ImagePlacement place =
      PlaceImage(preprocessing, images[0].height, images[0].width, model.height(), model.width());
  const int height = place.input_height, width = place.input_width;
  const Shape shape = {std::ssize(images), model.sample()[0], height, width};
  if (!(pixels_.shape() == shape)) pixels_ = Tensor(shape, DType::kF32);
  const std::span<float> values = pixels_.view().span<float>();
  const auto sample = static_cast<size_t>(shape.count(1));
  for (size_t i = 0; i < images.size(); ++i) {
    FillImageInput(images[i], preprocessing, height, width, values.subspan(i * sample, sample));
  }
  if (model.sizes_input().empty()) return;
  CREMA_CHECK(images.size() == 1);
  const auto blob = std::ranges::find(model.model().inputs(), model.sizes_input(), &BlobInfo::name);
  sizes_ = Tensor(Shape(std::span<const int64_t>(blob->shape)), DType::kF32);
  SetSizes(height, width, place.scale, sizes_.view());
}

std::vector<NamedTensor> ImageInputs::tensors() const {
  std::vector<NamedTensor> tensors = {{.name = model_->input(), .value = pixels_.view()}};
  if (!model_->sizes_input().empty()) tensors.push_back({model_->sizes_input(), sizes_.view()});
  return tensors;
}

}  // namespace crema
