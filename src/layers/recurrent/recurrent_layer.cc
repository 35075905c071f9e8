#include "layers/recurrent/recurrent_layer.h"

#include <algorithm>
#include <span>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

// Returns the number of elements of one direction of a tape: steps x streams x width.
int64_t TapeSize(const SequenceSize& e, int64_t width) { return e.rows() * width * e.hidden; }

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
  for (int64_t width : cell_.tapes) total += bytes(TapeSize(e, width));
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

template <typename T>
void RecurrentLayer::CutScratch(int64_t cell, ScratchCutter* cutter, SequencePass<T>* pass) const {
  const SequenceSize& e = pass->extent;
  pass->scratch = cutter->Take<T>(cell);
  if (e.statics > 0) pass->static_scratch = cutter->Take<T>(e.streams * cell_.gates * e.hidden);
}

void RecurrentLayer::FailOtherStreams(int64_t streams, int64_t before) const {
  FailInputs(
      *this,
      StrCat("this batch has ", streams, " streams and the last one had ", before,
             ", so that it is not known which sequences continue; set cont to 0 in the first ",
             "step of all streams when their number changes"));
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

// Returns the saved blobs in order, or scratch in place of blobs that are not saved.
template <typename T>
class Places {
 public:
  Places(std::span<const TensorView> saved, ScratchCutter* cutter)
      : saved_(saved), cutter_(cutter) {}

  // Returns `count` elements at `offset` of the next saved blob.
  T* Next(int64_t count, int64_t offset) {
    const size_t i = next_++;
    if (i >= saved_.size() || saved_[i].empty()) return cutter_->Take<T>(count);
    return saved_[i].template data<T>() + offset;
  }

 private:
  std::span<const TensorView> saved_;
  ScratchCutter* cutter_;
  size_t next_ = 0;
};

template <typename T>
void RecurrentLayer::ForwardDirection(const ForwardArgs& args, const Bottoms& bottoms,
                                      int direction, SequenceProducts* products) const {
  ForwardPass<T> pass;
  pass.products = products;
  FillPass<T>(args, bottoms, direction, &pass);
  const SequenceSize& e = pass.extent;
  ScratchCutter cutter(args.scratch);
  CutScratch(ForwardElements(e), &cutter, &pass);
  pass.y = args.outputs[0].data<T>() + direction * e.hidden;
  Places<T> places(args.saved, &cutter);
  for (size_t t = 0; t < kMostTapes; ++t) {
    const int64_t size = TapeSize(e, cell_.tapes[t]);
    if (cell_.tapes[t] > 0) pass.tape[t] = places.Next(size, direction * size);
  }
  const bool carries = direction == 0 && Carries(bottoms);
  const int64_t states = static_cast<int64_t>(cell_.states) * e.state();
  T* initial = carries ? places.Next(states, 0) : nullptr;
  T* finals = carries ? cutter.Take<T>(states) : nullptr;
  if (carries) LoadCarried(args, e, initial);
  for (size_t s = 0; s < cell_.states; ++s) {
    const int64_t offset = static_cast<int64_t>(s) * e.state();
    if (carries) {
      pass.initial[s] = initial + offset;
      pass.final[s] = finals + offset;
    } else if (bottoms.initial >= 0) {
      pass.final[s] = args.outputs[1 + s].data<T>() + direction * e.state();
    }
  }
  Run(pass);
  if (carries && args.state != nullptr && e.streams > 0) {
    static_cast<RecurrentState*>(args.state)->Store(finals, e.streams);
  }
}

template <typename T>
T* GradientOf(const TensorView& view) {
  return view.empty() ? nullptr : view.data<T>();
}

template <typename T>
void RecurrentLayer::BackwardDirection(const BackwardArgs& args, const Bottoms& bottoms,
                                       int direction, SequenceProducts* products) const {
  const auto input_grad = [&](int i) {
    return i < 0 ? nullptr : GradientOf<T>(args.input_grads[static_cast<size_t>(i)]);
  };
  BackwardPass<T> pass;
  pass.products = products;
  FillPass<T>(args, bottoms, direction, &pass);
  const SequenceSize& e = pass.extent;
  ScratchCutter cutter(args.scratch);
  CutScratch(BackwardElements(e), &cutter, &pass);
  pass.y = args.outputs[0].data<T>() + direction * e.hidden;
  pass.dy = args.output_grads[0].data<T>() + direction * e.hidden;
  size_t saved = 0;
  for (size_t t = 0; t < kMostTapes; ++t) {
    if (cell_.tapes[t] == 0) continue;
    pass.tapes[t] = args.saved[saved++].data<T>() + direction * TapeSize(e, cell_.tapes[t]);
  }
  for (size_t s = 0; s < cell_.states; ++s) {
    if (direction == 0 && Carries(bottoms)) {
      pass.initial[s] = args.saved[saved].data<T>() + static_cast<int64_t>(s) * e.state();
    } else if (bottoms.initial >= 0) {
      T* grad = input_grad(bottoms.initial + static_cast<int>(s));
      if (grad != nullptr) pass.initial_grads[s] = grad + direction * e.state();
      pass.final_grads[s] = args.output_grads[1 + s].data<T>() + direction * e.state();
    }
  }
  pass.dx = input_grad(0);
  pass.dstatic = input_grad(bottoms.x_static);
  pass.accumulate = direction > 0;
  size_t blob = FirstBlob(args.learned.size(), direction);
  for (size_t b = 0; b < kRecurrentBlobs; ++b) {
    if (!Has(static_cast<RecurrentBlob>(b), e)) continue;
    pass.learned_grads[b] = GradientOf<T>(args.learned_grads[blob++]);
  }
  Run(pass);
}

void RecurrentLayer::ForwardWith(const ForwardArgs& args,
                                 std::span<SequenceProducts* const> products) const {
  const Bottoms bottoms = BottomsOf(args.inputs.size());
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    for (int d = 0; d < Directions(); ++d) {
      ForwardDirection<T>(args, bottoms, d, ProductsOf(products, d));
    }
  });
}

void RecurrentLayer::BackwardWith(const BackwardArgs& args,
                                  std::span<SequenceProducts* const> products) const {
  const Bottoms bottoms = BottomsOf(args.inputs.size());
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    for (int d = 0; d < Directions(); ++d)
      BackwardDirection<T>(args, bottoms, d, ProductsOf(products, d));
  });
}

}  // namespace crema
