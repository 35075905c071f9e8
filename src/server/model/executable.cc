#include "server/model/executable.h"

#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "inference/image_task.h"
#include "inference/model_parts.h"
#include "inference/region_head.h"

namespace crema::server {
namespace {

class ModelExecutor final : public Executor {
 public:
  explicit ModelExecutor(std::shared_ptr<const Model> model) : runner_(std::move(model)) {}
  void Run(std::span<const NamedTensor> inputs) override { runner_.Run(inputs); }
  ConstTensorView Output(std::string_view name) const override { return runner_.Output(name); }

 private:
  ModelRunner runner_;
};

void RequireFloats(const std::vector<BlobInfo>& blobs) {
  for (const BlobInfo& blob : blobs) {
    if (blob.dtype == DType::kF32) continue;
    Fail(ErrorCode::kUnsupported, StrCat("'", blob.name, "' is ", ToString(blob.dtype),
                                         "; what is served takes and gives f32"));
  }
}

void FindTask(const std::shared_ptr<const Model>& model, ModelDescription* description) {
  try {
    if (description->task.empty()) description->task = FindImageTask(ImageModel(model, "images"));
    if (description->task != "classify") RefuseTenCrops(description->preprocessing);
    if (CropsOf(description->preprocessing) > 1 && !description->batches) {
      Fail(ErrorCode::kInvalidArgument,
           "ten crops are computed together, but the samples of this net cannot be taken apart");
    }
    if (description->task == "detect") {
      constexpr double kHighest = 1;
      description->detector = std::make_shared<const Detector>(model, kHighest);
    } else if (description->task == "segment") {
      RefuseCrop(description->preprocessing);
      description->segmenter = std::make_shared<const Segmenter>(model, "");
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    description->task_problem = error.problems().front().message;
  }
}

// Requires: the net accepts images of any size.
void TakeAnySize(ModelDescription* description) {
  for (BlobInfo& input : description->inputs) {
    if (input.name == description->sizes_input) continue;
    if (input.shape.size() == 4) input.shape[2] = input.shape[3] = -1;
  }
}

class ModelExecutable final : public Executable {
 public:
  explicit ModelExecutable(std::shared_ptr<const Model> model) : model_(std::move(model)) {
    const ModelCard& card = model_->card();
    description_ = {.task = card.task,
                    .inputs = model_->inputs(),
                    .outputs = model_->outputs(),
                    .batches = model_->Batches(),
                    .labels = card.labels,
                    .preprocessing = card.preprocessing,
                    .detector = nullptr,
                    .segmenter = nullptr,
                    .task_problem = {},
                    .sizes_input = {}};
    RequireFloats(description_.inputs);
    RequireFloats(description_.outputs);
    description_.sizes_input = FindSizesInput(model_->parts().plan->written);
    if (card.preprocessing.fit == ImageFit::kReshape) TakeAnySize(&description_);
    if (TakesImage(description_)) FindTask(model_, &description_);
  }
  const ModelDescription& description() const override { return description_; }
  std::unique_ptr<Executor> MakeExecutor() const override {
    return std::make_unique<ModelExecutor>(model_);
  }

 private:
  std::shared_ptr<const Model> model_;
  ModelDescription description_;
};

// The input is an image, 1 x 3 x H x W, blue first; the output has its boxes.
class CascadeExecutor final : public Executor {
 public:
  explicit CascadeExecutor(const Cascade& cascade) : cascade_(cascade), runner_(cascade) {}
  void Run(std::span<const NamedTensor> inputs) override { RunUnless({}, inputs); }
  void RunUnless(const std::function<bool()>& cancelled,
                 std::span<const NamedTensor> inputs) override {
    const ConstTensorView& pixels = inputs[0].value;
    const std::span<const uint8_t> bytes = pixels.span<uint8_t>();
    const Image image{.channels = 3,
                      .height = static_cast<int>(pixels.shape()[2]),
                      .width = static_cast<int>(pixels.shape()[3]),
                      .pixels = {bytes.begin(), bytes.end()}};
    rows_ = cascade_.RowsOf(runner_.Detect(image, cancelled));
  }
  ConstTensorView Output(std::string_view) const override {
    const int64_t size = cascade_.RowSize();
    return {rows_.data(), Shape{std::ssize(rows_) / size, size}, DType::kF32};
  }

 private:
  const Cascade& cascade_;
  CascadeRunner runner_;
  std::vector<float> rows_;  // of the last Run
};

class CascadeExecutable final : public Executable {
 public:
  CascadeExecutable(std::shared_ptr<const Cascade> cascade, const std::vector<std::string>& labels)
      : cascade_(std::move(cascade)) {
    description_.task = "detect";
    description_.inputs = {{"image", DType::kU8, {1, 3, -1, -1}}};
    description_.outputs = {{cascade_->outputs()[0], DType::kF32, {-1, cascade_->RowSize()}}};
    description_.labels = labels;
    description_.preprocessing.fit = ImageFit::kReshape;
    description_.detector = cascade_;
  }
  const ModelDescription& description() const override { return description_; }
  std::unique_ptr<Executor> MakeExecutor() const override {
    return std::make_unique<CascadeExecutor>(*cascade_);
  }

 private:
  std::shared_ptr<const Cascade> cascade_;
  ModelDescription description_;
};

}  // namespace

const BlobInfo* ImageInput(const ModelDescription& model) {
  const BlobInfo* image = nullptr;
  for (const BlobInfo& input : model.inputs) {
    if (input.name == model.sizes_input) continue;
    if (image != nullptr) return nullptr;
    image = &input;
  }
  if (image == nullptr || model.outputs.empty()) return nullptr;
  const std::vector<int64_t>& dims = image->shape;
  const bool fits =
      dims.size() == 4 && (dims[1] == 1 || dims[1] == 3) && dims[2] != 0 && dims[3] != 0;
  return fits ? image : nullptr;
}

std::shared_ptr<const Executable> ToExecutable(std::shared_ptr<const Model> model) {
  return std::make_shared<ModelExecutable>(std::move(model));
}

std::shared_ptr<const Executable> ToExecutable(std::shared_ptr<const Cascade> cascade,
                                               const std::vector<std::string>& labels) {
  return std::make_shared<CascadeExecutable>(std::move(cascade), labels);
}

}  // namespace crema::server
