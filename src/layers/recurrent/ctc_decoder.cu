// The CTC decoders on the GPU: a thread for each sequence; see ctc_decoder.cc.
#include "layers/gpu_implementation.h"
#include "layers/recurrent/ctc_decoder.h"
#include "math/scratch.h"

namespace crema {
namespace {

template <typename T, typename Search>
void Decode(const CudaQueue& queue, const Search& of, const T* scores, const T* indicators,
            std::byte* work, T* y, T* score) {
  const Search search = of;
  const int64_t each = of.WorkBytes();
  ForElements(queue, "CtcDecode", of.items, [=] CREMA_HOST_DEVICE(int64_t n) {
    search.Decode(scores, indicators, n, work + n * each, y, score);
  });
}

template <typename T>
void SetAccuracy(const CudaQueue& queue, const CtcSequences& of, const T* y, const T* targets,
                 T* accuracy) {
  const CtcSequences sequences = of;
  ForElements(queue, "CtcAccuracy", 1, [=] CREMA_HOST_DEVICE(int64_t) {
    accuracy[0] = FromFloat<T>(sequences.Accuracy(y, targets));
  });
}

template <typename Search>
struct GpuCtcDecoder {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Search search(layer, args.inputs[0].shape());
    const size_t outputs = args.outputs.size();
    // Two tops are sequences and accuracy if there are targets.
    const bool has_accuracy = outputs > 1 && args.inputs.size() == 3;
    const bool has_scores = outputs == (has_accuracy ? size_t{3} : size_t{2});
    std::byte* work =
        ScratchCutter(args.scratch).template Take<std::byte>(search.items * search.WorkBytes());
    Decode(args.queue, search, args.x(), args.x(1), work, args.y(),
           has_scores ? args.y(1) : nullptr);
    if (has_accuracy) SetAccuracy(args.queue, search, args.y(), args.x(2), args.y(outputs - 1));
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const Search search(query.layer, query.context.inputs[0].shape);
    return ScratchBytes<std::byte>(search.items * search.WorkBytes()) + kScratchSlack;
  }
};

}  // namespace

void RegisterCTCGreedyDecoderCuda(Registry& registry) {
  registry.AddImplementation("CTCGreedyDecoder", CudaImplementation<GpuCtcDecoder<CtcGreedy>>());
}

void RegisterCTCBeamSearchDecoderCuda(Registry& registry) {
  registry.AddImplementation("CTCBeamSearchDecoder", CudaImplementation<GpuCtcDecoder<CtcBeam>>());
}

}  // namespace crema
