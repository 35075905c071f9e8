// GPU implementations of recurrent layers, the counterpart of recurrent_layer.cc. `Steps` has
// Forward(run, layer, pass) and Backward(run, layer, pass), which use the scratch of the CPU's
// cell.
#pragma once

#include <vector>

#include "core/device_memory.h"
#include "layers/recurrent/sequence_pass.cuh"
#include "math/scratch.h"

namespace crema {

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

template <typename Steps>
struct GpuRecurrent {
  static const RecurrentLayer& As(const Layer& layer) {
    return static_cast<const RecurrentLayer&>(layer);
  }

  template <typename T>
  static void Forward(const Layer& any, const GpuForward<T>& args) {
    const RecurrentLayer& layer = As(any);
    const GpuRun run{args.queue, args.inputs[0].dtype()};
    for (int d = 0; d < layer.Directions(); ++d) {
      ForwardPass<T> pass;
      ScratchCutter cutter(args.scratch);
      if (T* initial = layer.FillForward(args, d, &cutter, &pass)) {
        const SequenceSize& e = pass.sizes;
        LoadCarried(run, layer, args, e, initial);
        auto* state = static_cast<RecurrentState*>(args.state);
        const bool keeps = state != nullptr && e.streams > 0;
        T* finals = keeps ? reinterpret_cast<T*>(state->PlaceOnDevice(e.streams)) : nullptr;
        for (size_t s = 0; keeps && s < layer.cell().states; ++s) {
          pass.final[s] = finals + static_cast<int64_t>(s) * e.state();
        }
      }
      Steps::Forward(run, layer, pass);
    }
  }

  template <typename T>
  static void Backward(const Layer& any, const GpuBackward<T>& args) {
    const RecurrentLayer& layer = As(any);
    const GpuRun run{args.queue, args.inputs[0].dtype()};
    for (int d = 0; d < layer.Directions(); ++d) {
      BackwardPass<T> pass;
      layer.FillBackward(args, d, &pass);
      Steps::Backward(run, layer, pass);
    }
  }

  static Support Supports(const OpDesc& query) {
    const RecurrentLayer& layer = As(query.layer);
    if (query.context.dtype != DType::kF32 &&
        layer.Carries(layer.BottomsOf(query.context.inputs.size()))) {
      return Support::No("states that go from one batch to the next are kept in f32");
    }
    return SupportsCudaFloats(query);
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const RecurrentLayer& layer = As(query.layer);
    const SequenceSize e = layer.SizesOf(query.context);
    // Includes the carried states.
    size_t total = CellScratch(query, layer.ForwardElements(e)) +
                   Bytes(query, static_cast<int64_t>(layer.cell().states) * e.state());
    for (const int64_t width : layer.cell().tapes)
      total += Bytes(query, e.rows() * width * e.hidden);
    return total;
  }
  static size_t BackwardScratch(const OpDesc& query) {
    const RecurrentLayer& layer = As(query.layer);
    return CellScratch(query, layer.BackwardElements(layer.SizesOf(query.context)));
  }

 private:
  static size_t Bytes(const OpDesc& query, int64_t count) {
    return ScratchBytes<std::byte>(count * static_cast<int64_t>(SizeOf(query.context.dtype)));
  }
  static size_t CellScratch(const OpDesc& query, int64_t elements) {
    const RecurrentLayer& layer = As(query.layer);
    const SequenceSize e = layer.SizesOf(query.context);
    return kScratchSlack + Bytes(query, e.streams * layer.cell().gates * e.hidden) +
           Bytes(query, elements);
  }
};

}  // namespace crema
