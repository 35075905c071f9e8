#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "inference/model.h"
#include "inference/model_parts.h"

namespace crema {

namespace {

std::string NameOf(const BlobInfo& info) { return info.name; }

size_t IndexOf(const std::vector<BlobInfo>& blobs, std::string_view name, const char* kind) {
  const auto found = std::ranges::find(blobs, name, &BlobInfo::name);
  if (found != blobs.end()) return static_cast<size_t>(found - blobs.begin());
  std::vector<std::string> names;
  std::ranges::transform(blobs, std::back_inserter(names), NameOf);
  Fail(ErrorCode::kInvalidArgument,
       StrCat("the model has no ", kind, " '", name, "'", DidYouMean(name, names), "; it has ",
              Join(names, ", ")));
}

// Returns the values by input of the model. Throws if one is missing, duplicate, unknown or of
// another type.
std::vector<ConstTensorView> InOrder(const std::vector<BlobInfo>& inputs,
                                     std::span<const NamedTensor> given) {
  std::vector<ConstTensorView> ordered(inputs.size());
  std::vector<bool> there(inputs.size());
  for (const NamedTensor& tensor : given) {
    const size_t i = IndexOf(inputs, tensor.name, "input");
    const ConstTensorView& value = tensor.value;
    if (there[i]) {
      Fail(ErrorCode::kInvalidArgument, StrCat("input '", inputs[i].name, "' is given twice"));
    }
    if (value.dtype() != inputs[i].dtype) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("input '", inputs[i].name, "' has elements of type ", ToString(inputs[i].dtype),
                  ", not ", ToString(value.dtype())));
    }
    if (value.image_stride() != 0 || (value.empty() && value.count() > 0)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the elements of input '", inputs[i].name, "' are not there"));
    }
    ordered[i] = value;
    there[i] = true;
  }
  const auto missing = std::ranges::find(there, false);
  if (missing == there.end()) return ordered;
  const auto i = static_cast<size_t>(missing - there.begin());
  Fail(ErrorCode::kInvalidArgument, StrCat("input '", inputs[i].name, "' is missing"));
}

}  // namespace

ModelRunner::ModelRunner(std::shared_ptr<const Model> model) : model_(std::move(model)) {
  if (auto warm = model_->parts().warm.Take()) running_.push_front(std::move(warm));
}
ModelRunner::~ModelRunner() = default;

void ModelRunner::PassToNext() {
  answers_.clear();
  if (!running_.empty()) model_->parts().warm.Put(std::move(running_.front()));
  running_.clear();
}

RunningSession* ModelRunner::Begin(const std::shared_ptr<const Plan>& plan) {
  const Model::Parts& parts = model_->parts();
  const auto make = [&] {
    running_.push_front(std::make_unique<RunningSession>(
        plan, parts.weights, parts.options.device.Context(parts.options.threads, 1),
        &parts.packed_weights));
  };
  try {
    make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory || running_.empty()) throw;
    running_.clear();  // frees memory for another attempt
    make();
  }
  if (running_.size() > std::max<size_t>(parts.options.max_plans, 1)) running_.pop_back();
  return running_.front().get();
}

RunningSession* ModelRunner::RunningOf(std::span<const ConstTensorView> inputs) {
  std::vector<Shape> shapes;
  std::ranges::transform(inputs, std::back_inserter(shapes), &ConstTensorView::shape);
  const std::shared_ptr<const Plan> plan = model_->PlanFor(shapes);
  const auto found = std::ranges::find_if(
      running_, [&](const auto& running) { return &running->session.plan() == plan.get(); });
  if (found == running_.end()) return Begin(plan);
  running_.splice(running_.begin(), running_, found);
  return running_.front().get();
}

void ModelRunner::Run(RunningSession* running, std::span<const ConstTensorView> inputs) {
  Session& session = running->session;
  for (const std::string& layer : running->states) {
    session.MutableState(layer)->Restore(LayerState());
  }
  session.set_step(0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    session.Write(session.MutableData(model_->inputs()[i].name), inputs[i].raw());
  }
  session.QueueForward();  // reading the outputs waits for it
  if (!std::exchange(running->shares, true)) session.SharePacked(&model_->parts().packed_weights);
  for (const BlobInfo& output : model_->outputs()) {
    answers_.push_back(std::make_unique<HostView>(session, session.Data(output.name)));
  }
}

void ModelRunner::Run(std::span<const NamedTensor> inputs) {
  answers_.clear();
  const std::vector<ConstTensorView> ordered = InOrder(model_->inputs(), inputs);
  RunningSession* running = RunningOf(ordered);
  try {
    Run(running, ordered);
  } catch (...) {
    answers_.clear();
    running_.pop_front();  // its state is undefined after a failed pass
    throw;
  }
}

ConstTensorView ModelRunner::Output(std::string_view name) const {
  const size_t i = IndexOf(model_->outputs(), name, "output");
  if (answers_.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "there are no outputs: nothing was run, or the last run failed");
  }
  return **answers_[i];
}

}  // namespace crema
