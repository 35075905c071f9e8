#include "solvers/updater.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/strings.h"
#include "format/blob_proto.h"
#include "solvers/rules/norms.h"
#include "solvers/snapshot.h"

namespace crema {
namespace {

// States of Caffe have no solver type, but their number of blobs excludes some.
std::string DescribeHistoryCount(const SolverState& state, const UpdateRule& rule,
                                 size_t expected) {
  const std::string start = StrCat("the state holds ", state.history_size(), " history blobs, but ",
                                   rule.name, " keeps ", expected, " for this net");
  const size_t parameters = expected / static_cast<size_t>(rule.histories);
  std::vector<std::string> types;
  for (const UpdateRule& other : UpdateRules()) {
    const size_t kept = parameters * static_cast<size_t>(other.histories);
    if (other.in_caffe && kept == static_cast<size_t>(state.history_size())) {
      types.push_back(other.name);
    }
  }
  if (types.empty()) return start + "; it is of another net";
  return StrCat(start, "; that many are of these solver types: ", Join(types, ", "),
                ". Resume with the type of the run, or start from the model with --weights");
}

bool HasNegative(const BlobProto& blob) {
  Tensor values(ShapeOf(blob), DType::kF32);
  CopyTo(blob, values.view());
  return std::ranges::any_of(values.view().span<float>(), [](float x) { return x < 0; });
}

}  // namespace

Updater::Updater(const SolverParameter& param, const std::shared_ptr<const Plan>& plan,
                 Session* train, Weights* weights, Options options)
    : param_(param),
      rule_(*FindUpdateRule(param.type())),
      train_(*train),
      weights_(*weights),
      options_(std::move(options)) {
  if (param_.ema_decay() > 0) {
    average_.emplace(plan, param_.ema_decay(), options_.seed);
    options_.log->Write(Severity::kInfo, StrCat("ema_decay ", param_.ema_decay(),
                                                ": tests and the best model use averaged weights"));
  }
  AllocateHistory();
  if (train_.OnGpu()) {
    device_ =
        std::make_unique<DeviceState>(&train_, average_ ? &*average_ : nullptr, history_,
                                      options_.device ? options_.device : BuiltInDeviceUpdate());
  }
  if (WantsLossScale(param_, train_.plan())) scale_.emplace(param_.loss_scale());
  BeginDevice();
}

void Updater::AllocateHistory() {
  const Plan& plan = train_.plan();
  history_.resize(plan.parameters.size());
  for (int h = 0; h < rule_.histories; ++h) {
    for (size_t s = 0; s < plan.parameters.size(); ++s) {
      if (Slot(s).owner != static_cast<int>(s)) continue;
      history_memory_.emplace_back(Slot(s).shape, plan.options.dtype);
      history_[s].push_back(history_memory_.back().view());
    }
  }
}

void Updater::BeginDevice() {
  if (device_) device_->Begin(scale_ ? &scale_->state() : nullptr);
}

void Updater::ScaleLoss() {
  if (scale_) train_.set_loss_scale(scale_->scale());
}

std::vector<ConstTensorView> Updater::Gradients() {
  std::vector<ConstTensorView> gradients;
  for (size_t s = 0; s < history_.size(); ++s) {
    const TensorView gradient = train_.ParameterGradient(s);
    if (!history_[s].empty() && !gradient.empty()) gradients.emplace_back(gradient);
  }
  return gradients;
}

double Updater::NormOfGradients() { return NormOf(train_.context().threads(), Gradients()); }

// Clipping works on the sum over iter_size, before division and before weight decay, as in Caffe.
double Updater::GradientScale(double loss_scale) {
  const double scale = 1.0 / (param_.iter_size() * loss_scale);
  const double largest = param_.clip_gradients() * loss_scale;
  if (largest < 0) return scale;
  const double norm = NormOfGradients();
  return norm > largest ? scale * largest / norm : scale;
}

// Returns true if neither gradient nor decay moves this blob. Its history is zero unless it was
// restored, and even then moves a frozen blob only if the rate is part of it. Caffe updates the
// history of such blobs, which changes no weight.
bool Updater::StandsStill(size_t slot) {
  const ParameterSlot& parameter = Slot(slot);
  if (!train_.ParameterGradient(slot).empty()) return false;
  if (parameter.lr_mult != 0 && param_.weight_decay() * parameter.decay_mult != 0) return false;
  return !restored_ || (parameter.lr_mult == 0 && !rule_.rate_in_history);
}

void Updater::FindBlobsToUpdate(double rate) {
  blobs_.clear();
  slots_.clear();
  for (size_t s = 0; s < history_.size(); ++s) {
    const ParameterSlot& slot = Slot(s);
    if (slot.owner != static_cast<int>(s) || StandsStill(s)) continue;
    slots_.push_back(s);
    blobs_.push_back({.weights = train_.Parameter(s),
                      .gradient = train_.ParameterGradient(s),
                      .history = device_ ? device_->history(s) : history_[s],
                      .rate = rate * slot.lr_mult,
                      .decay = static_cast<double>(param_.weight_decay()) * slot.decay_mult});
  }
}

// Makes the arguments for gradients without a loss scale. They are sums over ranks, as if the loss
// were multiplied by the number of ranks.
UpdateArgs Updater::Args(double rate, int64_t iteration) {
  FindBlobsToUpdate(rate);
  const double limit = param_.clip_gradient_value();
  return {.context = train_.context(),
          .param = param_,
          .iteration = iteration,
          .blobs = blobs_,
          .gradient_scale = 1.0 / (param_.iter_size() * options_.ranks),
          .gradient_limit = limit >= 0 ? limit : std::numeric_limits<double>::infinity(),
          .momentum = MomentumAt(rule_, param_, iteration),
          .regularization =
              param_.regularization_type() == "L1" ? Regularization::kL1 : Regularization::kL2};
}

bool Updater::JudgeScale(int64_t iteration) {
  const double tried = ScaleNow();
  if (scale_->Judge(std::isfinite(NormOfGradients()))) return true;
  ReportSkipped(iteration, tried);
  return false;
}

void Updater::ReportSkipped(int64_t iteration, double tried) {
  if (scale_->IsSpent()) {
    Fail(ErrorCode::kDiverged, StrCat("training diverged: the gradients of iteration ", iteration,
                                      " are not finite even with a loss scale of ", tried));
  }
  options_.log->Write(
      Severity::kInfo,
      StrCat("loss_scale: gradients of iteration ", iteration, " are not finite with a scale of ",
             tried, "; this update is skipped, and the scale is ", ScaleNow(),
             " now (skipped so far: ", scale_->skipped(), ")"));
}

Updater::Outcome Updater::Update(double rate, int64_t iteration) {
  UpdateArgs args = Args(rate, iteration);
  const double scale = ScaleNow() * options_.ranks;
  gradient_scale_ = 1.0 / (param_.iter_size() * scale);
  if (scale_ && !JudgeScale(iteration)) return Outcome::kSkipped;
  args.gradient_scale = GradientScale(scale);
  const int64_t broken = rule_.apply(args);
  if (broken < 0) return Outcome::kUpdated;
  broken_slot_ = slots_[static_cast<size_t>(broken)];
  return Outcome::kBroken;
}

void Updater::QueueUpdate(double rate, int64_t iteration) {
  const UpdateArgs args = Args(rate, iteration);
  device_->Update(rule_, args, param_.clip_gradients() * options_.ranks,
                  scale_ ? scale_->growth_interval() : 0, slots_);
}

std::optional<DeviceRun> Updater::TakeOutcome(bool wait) {
  const std::optional<DeviceRun> outcome = device_->TakeOutcome(wait);
  if (outcome) gradient_scale_ = 1.0 / (param_.iter_size() * options_.ranks * outcome->tried);
  return outcome;
}

void Updater::FollowScale(const DeviceRun& outcome, int64_t iteration) {
  if (scale_) scale_->Follow(outcome.scale);
  if (outcome.skips != 0) ReportSkipped(iteration, outcome.tried);
}

void Updater::MoveAverage() {
  if (!average_) return;
  if (device_) return device_->MoveAverage();
  average_->Update(train_.context(), weights_);
}

void Updater::CopyStatistics() {
  if (average_ && !device_) average_->CopyStatistics(weights_);
}

void Updater::StartAverage() {
  if (average_started_ || !average_) return;
  average_->Reset(HostWeights());
  if (device_) device_->TakeAverage();
  average_started_ = true;
}

Weights& Updater::HostWeights() {
  if (device_) device_->ReturnWeights();
  return weights_;
}

void Updater::ReturnHistory() {
  if (device_) device_->ReturnHistory();
}

void Updater::TakeAll() {
  if (device_) device_->TakeAll();
  BeginDevice();
}

void Updater::TakeWeights() {
  ReturnHistory();  // TakeAll takes it, too
  TakeAll();
  average_started_ = false;
}

std::vector<TensorView> Updater::Blobs() const {
  std::vector<TensorView> blobs;
  for (size_t s = 0; s < history_.size(); ++s) {
    if (Slot(s).owner != static_cast<int>(s)) continue;
    blobs.push_back(train_.Parameter(s));
    const std::span<const TensorView> histories = device_ ? device_->history(s) : history_[s];
    blobs.insert(blobs.end(), histories.begin(), histories.end());
  }
  return blobs;
}

// Returns the histories in the order of a solver state, and adds the layers that they belong to.
std::vector<TensorView> Updater::HistoryInOrder(std::vector<std::string>* layers) const {
  std::vector<TensorView> histories;
  for (int h = 0; h < rule_.histories; ++h) {
    for (size_t s = 0; s < history_.size(); ++s) {
      if (history_[s].empty()) continue;
      histories.push_back(history_[s][static_cast<size_t>(h)]);
      layers->push_back(train_.plan().layers[static_cast<size_t>(Slot(s).layer)].name());
    }
  }
  return histories;
}

void Updater::Save(SolverState* state) {
  ReturnHistory();
  if (scale_) scale_->Save(state);
  std::vector<std::string> layers;
  for (const TensorView& history : HistoryInOrder(&layers)) CopyFrom(history, state->add_history());
}

void Updater::Restore(const SolverState& state, const std::string& path,
                      const std::vector<std::string>& frozen) {
  RestoreHistory(state, path, frozen);
  LoadModelOfState(state, path, train_.plan(), &weights_);
  RestoreAverage(state, path);
  if (scale_) scale_->Restore(state, path);
  TakeAll();
  restored_ = true;
}

void Updater::RestoreHistory(const SolverState& state, const std::string& path,
                             const std::vector<std::string>& frozen) {
  std::vector<std::string> layers;
  const std::vector<TensorView> targets = HistoryInOrder(&layers);
  if (static_cast<size_t>(state.history_size()) != targets.size()) {
    Fail(ErrorCode::kInvalidArgument, DescribeHistoryCount(state, rule_, targets.size()),
         {.file = path});
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    const BlobProto& blob = state.history(static_cast<int>(i));
    if (!ShapeMatches(blob, targets[i].shape())) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("history blob ", i, " is ", ToString(ShapeOf(blob)), " in the state, but ",
                  ToString(targets[i].shape()), " in the net; the state is of another net"),
           {.file = path, .layer = layers[i]});
    }
    const size_t h = i * static_cast<size_t>(rule_.histories) / targets.size();
    if ((rule_.squares >> h & 1U) != 0 && HasNegative(blob)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("history blob ", i, " holds negative numbers, but ", rule_.name,
                  " keeps sums of squares there; the state is of another solver type"),
           {.file = path, .layer = layers[i]});
    }
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    CopyTo(state.history(static_cast<int>(i)), targets[i]);
    // Momentum from a run in which the layer was trained would move it.
    if (std::ranges::find(frozen, layers[i]) != frozen.end()) {
      std::ranges::fill(targets[i].span<float>(), 0.0F);
    }
  }
}

void Updater::RestoreAverage(const SolverState& state, const std::string& path) {
  average_started_ = false;
  if (!average_) return;
  if (state.ema_net().empty()) {
    options_.log->Write(Severity::kWarning,
                        StrCat("ema_decay is set, but ", path,
                               " has no averaged weights; the average starts from its weights"));
    return;
  }
  LoadAverageOfState(state, path, train_.plan(), &average_->weights());
  average_started_ = true;
}

std::vector<TensorView> Updater::HostBlobs() {
  std::vector<TensorView> blobs;
  for (size_t s = 0; s < weights_.size(); ++s) blobs.push_back(weights_.blob(s));
  for (Tensor& history : history_memory_) blobs.push_back(history.view());
  return blobs;
}

Updater::Copy Updater::TakeCopy() {
  HostWeights();
  ReturnHistory();
  Copy copy{.blobs = {}, .scale = scale_};
  for (const TensorView& blob : HostBlobs()) {
    Tensor& values = copy.blobs.emplace_back(blob.shape(), blob.dtype());
    std::memcpy(values.view().raw(), blob.raw(), blob.bytes());
  }
  return copy;
}

void Updater::PutBack(const Copy& copy) {
  const std::vector<TensorView> blobs = HostBlobs();
  for (size_t i = 0; i < blobs.size(); ++i) {
    std::memcpy(blobs[i].raw(), copy.blobs[i].view().raw(), blobs[i].bytes());
  }
  scale_ = copy.scale;
  TakeAll();
}

}  // namespace crema
