#include "server/model/executable.h"

#include <utility>

#include "core/strings.h"

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

class ModelExecutable final : public Executable {
 public:
  explicit ModelExecutable(std::shared_ptr<const Model> model) : model_(std::move(model)) {
    const ModelCard& card = model_->card();
    description_ = {card.task,         model_->inputs(), model_->outputs(),
                    model_->Batches(), card.labels,      card.preprocessing};
    RequireFloats(description_.inputs);
    RequireFloats(description_.outputs);
  }
  const ModelDescription& description() const override { return description_; }
  std::unique_ptr<Executor> MakeExecutor() const override {
    return std::make_unique<ModelExecutor>(model_);
  }

 private:
  std::shared_ptr<const Model> model_;
  ModelDescription description_;
};

}  // namespace

std::shared_ptr<const Executable> ToExecutable(std::shared_ptr<const Model> model) {
  return std::make_shared<ModelExecutable>(std::move(model));
}

}  // namespace crema::server
