// CTCGreedyDecoder on the GPU; see ctc_greedy_decoder.cc.
#include "layers/gpu_implementation.h"
#include "layers/recurrent/ctc_greedy_decoder.h"

namespace crema {
namespace {

template <typename T>
void Decode(const CudaQueue& queue, const CtcGreedy& of, const T* scores, const T* indicators, T* y,
            T* score) {
  const CtcGreedy greedy = of;
  ForElements(queue, "CtcGreedy", of.items,
              [=] CREMA_HOST_DEVICE(int64_t n) { greedy.Decode(scores, indicators, n, y, score); });
}

template <typename T>
void SetAccuracy(const CudaQueue& queue, const CtcGreedy& of, const T* y, const T* targets,
                 T* accuracy) {
  const CtcGreedy greedy = of;
  ForElements(queue, "CtcAccuracy", 1, [=] CREMA_HOST_DEVICE(int64_t) {
    accuracy[0] = FromFloat<T>(greedy.Accuracy(y, targets));
  });
}

struct GpuCtcGreedyDecoder {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const CtcGreedy greedy(layer, args.inputs[0].shape());
    const size_t outputs = args.outputs.size();
    // Two tops are sequences and accuracy if there are targets.
    const bool has_accuracy = outputs > 1 && args.inputs.size() == 3;
    const bool has_scores = outputs == (has_accuracy ? size_t{3} : size_t{2});
    Decode(args.queue, greedy, args.x(), args.x(1), args.y(), has_scores ? args.y(1) : nullptr);
    if (has_accuracy) SetAccuracy(args.queue, greedy, args.y(), args.x(2), args.y(outputs - 1));
  }
};

}  // namespace

void RegisterCTCGreedyDecoderCuda(Registry& registry) {
  registry.AddImplementation("CTCGreedyDecoder", CudaImplementation<GpuCtcGreedyDecoder>());
}

}  // namespace crema
