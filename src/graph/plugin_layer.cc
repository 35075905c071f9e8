#include "graph/plugin_layer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "core/parallel_for.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "crema/plugin.h"
#include "format/prototxt.h"

namespace crema {
namespace {

// The part of a structure that its writer knew; the rest is zero.
template <typename Struct>
Struct Known(const Struct* written) {
  Struct known{};
  std::memcpy(&known, written, std::min(written->struct_size, sizeof(Struct)));
  return known;
}

struct PluginType {
  crema_plugin_layer functions;
  std::shared_ptr<const PluginFacts> plugin;
};

// Throws the error of a function of a plugin; `field` as in FailField.
[[noreturn]] void FailCall(const PluginType& type, const Layer& layer, int32_t status,
                           const crema_plugin_error& error, const std::string& field) {
  constexpr std::array kCodes = {ErrorCode::kInternal, ErrorCode::kInvalidArgument,
                                 ErrorCode::kUnsupported, ErrorCode::kOutOfMemory,
                                 ErrorCode::kDeviceFailure};
  const bool known = status > 0 && static_cast<size_t>(status) < kCodes.size();
  std::string message(error.message, ::strnlen(error.message, sizeof(error.message)));
  if (message.empty()) message = StrCat("ended with status ", status);
  Where where{.layer = layer.param().name()};
  where.field = field;
  Fail(known ? kCodes[static_cast<size_t>(status)] : ErrorCode::kInternal,
       StrCat(message, " (", ToString(*type.plugin), ")"), std::move(where));
}

template <typename Function, typename... Args>
void Call(const PluginType& type, const Layer& layer, const std::string& field, Function function,
          Args... args) {
  crema_plugin_error error{};
  const int32_t status = function(args..., &error);
  if (status != CREMA_PLUGIN_OK) FailCall(type, layer, status, error, field);
}

int32_t ElementType(DType dtype) {
  return dtype == DType::kF64 ? CREMA_PLUGIN_FLOAT64 : CREMA_PLUGIN_FLOAT32;
}

crema_plugin_tensor TensorOf(const void* data, const Shape& shape) {
  return {const_cast<void*>(data), shape.count(), shape.dims().data(), shape.axes()};
}

std::vector<bool> BitsOf(uint64_t bits, size_t count) {
  std::vector<bool> flags(count);
  for (size_t i = 0; i < count; ++i) flags[i] = (bits >> i & 1) != 0;
  return flags;
}

class PluginState final : public LayerSessionState {
 public:
  PluginState(void* state, void (*close)(void*)) : state_(state), close_(close) {}
  ~PluginState() override {
    if (close_ != nullptr) close_(state_);
  }
  void* get() const { return state_; }

 private:
  void* const state_;
  void (*const close_)(void*);
};

class PluginLayer final : public Layer {
 public:
  PluginLayer(const LayerParameter& param, std::shared_ptr<const PluginType> type)
      : Layer(param), type_(std::move(type)) {
    Call(*type_, *this, "plugin_param.param_str", functions().create,
         param.plugin_param().param_str().c_str(), &handle_);
  }
  ~PluginLayer() override { functions().destroy(handle_); }

  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override;
  void Backward(const BackwardArgs& args) const override;
  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override {
    return Scratch(context, threads);
  }
  size_t BackwardScratch(const InferContext& context, const LayerInfo&,
                         int threads) const override {
    return Scratch(context, threads);
  }
  std::unique_ptr<LayerSessionState> MakeState(const ExecContext&, Phase) const override {
    if (functions().open_state == nullptr) return nullptr;
    void* state = nullptr;
    Call(*type_, *this, "", functions().open_state, static_cast<const void*>(handle_), &state);
    return std::make_unique<PluginState>(state, functions().close_state);
  }

  const crema_plugin_layer& functions() const { return type_->functions; }
  const PluginType& type() const { return *type_; }
  const void* handle() const { return handle_; }
  size_t Scratch(const InferContext& context, int threads) const;

 private:
  const std::shared_ptr<const PluginType> type_;
  void* handle_ = nullptr;
};

// One call of infer, and the memory that it fills.
class Inference {
 public:
  Inference(const PluginLayer& layer, const InferContext& context) : layer_(layer) {
    for (const BlobSpec& input : context.inputs) {
      bottoms_.push_back(TensorOf(nullptr, input.shape));
    }
    tops_.resize(context.output_count, {.axes = -1, .sizes = {}});
    raw_.struct_size = sizeof(raw_);
    raw_.phase = context.phase;
    raw_.type = ElementType(context.dtype);
    raw_.bottom_count = static_cast<int32_t>(bottoms_.size());
    raw_.top_count = static_cast<int32_t>(tops_.size());
    raw_.bottoms = bottoms_.data();
    raw_.tops = tops_.data();
    raw_.add_parameter = AddParameter;
    raw_.host = this;
    Call(layer.type(), layer, "bottom", layer.functions().infer, layer.handle(), &raw_);
    if (failure_) std::rethrow_exception(failure_);
  }
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  const crema_plugin_infer& raw() const { return raw_; }
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  Shape Top(size_t index) const {
    const crema_plugin_shape& top = tops_[index];
    if (top.axes < 0 || top.axes > Shape::kMaxAxes) {
      Refuse(StrCat("infer gives top ", index, " ", top.axes < 0 ? "no shape" : "too many axes"));
    }
    return Shape({top.sizes, static_cast<size_t>(top.axes)});
  }
  [[noreturn]] void Refuse(const std::string& why) const {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a fault of ", ToString(*layer_.type().plugin), ": ", why),
         {.layer = layer_.param().name()});
  }

 private:
  static void AddParameter(crema_plugin_infer* infer, const crema_plugin_parameter* parameter) {
    auto* self = static_cast<Inference*>(infer->host);
    try {
      self->Add(Known(parameter));
    } catch (...) {
      if (!self->failure_) self->failure_ = std::current_exception();
    }
  }
  void Add(const crema_plugin_parameter& parameter) {
    const std::string role = parameter.role == nullptr ? "blob" : parameter.role;
    FillerParameter filler;
    std::vector<Problem> problems;
    if (parameter.filler != nullptr) {
      ParseText(parameter.filler, role, &filler, nullptr, &problems);
    }
    if (!problems.empty()) Refuse(StrCat("a filler: ", problems.front().message));
    if (parameter.axes < 0 || parameter.axes > Shape::kMaxAxes) Refuse("a parameter has no shape");
    parameters_.push_back({.role = role,
                           .shape = Shape({parameter.sizes, static_cast<size_t>(parameter.axes)}),
                           .filler = filler});
  }

  const PluginLayer& layer_;
  std::vector<crema_plugin_tensor> bottoms_;
  std::vector<crema_plugin_shape> tops_;
  std::vector<ParameterInfo> parameters_;
  crema_plugin_infer raw_{};
  std::exception_ptr failure_;
};

// One call of forward or backward, with copies of the views.
class Pass {
 public:
  using Function = decltype(crema_plugin_layer::forward);

  template <typename Args>
  Pass(const PluginLayer& layer, Function function, const Args& args)
      : layer_(layer), function_(function) {
    raw_.struct_size = sizeof(raw_);
    raw_.phase = args.phase;
    raw_.threads = args.context.threads();
    raw_.seed = MixBits(MixBits(args.context.seed(), args.layer_id), args.context.step());
    raw_.scratch = args.scratch.data();
    raw_.scratch_bytes = args.scratch.size();
    const auto* state = static_cast<const PluginState*>(args.state);
    if (state != nullptr) raw_.state = state->get();
    if (!args.saved.empty()) raw_.saved = const_cast<void*>(args.saved[0].raw());
    raw_.parallel_for = ParallelForOfPass;
    raw_.host = this;
    raw_.bottoms = Add(args.inputs, &raw_.bottom_count);
    raw_.tops = Add(args.outputs, &raw_.top_count);
    raw_.parameters = Add(args.parameters, &raw_.parameter_count);
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  void AddGradients(const BackwardArgs& args) {
    int32_t counted = 0;
    raw_.bottom_gradients = Add(args.input_grads, &counted);
    raw_.top_gradients = Add(args.output_grads, &counted);
    raw_.parameter_gradients = Add(args.parameter_grads, &counted);
  }
  // For a GPU, where passes are captured: later ones would repeat random numbers.
  void set_stream(void* stream) {
    raw_.stream = stream;
    raw_.seed = 0;
  }
  void Run() {
    raw_.type = ElementType(dtype_);
    crema_plugin_error error{};
    const int32_t status = function_(layer_.handle(), &raw_, &error);
    if (failure_) std::rethrow_exception(failure_);
    if (status != CREMA_PLUGIN_OK) FailCall(layer_.type(), layer_, status, error, "");
  }

 private:
  struct Views {
    std::vector<Shape> shapes;
    std::vector<crema_plugin_tensor> tensors;
  };

  template <typename List>
  const crema_plugin_tensor* Add(const List& views, int32_t* count) {
    Views& added = views_[used_++];
    *count = static_cast<int32_t>(views.size());
    added.shapes.reserve(views.size());
    added.tensors.reserve(views.size() + 1);  // data() is not null
    for (const auto& view : views) {
      if (!view.empty()) dtype_ = view.dtype();
      added.shapes.push_back(view.shape());
      added.tensors.push_back(TensorOf(view.raw(), added.shapes.back()));
    }
    return added.tensors.data();
  }
  static int32_t ParallelForOfPass(const crema_plugin_pass* pass, int64_t count, int64_t grain,
                                   void (*body)(void*, int64_t, int64_t, int32_t), void* data) {
    auto* self = static_cast<Pass*>(pass->host);
    try {
      ParallelFor(pass->threads, count, grain,
                  [&](int64_t begin, int64_t end, int worker) { body(data, begin, end, worker); });
      return CREMA_PLUGIN_OK;
    } catch (...) {
      self->failure_ = std::current_exception();
      return CREMA_PLUGIN_OUT_OF_MEMORY;
    }
  }

  const PluginLayer& layer_;
  const Function function_;
  crema_plugin_pass raw_{};
  std::array<Views, 6> views_;
  size_t used_ = 0;
  DType dtype_ = DType::kF32;
  std::exception_ptr failure_;
};

LayerInfo PluginLayer::Infer(const InferContext& context) const {
  const Inference inference(*this, context);
  const crema_plugin_infer& raw = inference.raw();
  LayerInfo info;
  for (size_t t = 0; t < context.output_count; ++t) {
    info.outputs.push_back({inference.Top(t), context.dtype});
  }
  info.parameters = inference.parameters();
  if (raw.saved_bytes > 0) {
    info.saved.push_back({Shape({static_cast<int64_t>(raw.saved_bytes)}), DType::kU8});
  }
  info.backward_reads_input = BitsOf(raw.backward_reads_bottoms, context.inputs.size());
  info.backward_reads_output = BitsOf(raw.backward_reads_tops, context.output_count);
  info.gradient_forbidden = BitsOf(raw.no_gradient, context.inputs.size());
  info.shared_inputs = BitsOf(raw.shared_bottoms, context.inputs.size());
  if (raw.reach < 0 || raw.reach > CREMA_PLUGIN_REACH_ELEMENT) {
    inference.Refuse(StrCat("infer sets reach to ", raw.reach));
  }
  info.reach = static_cast<Reach>(raw.reach);
  info.in_place = (raw.flags & CREMA_PLUGIN_IN_PLACE) != 0;
  info.constant = (raw.flags & CREMA_PLUGIN_CONSTANT) != 0;
  info.moves_only = (raw.flags & CREMA_PLUGIN_MOVES_ONLY) != 0;
  return info;
}

size_t PluginLayer::Scratch(const InferContext& context, int threads) const {
  const Inference inference(*this, context);
  const crema_plugin_infer& raw = inference.raw();
  return raw.scratch_bytes + raw.scratch_bytes_per_thread * static_cast<size_t>(threads);
}

void PluginLayer::Forward(const ForwardArgs& args) const {
  Pass(*this, functions().forward, args).Run();
}

void PluginLayer::Backward(const BackwardArgs& args) const {
  if (functions().backward == nullptr) Layer::Backward(args);  // throws
  Pass pass(*this, functions().backward, args);
  pass.AddGradients(args);
  pass.Run();
}

const PluginLayer& AsPlugin(const Layer& layer) { return dynamic_cast<const PluginLayer&>(layer); }

void CheckType(const crema_plugin_layer& layer, const PluginFacts& plugin) {
  const auto refuse = [&](const std::string& why) {
    Fail(ErrorCode::kInvalidArgument, StrCat(ToString(plugin), " is faulty: ", why),
         {.file = plugin.path});
  };
  if (layer.struct_size < offsetof(crema_plugin_layer, backward))
    refuse("a layer type is too short");
  if (layer.type == nullptr || *layer.type == '\0') refuse("a layer type has no name");
  if (layer.create == nullptr || layer.destroy == nullptr || layer.infer == nullptr ||
      layer.forward == nullptr) {
    refuse(StrCat("'", layer.type, "' lacks create, destroy, infer or forward"));
  }
  for (const auto& [least, most] : {std::pair(layer.min_bottoms, layer.max_bottoms),
                                    std::pair(layer.min_tops, layer.max_tops)}) {
    if (least >= 0 && least <= most && most <= CREMA_PLUGIN_MAX_BLOBS) continue;
    refuse(StrCat("'", layer.type, "' takes ", least, " to ", most,
                  " bottoms or tops; the most is ", CREMA_PLUGIN_MAX_BLOBS));
  }
}

}  // namespace

std::string ToString(const PluginFacts& plugin) {
  return StrCat("plugin '", plugin.name, "' ", plugin.version, " (", plugin.path, ")");
}

LayerType TypeOfPlugin(const crema_plugin_layer& layer, std::shared_ptr<const PluginFacts> plugin) {
  const auto own = std::make_shared<const PluginType>(PluginType{Known(&layer), plugin});
  const crema_plugin_layer& known = own->functions;
  CheckType(known, *plugin);
  LayerType type;
  type.name = known.type;
  type.category = "plugin";
  type.summary = known.summary == nullptr ? StrCat("A layer of plugin ", plugin->name, ".")
                                          : std::string(known.summary);
  type.origin = plugin->name;
  type.param_fields = {"plugin_param"};
  type.inputs = {known.min_bottoms, known.max_bottoms};
  type.outputs = {known.min_tops, known.max_tops};
  type.default_loss_weight = known.loss_weight;
  type.plugin = std::move(plugin);
  type.make = [own](const LayerParameter& param) {
    return std::make_unique<const PluginLayer>(param, own);
  };
#ifdef CREMA_HAVE_CUDA
  if (known.cuda_forward != nullptr) type.implementations.push_back(PluginGpuImplementation());
#endif
  return type;
}

std::function<void()> PluginGpuPass(const Layer& layer, const ForwardArgs& args, void* stream) {
  const PluginLayer& own = AsPlugin(layer);
  const auto pass = std::make_shared<Pass>(own, own.functions().cuda_forward, args);
  pass->set_stream(stream);
  return [pass] { pass->Run(); };
}

std::function<void()> PluginGpuPass(const Layer& layer, const BackwardArgs& args, void* stream) {
  const PluginLayer& own = AsPlugin(layer);
  const auto pass = std::make_shared<Pass>(own, own.functions().cuda_backward, args);
  pass->AddGradients(args);
  pass->set_stream(stream);
  return [pass] { pass->Run(); };
}

size_t PluginScratch(const OpDesc& op) {
  return AsPlugin(op.layer).Scratch(op.context, op.threads);
}

Support SupportsPluginOnGpu(const OpDesc& op) {
  const crema_plugin_layer& functions = AsPlugin(op.layer).functions();
  if (functions.cuda_forward == nullptr) return Support::No("the plugin has no code for GPUs");
  if (op.context.dtype != DType::kF32) return Support::No("is for f32");
  if (op.backward && functions.backward != nullptr && functions.cuda_backward == nullptr) {
    return Support::No("the plugin has no backward pass for GPUs");
  }
  return {};
}

}  // namespace crema
