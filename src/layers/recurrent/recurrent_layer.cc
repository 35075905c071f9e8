#include "layers/recurrent/recurrent_layer.h"

#include <algorithm>
#include <span>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

SequenceProducts* ProductsOf(std::span<SequenceProducts* const> products, int direction) {
  return products.empty() ? nullptr : products[static_cast<size_t>(direction)];
}

}  // namespace

SequenceSize RecurrentLayer::SizesOf(const Shape& x, const Shape* x_static) const {
  return {.steps = x[0],
          .streams = x[1],
          .inputs = x.count(2),
          .hidden = Hidden(),
          .statics = x_static != nullptr ? x_static->count(1) : 0};
}

size_t RecurrentLayer::ScratchSize(const InferContext& context, int64_t cell, bool forward) const {
  const SequenceSize e = SizesOf(context);
  const auto bytes = [&](int64_t count) {
    return context.dtype == DType::kF32 ? ScratchBytes<float>(count) : ScratchBytes<double>(count);
  };
  size_t total = kScratchSlack + bytes(cell);
  if (e.statics > 0) total += bytes(e.streams * cell_.gates * e.hidden);
  const int64_t states = static_cast<int64_t>(cell_.states) * e.state();
  if (!forward) return total;
  for (size_t t = 0; t < kMostTapes; ++t) total += bytes(TapeSize(e, t));
  return total + 2 * bytes(states);  // carried initial and final states
}

size_t RecurrentLayer::ForwardScratch(const InferContext& context, const LayerInfo&, int) const {
  return ScratchSize(context, ForwardElements(SizesOf(context)), true);
}

size_t RecurrentLayer::BackwardScratch(const InferContext& context, const LayerInfo&, int) const {
  return ScratchSize(context, BackwardElements(SizesOf(context)), false);
}

std::unique_ptr<LayerSessionState> RecurrentLayer::MakeState(const ExecContext& context,
                                                             Phase) const {
  if (recurrent_.expose_hidden() || Reverse(0)) return nullptr;
  return std::make_unique<RecurrentState>(param().name(),
                                          static_cast<int64_t>(cell_.states) * Hidden(), context);
}

size_t RecurrentLayer::FirstBlob(size_t blobs, int direction) const {
  return blobs / static_cast<size_t>(Directions()) * static_cast<size_t>(direction);
}

void RecurrentLayer::FailOtherStreams(int64_t streams, int64_t before) const {
  FailInputs(
      *this,
      StrCat("this batch has ", streams, " streams and the last one had ", before,
             ", so it is unknown which sequences continue; set cont to 0 in the first step of ",
             "all streams when their number changes"));
}

// Writes the states after the last batch to `initial`, or zeros before the first batch.
template <typename T>
void RecurrentLayer::LoadCarried(const ForwardArgs& args, const SequenceSize& e, T* initial) const {
  const int64_t count = static_cast<int64_t>(cell_.states) * e.state();
  const auto* state = static_cast<const RecurrentState*>(args.state);
  if (state == nullptr || state->streams() == 0) return CopyOrZero<T>(nullptr, count, initial);
  if (state->streams() == e.streams) return state->Load(initial);
  const T* cont = args.inputs[1].data<T>();
  if (e.steps > 0 && std::any_of(cont, cont + e.streams, [](T c) { return c != T(0); })) {
    FailOtherStreams(e.streams, state->streams());
  }
  CopyOrZero<T>(nullptr, count, initial);
}

template <typename T>
void RecurrentLayer::ForwardDirection(const ForwardArgs& args, int direction,
                                      SequenceProducts* products) const {
  ForwardPass<T> pass;
  pass.products = products;
  ScratchCutter cutter(args.scratch);
  T* const initial = FillForward(args, direction, &cutter, &pass);
  if (initial == nullptr) return Run(pass);
  const SequenceSize& e = pass.sizes;
  T* finals = cutter.Take<T>(static_cast<int64_t>(cell_.states) * e.state());
  LoadCarried(args, e, initial);
  for (size_t s = 0; s < cell_.states; ++s) {
    pass.final[s] = finals + static_cast<int64_t>(s) * e.state();
  }
  Run(pass);
  if (args.state != nullptr && e.streams > 0) {
    static_cast<RecurrentState*>(args.state)->Store(finals, e.streams);
  }
}

void RecurrentLayer::ForwardWith(const ForwardArgs& args,
                                 std::span<SequenceProducts* const> products) const {
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    for (int d = 0; d < Directions(); ++d) {
      ForwardDirection<T>(args, d, ProductsOf(products, d));
    }
  });
}

void RecurrentLayer::BackwardWith(const BackwardArgs& args,
                                  std::span<SequenceProducts* const> products) const {
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    for (int d = 0; d < Directions(); ++d) {
      BackwardPass<T> pass;
      pass.products = ProductsOf(products, d);
      FillBackward(args, d, &pass);
      Run(pass);
    }
  });
}

}  // namespace crema
