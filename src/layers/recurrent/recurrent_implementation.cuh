// GPU implementations of recurrent layers, the counterpart of recurrent_layer.cc. `Steps` has
// Forward(run, layer, pass) and Backward(run, layer, pass), which use the scratch of the CPU's
// cell.
#pragma once

#include <vector>

#include "core/device_memory.h"
#include "layers/recurrent/sequence_pass.cuh"
#include "math/scratch.h"

namespace crema {

template <typename T>
void CutRecurrentScratch(const RecurrentLayer& layer, int64_t elements, ScratchCutter* cutter,
                         SequencePass<T>* pass) {
  const SequenceSize& e = pass->extent;
  pass->scratch = cutter->Take<T>(elements);
  if (e.statics > 0)
    pass->static_scratch = cutter->Take<T>(e.streams * layer.cell().gates * e.hidden);
}

// Requires that no sequence continues if the number of streams changed. Waits to read cont.
inline void CheckStreams(const RecurrentLayer& layer, const ForwardArgs& args,
                         const SequenceSize& e, int64_t before) {
  if (e.steps == 0) return;
  std::vector<float> cont(static_cast<size_t>(e.streams));
  Download(args.context, cont.data(), args.inputs[1].raw(), cont.size() * sizeof(float));
  for (const float c : cont) {
    if (c != 0) layer.FailOtherStreams(e.streams, before);
  }
}

// Writes the states after the last batch to `initial`, or zeros before the first batch.
template <typename T>
void LoadCarried(const GpuRun& run, const RecurrentLayer& layer, const ForwardArgs& args,
                 const SequenceSize& e, T* initial) {
  const int64_t count = static_cast<int64_t>(layer.cell().states) * e.state();
  auto* state = static_cast<RecurrentState*>(args.state);
  const bool before = state != nullptr && state->streams() > 0;
  const bool same = before && state->streams() == e.streams;
  if (before && !same) CheckStreams(layer, args, e, state->streams());
  CopyOrZero<T>(run, same ? reinterpret_cast<const T*>(state->OnDevice()) : nullptr, count,
                initial);
}

template <typename Steps, typename T>
void RecurrentForward(const GpuRun& run, const RecurrentLayer& layer, const ForwardArgs& args,
                      int direction) {
  const RecurrentLayer::Bottoms bottoms = layer.BottomsOf(args.inputs.size());
  ForwardPass<T> pass;
  layer.FillPass<T>(args, bottoms, direction, &pass);
  const SequenceSize& e = pass.extent;
  ScratchCutter cutter(args.scratch);
  CutRecurrentScratch<T>(layer, layer.ForwardElements(e), &cutter, &pass);
  pass.y = Elements<T>(args.outputs[0]) + direction * e.hidden;
  size_t saved = 0;
  for (size_t t = 0; t < kMostTapes; ++t) {
    const int64_t size = e.rows() * layer.cell().tapes[t] * e.hidden;
    if (layer.cell().tapes[t] == 0) continue;
    const TensorView view = At(args.saved, saved++);
    pass.tape[t] = view.empty() ? cutter.Take<T>(size) : Elements<T>(view) + direction * size;
  }
  if (direction == 0 && layer.Carries(bottoms)) {
    const TensorView view = At(args.saved, saved);
    const int64_t states = static_cast<int64_t>(layer.cell().states) * e.state();
    T* initial = view.empty() ? cutter.Take<T>(states) : Elements<T>(view);
    LoadCarried(run, layer, args, e, initial);
    auto* state = static_cast<RecurrentState*>(args.state);
    T* finals = state == nullptr || e.streams == 0
                    ? nullptr
                    : reinterpret_cast<T*>(state->PlaceOnDevice(e.streams));
    for (size_t s = 0; s < layer.cell().states; ++s) {
      const int64_t offset = static_cast<int64_t>(s) * e.state();
      pass.initial[s] = initial + offset;
      if (finals != nullptr) pass.final[s] = finals + offset;
    }
  }
  for (size_t s = 0; bottoms.initial >= 0 && s < layer.cell().states; ++s) {
    pass.final[s] = Elements<T>(args.outputs[1 + s]) + direction * e.state();
  }
  Steps::Forward(run, layer, pass);
}

template <typename Steps, typename T>
void RecurrentBackward(const GpuRun& run, const RecurrentLayer& layer, const BackwardArgs& args,
                       int direction) {
  const RecurrentLayer::Bottoms bottoms = layer.BottomsOf(args.inputs.size());
  const auto input_grad = [&](int i) {
    return i < 0 ? nullptr : Elements<T>(args.input_grads[static_cast<size_t>(i)]);
  };
  BackwardPass<T> pass;
  layer.FillPass<T>(args, bottoms, direction, &pass);
  const SequenceSize& e = pass.extent;
  ScratchCutter cutter(args.scratch);
  CutRecurrentScratch<T>(layer, layer.BackwardElements(e), &cutter, &pass);
  pass.y = Elements<T>(args.outputs[0]) + direction * e.hidden;
  pass.dy = Elements<T>(args.output_grads[0]) + direction * e.hidden;
  size_t saved = 0;
  for (size_t t = 0; t < kMostTapes; ++t) {
    if (layer.cell().tapes[t] == 0) continue;
    const int64_t size = e.rows() * layer.cell().tapes[t] * e.hidden;
    pass.tapes[t] = Elements<T>(args.saved[saved++]) + direction * size;
  }
  for (size_t s = 0; direction == 0 && layer.Carries(bottoms) && s < layer.cell().states; ++s) {
    pass.initial[s] = Elements<T>(args.saved[saved]) + static_cast<int64_t>(s) * e.state();
  }
  for (size_t s = 0; bottoms.initial >= 0 && s < layer.cell().states; ++s) {
    T* grad = input_grad(bottoms.initial + static_cast<int>(s));
    if (grad != nullptr) pass.initial_grads[s] = grad + direction * e.state();
    pass.final_grads[s] = Elements<T>(args.output_grads[1 + s]) + direction * e.state();
  }
  pass.dx = input_grad(0);
  pass.dstatic = input_grad(bottoms.x_static);
  pass.accumulate = direction > 0;
  size_t blob = layer.FirstBlob(args.learned.size(), direction);
  for (size_t b = 0; b < kRecurrentBlobs; ++b) {
    if (!layer.Has(static_cast<RecurrentBlob>(b), e)) continue;
    pass.learned_grads[b] = Elements<T>(args.learned_grads[blob++]);
  }
  Steps::Backward(run, layer, pass);
}

template <typename Steps>
void RecurrentForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const auto& recurrent = static_cast<const RecurrentLayer&>(layer);
  const GpuRun run{BoundQueue(args.context), args.inputs[0].dtype()};
  DispatchCudaFloat(run.dtype, [&]<typename T>(T) {
    for (int d = 0; d < recurrent.Directions(); ++d) {
      RecurrentForward<Steps, T>(run, recurrent, args, d);
    }
  });
}

template <typename Steps>
void RecurrentBackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const auto& recurrent = static_cast<const RecurrentLayer&>(layer);
  const GpuRun run{BoundQueue(args.context), args.inputs[0].dtype()};
  DispatchCudaFloat(run.dtype, [&]<typename T>(T) {
    for (int d = 0; d < recurrent.Directions(); ++d) {
      RecurrentBackward<Steps, T>(run, recurrent, args, d);
    }
  });
}

inline size_t RecurrentScratch(const OpDesc& query, bool forward) {
  const auto& layer = static_cast<const RecurrentLayer&>(query.layer);
  const SequenceSize e = layer.SizesOf(query.context);
  const auto bytes = [&](int64_t count) {
    return ScratchBytes<std::byte>(count * static_cast<int64_t>(SizeOf(query.context.dtype)));
  };
  size_t total = kScratchSlack + bytes(e.streams * layer.cell().gates * e.hidden);
  if (!forward) return total + bytes(layer.BackwardElements(e));
  total += bytes(static_cast<int64_t>(layer.cell().states) * e.state());  // carried states
  for (const int64_t width : layer.cell().tapes) total += bytes(e.rows() * width * e.hidden);
  return total + bytes(layer.ForwardElements(e));
}

inline Support SupportsRecurrent(const OpDesc& query) {
  const auto& layer = static_cast<const RecurrentLayer&>(query.layer);
  if (query.context.dtype != DType::kF32 &&
      layer.Carries(layer.BottomsOf(query.context.inputs.size()))) {
    return Support::No("states that go from one batch to the next are kept in f32");
  }
  return SupportsCudaFloats(query);
}

template <typename Steps>
ImplementationPtr MakeRecurrentImplementation() {
  return MakeCudaImplementation(
      RecurrentForwardOnGpu<Steps>, RecurrentBackwardOnGpu<Steps>,
      {.supports = SupportsRecurrent,
       .forward_scratch = [](const OpDesc& query) { return RecurrentScratch(query, true); },
       .backward_scratch = [](const OpDesc& query) { return RecurrentScratch(query, false); }});
}

}  // namespace crema
