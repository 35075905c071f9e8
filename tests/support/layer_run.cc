#include "support/layer_run.h"

#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "support/gpu.h"
#include "support/guarded_tensor.h"

namespace crema::test {
namespace {

constexpr uint64_t kSeed = 7;
constexpr uint64_t kStep = 3;

bool At(const std::vector<bool>& flags, size_t index) {
  return index < flags.size() && flags[index];
}

// Looks empty; unlike a default view, reading it as floats throws instead of crashing.
ConstTensorView Undeclared(const Shape& shape) { return {nullptr, shape, DType::kU8}; }

// The initial values of parameter gradients.
double KnownGradient(size_t index) { return 0.5 + static_cast<double>(index % 4); }

bool OnGpu(const RunOptions& options) {
  return options.implementation != nullptr && options.implementation->device == DeviceType::kCuda;
}

ExecContext ContextFor(const RunOptions& options) {
  return OnGpu(options) ? GpuContext(kSeed) : ExecContext(options.threads, kSeed);
}

// Most runs are on the CPU, where memory for both devices would take much time.
Allocator& MemoryFor(const RunOptions& options) {
  return OnGpu(options) ? SharedMemory() : CpuAllocator();
}

OpDesc QueryOf(const LayerCase& layer_case, const LayerInfo& info, const RunOptions& options) {
  return {.layer = layer_case.layer(),
          .context = layer_case.infer_context(),
          .info = info,
          .threads = options.threads,
          .backward = options.backward,
          .to_input = options.backward && options.only_input != RunOptions::kNoInput,
          .precision = BF16};
}

LayerInfo InfoOf(const LayerCase& layer_case, const RunOptions& options) {
  const LayerInfo& info = layer_case.info();
  if (options.implementation == nullptr) return info;
  return options.implementation->Info(QueryOf(layer_case, info, options));
}

// Memory of one run, and the views that the layer gets.
class Workspace {
 public:
  Workspace(const LayerCase& layer_case, const CaseValues& values, const RunOptions& options);
  RunResult Run();

 private:
  void MakeOutputs();
  void MakeGradients();
  void Forward();
  void Backward();
  void TakeShapes(const std::vector<Shape>& shapes);
  void CallBackward(std::span<std::byte> scratch);
  bool Wanted(size_t input) const;
  void CheckGuards(const std::string& when);
  // The tensors that a pass must not change, with their bytes before it.
  using Frozen = std::vector<std::pair<std::string, const GuardedTensor*>>;
  Frozen ReadByBackward() const;
  static std::vector<std::vector<std::byte>> BytesOf(const Frozen& frozen);
  void CheckUnchanged(const Frozen& frozen, const std::vector<std::vector<std::byte>>& before,
                      const std::string& when);
  GuardedBuffer MakeScratch(bool forward) const;
  void Complain(std::string text) { result_.failures.push_back(std::move(text)); }
  const GuardedTensor& InputGrad(size_t input) const {
    return options_.in_place && input == 0 ? output_grads_[0] : input_grads_[input];
  }
  bool OutputIsInput(size_t output) const {
    return info_.view || info_.share || (options_.in_place && output == 0);
  }

  // Return the spec in the format that the implementation reads or writes.
  BlobSpec AsInput(const BlobSpec& spec, size_t i) const {
    const bool native = options_.implementation == nullptr;
    return {spec.shape, spec.dtype,
            native ? options_.format : options_.implementation->InputFormat(i)};
  }
  BlobSpec AsOutput(const BlobSpec& spec) const {
    const bool native = options_.implementation == nullptr;
    return {spec.shape, spec.dtype,
            native ? options_.format : options_.implementation->output_format};
  }
  OpDesc Query() const { return QueryOf(case_, info_, options_); }

  const LayerCase& case_;
  const LayerInfo info_;  // with the row
  const CaseValues& values_;
  const RunOptions& options_;
  ExecContext context_;
  Allocator& memory_;
  const uint64_t layer_id_ = HashName("sample");
  std::unique_ptr<LayerSessionState> state_;
  std::unique_ptr<ImplementationState> implementation_state_;

  std::vector<GuardedTensor> inputs_, outputs_, parameters_, saved_;
  std::vector<GuardedTensor> output_grads_, input_grads_, parameter_grads_;
  std::vector<ConstTensorView> input_views_, parameter_views_;
  std::vector<TensorView> output_views_;
  RunResult result_;
};

Workspace::Workspace(const LayerCase& layer_case, const CaseValues& values,
                     const RunOptions& options)
    : case_(layer_case),
      info_(InfoOf(layer_case, options)),
      values_(values),
      options_(options),
      context_(ContextFor(options)),
      memory_(MemoryFor(options)),
      state_(layer_case.layer().MakeState(context_, layer_case.infer_context().phase)) {
  context_.set_step(kStep);
  const InferContext& infer = case_.infer_context();
  for (size_t i = 0; i < infer.inputs.size(); ++i) {
    inputs_.emplace_back(AsInput(infer.inputs[i], i), memory_).Set(values_.inputs[i]);
    input_views_.push_back(inputs_.back().view());
  }
  for (size_t i = 0; i < info_.parameters.size(); ++i) {
    parameters_.emplace_back(info_.parameters[i].shape, infer.dtype, memory_)
        .Set(values_.parameters[i]);
    parameter_views_.push_back(parameters_.back().view());
  }
  for (const BlobSpec& spec : info_.saved) {
    saved_.emplace_back(spec.shape, spec.dtype, memory_);
  }
  MakeOutputs();
  if (options_.implementation != nullptr) {
    implementation_state_ = options_.implementation->MakeState(Query());
  }
}

void Workspace::MakeOutputs() {
  for (size_t i = 0; i < info_.outputs.size(); ++i) {
    const BlobSpec& spec = info_.outputs[i];
    // Made even if it is not used, so that indices agree.
    outputs_.emplace_back(AsOutput(spec), memory_);
    output_views_.push_back(OutputIsInput(i) ? TensorView(inputs_[0].view().raw(), spec.shape,
                                                          inputs_[0].view().dtype())
                                             : outputs_.back().view());
  }
}

GuardedBuffer Workspace::MakeScratch(bool forward) const {
  const FunctionImplementation native({});
  const Implementation& implementation =
      options_.implementation != nullptr ? *options_.implementation : native;
  const Needs needs = implementation.NeedsOf(Query());
  return GuardedBuffer(forward ? needs.forward_scratch : needs.backward_scratch, memory_);
}

std::vector<std::vector<std::byte>> Workspace::BytesOf(const Frozen& frozen) {
  std::vector<std::vector<std::byte>> bytes;
  for (const auto& [name, tensor] : frozen) bytes.push_back(tensor->Bytes());
  return bytes;
}

void Workspace::CheckUnchanged(const Frozen& frozen,
                               const std::vector<std::vector<std::byte>>& before,
                               const std::string& when) {
  for (size_t i = 0; i < frozen.size(); ++i) {
    if (frozen[i].second->Bytes() != before[i]) Complain(when + " changed " + frozen[i].first);
  }
}

void Workspace::CheckGuards(const std::string& when) {
  const auto check = [&](const std::vector<GuardedTensor>& tensors, const char* name) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].Intact()) Complain(StrCat(when, " wrote outside ", name, " ", i));
    }
  };
  check(inputs_, "input");
  check(outputs_, "output");
  check(parameters_, "parameter blob");
  check(saved_, "saved blob");
  check(output_grads_, "output gradient");
  check(input_grads_, "input gradient");
  check(parameter_grads_, "parameter gradient");
}

void Workspace::Forward() {
  Frozen frozen;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (i > 0 || !options_.in_place) frozen.emplace_back(StrCat("input ", i), &inputs_[i]);
  }
  std::vector<TensorView> statistics;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool statistic = info_.parameters[i].statistic;
    statistics.push_back(statistic ? parameters_[i].view() : TensorView());
    if (!statistic) frozen.emplace_back("a parameter blob", &parameters_[i]);
  }
  std::vector<Shape> output_shapes;
  for (const TensorView& view : output_views_) output_shapes.push_back(view.shape());
  const auto before = BytesOf(frozen);
  GuardedBuffer scratch = MakeScratch(true);
  std::vector<TensorView> saved;
  for (const GuardedTensor& blob : saved_) {
    saved.push_back(options_.save ? blob.view() : TensorView());
  }
  const ForwardArgs args{context_,
                         case_.infer_context().phase,
                         layer_id_,
                         input_views_,
                         output_views_,
                         parameter_views_,
                         saved,
                         scratch.bytes(),
                         state_.get(),
                         statistics,
                         output_shapes,
                         {},
                         implementation_state_.get(),
                         options_.weights_fixed};
  if (options_.implementation != nullptr) {
    options_.implementation->Forward(case_.layer(), args);
  } else {
    case_.layer().Forward(args);
  }
  if (context_.queue() != nullptr) context_.queue()->Synchronize();
  TakeShapes(output_shapes);
  if (!scratch.Intact()) Complain("forward wrote outside scratch");
  CheckGuards("forward");
  CheckUnchanged(frozen, before, "forward");
  // The values of Input come from outside.
  for (size_t i = 0; i < outputs_.size() && case_.type().name != "Input"; ++i) {
    if (!OutputIsInput(i) && outputs_[i].HasUnwritten()) {
      Complain(StrCat("forward left elements of output ", i, " unwritten"));
    }
    if (!OutputIsInput(i) && !outputs_[i].FillIsZero()) {
      Complain(StrCat("forward left something after the last channel of output ", i));
    }
  }
}

// Applies the output shapes that a layer with dynamic outputs has set.
void Workspace::TakeShapes(const std::vector<Shape>& shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i] == output_views_[i].shape()) continue;
    if (!info_.dynamic_outputs) {
      Complain(StrCat("changed the shape of output ", i, ", which it did not declare"));
    } else if (shapes[i].count() > output_views_[i].count()) {
      Complain(StrCat("output ", i, " became larger than planned"));
    } else {
      outputs_[i].Shrink(shapes[i]);
      output_views_[i] = outputs_[i].view();
    }
  }
}

void Workspace::MakeGradients() {
  const InferContext& infer = case_.infer_context();
  for (size_t i = 0; i < info_.outputs.size(); ++i) {
    const Shape& shape = output_views_[i].shape();
    const auto count = static_cast<size_t>(shape.count());
    output_grads_.emplace_back(AsOutput({shape, infer.dtype}), memory_)
        .Set(std::span(values_.output_grads[i]).first(count));
  }
  for (size_t i = 0; i < infer.inputs.size(); ++i) {
    input_grads_.emplace_back(AsInput(infer.inputs[i], i), memory_);
  }
  for (const ParameterInfo& blob : info_.parameters) {
    Values known(static_cast<size_t>(blob.shape.count()));
    for (size_t i = 0; i < known.size(); ++i) known[i] = KnownGradient(i);
    parameter_grads_.emplace_back(blob.shape, infer.dtype, memory_).Set(known);
  }
}

bool Workspace::Wanted(size_t input) const {
  return case_.Differentiable(input) && (options_.only_input == RunOptions::kAllInputs ||
                                         options_.only_input == static_cast<int>(input));
}

Workspace::Frozen Workspace::ReadByBackward() const {
  Frozen frozen;
  const auto add = [&](const std::vector<GuardedTensor>& tensors, const char* name) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      frozen.emplace_back(StrCat(name, " ", i), &tensors[i]);
    }
  };
  add(inputs_, "input");
  add(outputs_, "output");
  add(saved_, "saved blob");
  add(parameters_, "parameter blob");
  for (size_t i = options_.in_place ? 1 : 0; i < output_grads_.size(); ++i) {
    frozen.emplace_back(StrCat("output gradient ", i), &output_grads_[i]);
  }
  return frozen;
}

void Workspace::CallBackward(std::span<std::byte> scratch) {
  std::vector<ConstTensorView> inputs, outputs, output_grads, saved;
  std::vector<TensorView> input_grads, parameter_grads;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs.push_back(At(info_.backward_reads_input, i) ? input_views_[i]
                                                       : Undeclared(input_views_[i].shape()));
    input_grads.push_back(Wanted(i) ? InputGrad(i).view() : TensorView());
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const bool reads = At(info_.backward_reads_output, i);
    outputs.push_back(reads ? ConstTensorView(output_views_[i])
                            : Undeclared(output_views_[i].shape()));
    output_grads.push_back(output_grads_[i].view());
  }
  for (const GuardedTensor& blob : saved_) saved.push_back(blob.view());
  for (size_t i = 0; i < parameter_grads_.size(); ++i) {
    const bool wanted = options_.parameter_grads && !info_.parameters[i].statistic;
    parameter_grads.push_back(wanted ? parameter_grads_[i].view() : TensorView());
  }
  const BackwardArgs args{context_,
                          case_.infer_context().phase,
                          layer_id_,
                          inputs,
                          outputs,
                          output_grads,
                          input_grads,
                          parameter_views_,
                          parameter_grads,
                          saved,
                          scratch,
                          state_.get(),
                          implementation_state_.get()};
  if (options_.implementation != nullptr) {
    options_.implementation->Backward(case_.layer(), args);
  } else {
    case_.layer().Backward(args);
  }
  if (context_.queue() != nullptr) context_.queue()->Synchronize();
}

void Workspace::Backward() {
  MakeGradients();
  const Frozen frozen = ReadByBackward();
  const auto before = BytesOf(frozen);
  GuardedBuffer scratch = MakeScratch(false);
  CallBackward(scratch.bytes());
  if (!scratch.Intact()) Complain("backward wrote outside scratch");
  CheckGuards("backward");
  CheckUnchanged(frozen, before, "backward");
  for (size_t i = 0; i < inputs_.size(); ++i) {
    result_.input_grads.emplace_back();
    if (!Wanted(i)) continue;
    if (!(options_.in_place && i == 0) && input_grads_[i].HasUnwritten()) {
      Complain(StrCat("backward left elements of input gradient ", i, " unwritten"));
    }
    if (!InputGrad(i).FillIsZero()) {
      Complain(StrCat("backward left something after the last channel of input gradient ", i));
    }
    result_.input_grads.back() = InputGrad(i).Values();
  }
  for (const GuardedTensor& grad : parameter_grads_) {
    Values added = grad.Values();
    for (size_t i = 0; i < added.size(); ++i) added[i] -= KnownGradient(i);
    result_.parameter_grads.push_back(std::move(added));
  }
}

RunResult Workspace::Run() {
  const bool runs = !info_.view && !info_.share;
  if (runs) Forward();
  if (runs && options_.weights_fixed) Forward();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    result_.outputs.push_back((OutputIsInput(i) ? inputs_[0] : outputs_[i]).Values());
  }
  if (!options_.backward) return std::move(result_);
  if (info_.view) {
    result_.input_grads = {values_.output_grads[0]};
    return std::move(result_);
  }
  Backward();
  return std::move(result_);
}

}  // namespace

RunResult RunLayer(const LayerCase& layer_case, const CaseValues& values,
                   const RunOptions& options) {
  return Workspace(layer_case, values, options).Run();
}

}  // namespace crema::test
