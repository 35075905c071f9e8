#include "runtime/interactive_net.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

void SetInputShape(const std::string& blob, const Shape& shape, NetParameter* net) {
  for (LayerParameter& layer : *net->mutable_layer()) {
    const auto top = std::ranges::find(layer.top(), blob);
    if (layer.type() != "Input" || top == layer.top().end()) continue;
    auto* const shapes = layer.mutable_input_param()->mutable_shape();
    while (shapes->size() < layer.top_size()) *shapes->Add() = shapes->Get(0);  // one for all
    BlobShape* const text = shapes->Mutable(static_cast<int>(top - layer.top().begin()));
    text->clear_dim();
    for (const int64_t size : shape.dims()) text->add_dim(size);
  }
}

const std::string& NameOf(const Plan& plan, int value) {
  return plan.values[static_cast<size_t>(value)].name;
}

// Returns true for the top of a layer without bottoms.
bool IsGiven(const Plan& plan, const std::string& blob) {
  const int producer = plan.values[static_cast<size_t>(plan.FindFirstValue(blob))].producer;
  return plan.layers[static_cast<size_t>(producer)].inputs.empty();
}

void CopyView(const ConstTensorView& from, const ConstTensorView& to) {
  if (from.raw() == to.raw() || from.empty() || to.empty() || from.shape() != to.shape()) return;
  std::memcpy(const_cast<void*>(to.raw()), from.raw(), from.bytes());
}

std::vector<std::string> NamesOf(const Plan& plan, const std::vector<int>& values) {
  std::vector<std::string> names;
  for (const int v : values) names.push_back(plan.values[static_cast<size_t>(v)].name);
  return names;
}

// Throws kInvalidArgument unless the parameters have the shapes of the plan.
void CheckParameters(const Plan& plan, const Weights& weights) {
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    const Shape shape = weights.blob(s).shape();
    if (slot.owner != static_cast<int>(s) || shape == slot.shape) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat(slot.role, " is ", ToString(shape), ", and would have to be ", ToString(slot.shape),
                " for this shape of the inputs"),
         {.layer = plan.layers[static_cast<size_t>(slot.layer)].name()});
  }
}

}  // namespace

std::shared_ptr<const void> WithGrown(std::shared_ptr<const void> owner, const Session& session) {
  std::shared_ptr<const void> grown = session.grown();
  if (grown == nullptr) return owner;
  return std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      std::move(owner), std::move(grown));
}

InteractiveNet::InteractiveNet(NetFile file, const Registry& registry, InteractiveOptions options)
    : source_({.file = std::move(file),
               .registry = &registry,
               .options = std::move(options),
               .state = {}}),
      log_(source_->options.log) {
  const InteractiveOptions& given = source_->options;
  source_->state = source_->file.net.state();
  source_->state.set_phase(given.phase);
  source_->state.set_level(given.level);
  for (const std::string& stage : given.stages) source_->state.add_stage(stage);
  const std::shared_ptr<const Plan> plan = MakePlanOf(source_->file.net);
  const std::shared_ptr<Weights> weights = given.weights.empty()
                                               ? Weights::Make(*plan, given.seed)
                                               : Weights::MakeToLoad(*plan, given.seed);
  Start(plan, weights);
  if (!given.weights.empty()) LoadWeights(given.weights);
}

InteractiveNet::InteractiveNet(std::shared_ptr<Session> session, LogSink* log)
    : log_(log), session_(std::move(session)) {
  CREMA_CHECK(!plan().options.optimize && !session_->OnGpu());
  NameBlobs();
}

std::shared_ptr<const Plan> InteractiveNet::MakePlanOf(const NetParameter& net,
                                                       const Plan* before) const {
  const InteractiveOptions& options = source_->options;
  std::vector<Problem> warnings = source_->file.warnings;
  PlanOptions plan_options;
  plan_options.threads = options.threads > 0 ? options.threads : AvailableProcessors();
  plan_options.optimize = !options.keep_blobs;
  plan_options.backward = options.keep_blobs;
  std::shared_ptr<const Plan> plan = MakePlan(net, source_->file.source, source_->state,
                                              *source_->registry, plan_options, &warnings, before);
  if (options.log != nullptr && session_ == nullptr) {
    for (const Problem& warning : warnings) {
      options.log->Write(Severity::kWarning, ToString(warning));
    }
  }
  return plan;
}

void InteractiveNet::Start(std::shared_ptr<const Plan> plan, std::shared_ptr<Weights> weights) {
  const int threads = plan->options.threads;
  session_ = std::make_shared<Session>(std::move(plan), weights,
                                       ExecContext(threads, source_->options.seed));
  weights_ = std::move(weights);
  if (this->plan().options.backward) session_->LeaveOutputGradients();
  unplanned_.clear();
  NameBlobs();
}

void InteractiveNet::NameBlobs() {
  blobs_.clear();
  inputs_.clear();
  chains_.clear();
  ForgetPasses();
  for (const PlannedLayer& layer : layers()) {
    for (const std::string& top : NamesOf(plan(), layer.outputs)) {
      if (layer.type->name == "Input") inputs_.push_back(top);
      if (std::ranges::find(blobs_, top) == blobs_.end()) {
        blobs_.push_back(top);
      } else if (!IsGiven(plan(), top)) {
        chains_.insert(top);
      }
    }
  }
  outputs_ = NamesOf(plan(), plan().outputs);
  if (!plan().options.optimize) return;
  std::erase_if(blobs_, [this](const std::string& blob) {
    return std::ranges::find(inputs_, blob) == inputs_.end() &&
           std::ranges::find(outputs_, blob) == outputs_.end();
  });
}

void InteractiveNet::CheckPass(size_t first, size_t last) const {
  if (!plan().options.optimize || (first == 0 && last + 1 == layers().size())) return;
  Fail(ErrorCode::kInvalidArgument,
       "a net without keep_blobs runs as a whole; its layers share memory");
}

std::vector<std::string> InteractiveNet::BottomsOf(size_t layer) const {
  return NamesOf(plan(), layers().at(layer).inputs);
}

std::vector<std::string> InteractiveNet::TopsOf(size_t layer) const {
  return NamesOf(plan(), layers().at(layer).outputs);
}

int InteractiveNet::ValueOf(const std::string& blob) const {
  const int first = plan().FindFirstValue(blob);
  if (std::ranges::find(blobs_, blob) == blobs_.end()) {
    Fail(ErrorCode::kNotFound, StrCat("the net has no blob '", blob, "'", DidYouMean(blob, blobs_),
                                      first < 0 ? "" : ": it was opened without keep_blobs"));
  }
  if (IsGiven(plan(), blob)) return first;
  const auto now = data_now_.find(blob);
  return now != data_now_.end() && step_ == session_->step() ? now->second : plan().FindValue(blob);
}

int InteractiveNet::GradientValueOf(const std::string& blob) const {
  const auto now = gradient_now_.find(blob);
  return now != gradient_now_.end() && step_ == session_->step() ? now->second
                                                                 : plan().FindFirstValue(blob);
}

double InteractiveNet::LossWeight(const std::string& blob) const {
  return plan().values[static_cast<size_t>(ValueOf(blob))].loss_weight;
}

Shape InteractiveNet::ShapeOf(const std::string& blob) const {
  const auto reshaped = reshaped_.find(blob);
  return reshaped != reshaped_.end() ? reshaped->second : session_->DataOf(ValueOf(blob)).shape();
}

HeldView InteractiveNet::Data(const std::string& blob) {
  if (reshaped_.contains(blob)) TakeShapes();
  const ConstTensorView data = session_->DataOf(ValueOf(blob));
  return {{const_cast<void*>(data.raw()), data.shape(), data.dtype()}, memory()};
}

HeldView InteractiveNet::Unplanned(const std::string& key, const Shape& shape) {
  std::shared_ptr<Tensor>& tensor = unplanned_[key];
  if (tensor == nullptr || tensor->shape() != shape) {
    tensor = std::make_shared<Tensor>(shape, plan().options.dtype);
  }
  return {tensor->view(), tensor};
}

HeldView InteractiveNet::Gradient(const std::string& blob) {
  if (reshaped_.contains(blob)) TakeShapes();
  const Shape shape = session_->DataOf(ValueOf(blob)).shape();
  const TensorView gradient = session_->GradientOf(GradientValueOf(blob));
  if (gradient.empty()) return Unplanned(blob, shape);
  return {gradient, memory()};
}

HeldView InteractiveNet::Parameter(size_t slot) const {
  if (slot >= plan().parameters.size()) {
    Fail(ErrorCode::kNotFound, StrCat("the net has no parameter ", slot));
  }
  return {session_->Parameter(slot), session_};
}

HeldView InteractiveNet::ParameterGradient(size_t slot) {
  const Shape shape = Parameter(slot).view.shape();
  const TensorView gradient = session_->ParameterGradient(slot);
  if (gradient.empty()) return Unplanned(StrCat("parameter ", slot), shape);
  return {gradient, session_};
}

void InteractiveNet::Reshape(const std::string& input, const Shape& shape) {
  if (ShapeOf(input) == shape) return;
  if (std::ranges::find(inputs_, input) == inputs_.end()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", input, "' is made by a layer; only inputs of the net can be reshaped"));
  }
  if (source_) {
    reshaped_.insert_or_assign(input, shape);
    return;
  }
  session_->Reshape(input, shape);
}

void InteractiveNet::UpdateShapes() {
  if (!source_) return session_->UpdateShapes();
  const bool fit = std::ranges::all_of(layers(), &PlannedLayer::fits);
  if (!fit || !reshaped_.empty()) ReplanFrom(nullptr);
}

void InteractiveNet::TakeShapes() {
  // A net without keep_blobs runs as a whole, so that all layers have to accept the shapes.
  if (!source_ || plan().options.optimize) return UpdateShapes();
  if (!reshaped_.empty()) ReplanFrom(&plan());
}

void InteractiveNet::ReplanFrom(const Plan* before) {
  NetParameter net = source_->file.net;
  for (const auto& [blob, shape] : std::exchange(reshaped_, {})) SetInputShape(blob, shape, &net);
  std::shared_ptr<const Plan> plan = MakePlanOf(net, before);
  CheckParameters(*plan, *weights_);
  const std::shared_ptr<Session> old = session_;
  Start(std::move(plan), weights_);
  source_->file.net = std::move(net);
  CopyInputsFrom(old.get());
  for (size_t slot = 0; slot < weights_->size(); ++slot) {
    const TensorView from = old->ParameterGradient(slot);
    const TensorView to = session_->ParameterGradient(slot);
    if (!from.empty()) std::memcpy(to.raw(), from.raw(), from.bytes());
  }
}

// Copies the values that the program has set in inputs whose shape is the same.
void InteractiveNet::CopyInputsFrom(Session* old) {
  for (const std::string& input : inputs_) {
    const TensorView from = old->MutableData(input);
    const TensorView to = session_->MutableData(input);
    if (from.shape() == to.shape()) std::memcpy(to.raw(), from.raw(), from.bytes());
  }
}

// Throws the problems of the net if some of these layers do not accept their inputs.
void InteractiveNet::RequireFit(size_t first, size_t last) {
  TakeShapes();
  for (size_t i = first; i <= last && i < layers().size(); ++i) {
    if (!layers()[i].fits) return UpdateShapes();
  }
}

double InteractiveNet::Forward(size_t first, size_t last) {
  RequireFit(first, last);
  CheckPass(first, last);
  GiveData(first, last);
  const double loss = session_->ForwardLayers(first, last);
  for (size_t i = first; i <= last; ++i) {
    for (const int v : layers()[i].outputs) {
      const std::string& name = NameOf(plan(), v);
      if (chains_.contains(name)) data_now_[name] = v;
    }
  }
  step_ = session_->step();
  return loss;
}

void InteractiveNet::ForgetPasses() {
  data_now_.clear();
  gradient_now_.clear();
}

// Copies blobs that these layers read, where an earlier pass has left them in another value.
void InteractiveNet::GiveData(size_t first, size_t last) {
  if (step_ != session_->step()) ForgetPasses();  // another owner of the session has run it
  std::set<std::string> ready;
  for (size_t i = first; i <= last && i < layers().size(); ++i) {
    for (const int v : layers()[i].inputs) {
      const std::string& name = NameOf(plan(), v);
      if (!chains_.contains(name) || !ready.insert(name).second) continue;
      CopyView(session_->DataOf(ValueOf(name)), session_->DataOf(v));
    }
    for (const int v : layers()[i].outputs) ready.insert(NameOf(plan(), v));
  }
}

// The same for gradients, which start from a loss weight elsewhere.
void InteractiveNet::GiveGradients(size_t first, size_t last) {
  if (step_ != session_->step()) ForgetPasses();
  step_ = session_->step();
  std::set<std::string> ready;
  for (size_t i = std::min(last + 1, layers().size()); i-- > first;) {
    const PlannedLayer& layer = layers()[i];
    if (!layer.backward) continue;
    for (const int v : layer.outputs) {
      const std::string& name = NameOf(plan(), v);
      if (!chains_.contains(name) || !ready.insert(name).second) continue;
      if (plan().values[static_cast<size_t>(v)].loss_weight != 0) continue;
      CopyView(session_->GradientOf(GradientValueOf(name)), session_->GradientOf(v));
    }
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      if (layer.to_input[k]) ready.insert(NameOf(plan(), layer.inputs[k]));
    }
  }
}

void InteractiveNet::Backward(size_t first, size_t last) {
  RequireFit(first, last);
  if (!plan().options.backward) {
    Fail(ErrorCode::kUnsupported,
         "a test net of a solver, or a net without keep_blobs, has no backward pass");
  }
  GiveGradients(first, last);
  session_->BackwardLayers(first, last);
  for (size_t i = last + 1; i-- > first;) {
    const PlannedLayer& layer = layers()[i];
    for (size_t k = 0; layer.backward && k < layer.inputs.size(); ++k) {
      const std::string& name = NameOf(plan(), layer.inputs[k]);
      if (layer.to_input[k] && chains_.contains(name)) gradient_now_[name] = layer.inputs[k];
    }
  }
}

void InteractiveNet::LoadWeights(const std::vector<std::string>& paths) {
  const WeightsFiles files{.paths = paths,
                           .on_mismatch = OnMismatch::kError,
                           .missing = MissingLayers::kKeep,
                           .may_load_nothing = true};  // as in pycaffe
  if (weights_ != nullptr) {
    LoadFiles(files, plan(), weights_.get(), log_);
    return;
  }
  const std::shared_ptr<Weights> loaded = Weights::MakeToLoad(plan(), 0);
  for (const int filled : LoadFiles(files, plan(), loaded.get(), log_).filled) {
    const auto slot = static_cast<size_t>(filled);
    const TensorView from = loaded->blob(slot);
    std::memcpy(session_->Parameter(slot).raw(), from.raw(), from.bytes());
  }
}

void InteractiveNet::TakeWeightsOf(InteractiveNet* other) {
  const std::shared_ptr<Session> before = other->session_;
  other->ShareWeightsWith(*this);
  for (size_t slot = 0; slot < other->weights_->size(); ++slot) {
    const TensorView from = before->Parameter(slot);
    std::memcpy(other->weights_->blob(slot).raw(), from.raw(), from.bytes());
  }
}

void InteractiveNet::ShareWeightsWith(const InteractiveNet& other) {
  CREMA_CHECK(OwnsWeights());
  const Weights& own = *weights_;
  const Weights& others = other.session_->weights();
  std::set<const void*> memory;
  for (size_t slot = 0; slot < others.size(); ++slot) memory.insert(others.blob(slot).raw());
  std::shared_ptr<Weights> shared = Weights::ShareWith(plan(), others, source_->options.seed);
  for (size_t slot = 0; slot < shared->size(); ++slot) {
    const TensorView to = shared->blob(slot);
    if (!memory.contains(to.raw())) std::memcpy(to.raw(), own.blob(slot).raw(), to.bytes());
  }
  const std::shared_ptr<Session> old = session_;
  Start(MakePlanOf(source_->file.net), std::move(shared));
  CopyInputsFrom(old.get());
}

}  // namespace crema
