#include "plan/host_implementation.h"

#include <algorithm>
#include <utility>

#include "core/device_memory.h"

namespace crema {
namespace {

// Provides host copies of device views.
class Copies {
 public:
  explicit Copies(const ExecContext& context) : context_(context) {}

  // Allocates only if the memory is too small. The contents are undefined.
  TensorView Place(const ConstTensorView& device, Tensor* host) const {
    if (device.empty()) return {nullptr, device.shape(), device.dtype()};
    if (host->view().empty() || host->view().bytes() < device.bytes()) {
      *host = Tensor(device.shape(), device.dtype());
    }
    return {host->view().raw(), device.shape(), device.dtype()};
  }
  TensorView Fetch(const ConstTensorView& device, Tensor* host) const {
    const TensorView view = Place(device, host);
    if (!view.empty()) Download(context_, view.raw(), device.raw(), device.bytes());
    return view;
  }
  void Return(const ConstTensorView& host, const TensorView& device) const {
    if (!device.empty()) Upload(context_, device.raw(), host.raw(), host.bytes());
  }

  template <typename Views>
  std::vector<TensorView> PlaceAll(const Views& device, std::vector<Tensor>* host) const {
    return Each(device, host, [&](const auto& view, Tensor* at) { return Place(view, at); });
  }
  template <typename Views>
  std::vector<TensorView> FetchAll(const Views& device, std::vector<Tensor>* host) const {
    return Each(device, host, [&](const auto& view, Tensor* at) { return Fetch(view, at); });
  }
  void ReturnAll(const std::vector<TensorView>& host, std::span<const TensorView> device) const {
    for (size_t i = 0; i < device.size(); ++i) Return(host[i], device[i]);
  }

 private:
  template <typename Views, typename Function>
  static std::vector<TensorView> Each(const Views& device, std::vector<Tensor>* host,
                                      const Function& function) {
    host->resize(std::max(host->size(), device.size()));
    std::vector<TensorView> views;
    for (size_t i = 0; i < device.size(); ++i) views.push_back(function(device[i], &(*host)[i]));
    return views;
  }

  const ExecContext& context_;
};

std::vector<ConstTensorView> AsConst(const std::vector<TensorView>& views) {
  return {views.begin(), views.end()};
}

struct HostState final : ImplementationState {
  explicit HostState(const OpDesc& query)
      : threads(query.threads),
        scratch(std::max(query.layer.ForwardScratch(query.context, query.info, query.threads),
                         query.backward
                             ? query.layer.BackwardScratch(query.context, query.info, query.threads)
                             : size_t{0})) {}

  // Returns a host context that draws the same random values as the context of the session.
  ExecContext ContextOf(const ExecContext& device) const {
    ExecContext context(threads, device.seed());
    context.set_step(device.step());
    return context;
  }

  int threads;
  std::vector<std::byte> scratch;
  std::vector<Tensor> inputs, outputs, parameters, saved;
  std::vector<Tensor> output_grads, input_grads, parameter_grads;
};

void Forward(const Layer& layer, const ForwardArgs& args) {
  auto& state = *static_cast<HostState*>(args.implementation_state);
  const Copies copies(args.context);
  ExecContext context = state.ContextOf(args.context);
  const std::vector<ConstTensorView> inputs = AsConst(copies.FetchAll(args.inputs, &state.inputs));
  const std::vector<TensorView> outputs = copies.PlaceAll(args.outputs, &state.outputs);
  const std::vector<TensorView> parameters = copies.FetchAll(args.parameters, &state.parameters);
  const std::vector<TensorView> saved = copies.PlaceAll(args.saved, &state.saved);
  std::vector<TensorView> statistics;
  for (size_t i = 0; i < args.statistics.size(); ++i) {
    statistics.push_back(args.statistics[i].empty() ? TensorView() : parameters[i]);
  }
  layer.Forward({.context = context,
                 .phase = args.phase,
                 .layer_id = args.layer_id,
                 .inputs = inputs,
                 .outputs = outputs,
                 .parameters = AsConst(parameters),
                 .saved = saved,
                 .scratch = state.scratch,
                 .state = args.state,
                 .statistics = statistics,
                 .output_shapes = args.output_shapes});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool given = i < args.output_shapes.size();
    const Shape& shape = given ? args.output_shapes[i] : outputs[i].shape();
    copies.Return({outputs[i].raw(), shape, outputs[i].dtype()}, args.outputs[i]);
  }
  copies.ReturnAll(saved, args.saved);
  copies.ReturnAll(statistics, args.statistics);
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  auto& state = *static_cast<HostState*>(args.implementation_state);
  const Copies copies(args.context);
  ExecContext context = state.ContextOf(args.context);
  const std::vector<ConstTensorView> inputs = AsConst(copies.FetchAll(args.inputs, &state.inputs));
  const std::vector<ConstTensorView> outputs =
      AsConst(copies.FetchAll(args.outputs, &state.outputs));
  const std::vector<ConstTensorView> output_grads =
      AsConst(copies.FetchAll(args.output_grads, &state.output_grads));
  const std::vector<ConstTensorView> parameters =
      AsConst(copies.FetchAll(args.parameters, &state.parameters));
  const std::vector<ConstTensorView> saved = AsConst(copies.FetchAll(args.saved, &state.saved));
  const std::vector<TensorView> input_grads = copies.PlaceAll(args.input_grads, &state.input_grads);
  const std::vector<TensorView> parameter_grads =
      copies.FetchAll(args.parameter_grads, &state.parameter_grads);
  layer.Backward({.context = context,
                  .phase = args.phase,
                  .layer_id = args.layer_id,
                  .inputs = inputs,
                  .outputs = outputs,
                  .output_grads = output_grads,
                  .input_grads = input_grads,
                  .parameters = parameters,
                  .parameter_grads = parameter_grads,
                  .saved = saved,
                  .scratch = state.scratch,
                  .state = args.state});
  copies.ReturnAll(input_grads, args.input_grads);
  copies.ReturnAll(parameter_grads, args.parameter_grads);
}

}  // namespace

const Implementation& HostImplementation() {
  static const StatefulImplementation<HostState> implementation(
      {.name = "native, on the CPU", .device = DeviceType::kCuda},
      {.forward = Forward, .backward = Backward});
  return implementation;
}

}  // namespace crema
