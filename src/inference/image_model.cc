#include "inference/image_model.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

std::string SizesOf(const BlobInfo& blob) {
  std::vector<std::string> dims;
  for (int64_t dim : blob.shape) dims.push_back(dim < 0 ? "N" : std::to_string(dim));
  return Join(dims, "x");
}

}  // namespace

ImageModel::ImageModel(std::shared_ptr<const Model> model, const std::string& task)
    : model_(std::move(model)) {
  const std::vector<BlobInfo>& inputs = model_->inputs();
  if (inputs.size() != 1) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a net for ", task, " has one input; this one has ", inputs.size(),
                inputs.empty() ? ": give the deploy net, which begins with an Input layer" : ""));
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
  const Shape shape = BatchShape(images);
  return model_->PlanFor({&shape, 1});
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
  const std::string problem = FindPreprocessingProblem(preprocessing, model.sample());
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
  CREMA_CHECK(!images.empty());
  const Shape shape = model_.BatchShape(static_cast<int64_t>(images.size()));
  if (!(batch_.shape() == shape)) batch_ = Tensor(shape, DType::kF32);
  const std::span<float> values = batch_.view().span<float>();
  const auto sample = static_cast<size_t>(model_.sample().count());
  for (size_t i = 0; i < images.size(); ++i) {
    FillImageInput(images[i], preprocessing_, model_.height(), model_.width(),
                   values.subspan(i * sample, sample));
  }
  const NamedTensor input{.name = model_.input(), .value = std::as_const(batch_).view()};
  runner_.Run({&input, 1});
}

}  // namespace crema
