#include "server/fake_model.h"

#include <utility>

#include "core/error.h"

namespace crema::test {

void Gate::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void Gate::Open() {
  const std::lock_guard lock(mutex_);
  closed_ = false;
  changed_.notify_all();
}

void Gate::Pass() {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !closed_; });
  --waiting_;
}

void Gate::AwaitWaiting(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_ >= count; });
}

class FakeModel::FakeExecutor final : public server::Executor {
 public:
  explicit FakeExecutor(const FakeModel& model) : model_(model) {}

  void Run(std::span<const NamedTensor> inputs) override {
    const ConstTensorView& x = inputs[0].value;
    {
      const std::lock_guard lock(model_.mutex_);
      model_.runs_.push_back(x.shape()[0]);
    }
    if (model_.options_.gate) model_.options_.gate->Pass();
    Compute(x);
  }
  ConstTensorView Output(std::string_view name) const override {
    return name == "y" ? y_.view() : sum_.view();
  }

 private:
  void Compute(const ConstTensorView& x) {
    const int64_t samples = x.shape()[0];
    const int64_t each = x.shape().count(1);
    const std::span<const float> values = x.span<float>();
    y_ = Tensor(x.shape(), DType::kF32);
    sum_ = Tensor(Shape{samples, 1}, DType::kF32);
    for (int64_t n = 0; n < samples; ++n) {
      const float first = values[static_cast<size_t>(n * each)];
      if (first == 666) Fail(ErrorCode::kInvalidArgument, "a sample of the beast");
      if (first == 667) Fail(ErrorCode::kInternal, "/secret/path broke");
      float sum = 0;
      for (int64_t i = n * each; i < (n + 1) * each; ++i) {
        const float value = values[static_cast<size_t>(i)];
        y_.view().span<float>()[static_cast<size_t>(i)] = model_.options_.factor * value;
        sum += value;
      }
      sum_.view().span<float>()[static_cast<size_t>(n)] = sum;
    }
  }

  const FakeModel& model_;
  Tensor y_;
  Tensor sum_;
};

FakeModel::FakeModel(FakeModelOptions options) : options_(std::move(options)) {
  const int64_t samples = options_.batches ? -1 : 1;
  BlobInfo x{options_.input, DType::kF32, {samples, options_.width}};
  if (options_.picture) x.shape = {samples, 1, 2, 2};
  description_.inputs = {x};
  description_.outputs = {{"y", DType::kF32, x.shape}, {"sum", DType::kF32, {samples, 1}}};
  description_.batches = options_.batches;
  description_.labels = options_.labels;
  if (options_.picture) description_.task = options_.task;
}

std::unique_ptr<server::Executor> FakeModel::MakeExecutor() const {
  return std::make_unique<FakeExecutor>(*this);
}

std::vector<int64_t> FakeModel::runs() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

void FakeModel::Forget() const {
  const std::lock_guard lock(mutex_);
  runs_.clear();
}

}  // namespace crema::test
