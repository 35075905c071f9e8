// What RNN, LSTM and GRU have in common: bottoms, tops, blobs, directions, the state between
// batches. A cell (lstm.cc, rnn.cc, gru.cc) adds the mathematics of its steps.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "crema.pb.h"
#include "graph/layer.h"
#include "graph/registry.h"
#include "layers/recurrent/recurrent_state.h"
#include "layers/recurrent/sequence_pass.h"
#include "math/scratch.h"

namespace crema {

// What sets one cell apart; sizes are multiples of num_output.
struct RecurrentCell {
  int64_t gates = 1;  // width of the input projection
  size_t states = 1;  // h, c
  bool needs_cont = true;
  std::array<const char*, kRecurrentBlobs> roles{};  // null: the cell has no such blob
  int64_t extra_bias = 1;                            // length of kExtraBias
  std::array<int64_t, kMostTapes> tapes{};           // what is kept of a row; 0: nothing
};

// Thread safety: const after construction.
class RecurrentLayer : public Layer {
 public:
  RecurrentLayer(const LayerParameter& param, const RecurrentCell& cell);

  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override { ForwardWith(args, {}); }
  void Backward(const BackwardArgs& args) const override { BackwardWith(args, {}); }
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info,
                        int threads) const override;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const override;
  std::unique_ptr<LayerSessionState> MakeState(const ExecContext&, Phase) const override;

  // With other products than Gemm: by direction, or none.
  void ForwardWith(const ForwardArgs& args, std::span<SequenceProducts* const> products) const;
  void BackwardWith(const BackwardArgs& args, std::span<SequenceProducts* const> products) const;

  // What follows is for what runs a layer: how it is laid out.
  // Indices of the bottoms; -1: not there.
  struct Bottoms {
    int cont = -1;
    int x_static = -1;
    int initial = -1;  // first of the initial states
  };
  Bottoms BottomsOf(size_t count) const;
  int64_t Hidden() const { return recurrent_.num_output(); }
  int Directions() const;
  bool Reverse(int direction) const;
  // Whether a batch begins with the states that the last one left.
  bool Carries(const Bottoms& bottoms) const;
  bool Has(RecurrentBlob blob, const SequenceSize& extent) const;
  SequenceSize SizesOf(const Shape& x, const Shape* x_static) const;
  SequenceSize SizesOf(const InferContext& context) const;
  // Throws kInvalidArgument: a batch with other streams goes on where `before` were.
  [[noreturn]] void FailOtherStreams(int64_t streams, int64_t before) const;
  // Index of the first learned blob of a direction.
  size_t FirstBlob(size_t blobs, int direction) const;
  const RecurrentCell& cell() const { return cell_; }
  // What the passes of both ways have in common.
  template <typename T, typename Args>
  void FillPass(const Args& args, const Bottoms& bottoms, int direction,
                SequencePass<T>* pass) const;

  // Scratch elements of the cell itself.
  virtual int64_t ForwardElements(const SequenceSize& extent) const = 0;
  virtual int64_t BackwardElements(const SequenceSize& extent) const = 0;

 protected:
  virtual void Run(const ForwardPass<float>& pass) const = 0;
  virtual void Run(const ForwardPass<double>& pass) const = 0;
  virtual void Run(const BackwardPass<float>& pass) const = 0;
  virtual void Run(const BackwardPass<double>& pass) const = 0;

 private:
  void CheckInputs(const InferContext& context, const Bottoms& bottoms) const;
  std::vector<LearnedBlob> LearnedBlobs(const SequenceSize& extent) const;
  size_t ScratchSize(const InferContext& context, int64_t cell, bool forward) const;

  template <typename T>
  void CutScratch(int64_t cell, ScratchCutter* cutter, SequencePass<T>* pass) const;
  template <typename T>
  void ForwardDirection(const ForwardArgs& args, const Bottoms& bottoms, int direction,
                        SequenceProducts* products) const;
  template <typename T>
  void BackwardDirection(const BackwardArgs& args, const Bottoms& bottoms, int direction,
                         SequenceProducts* products) const;
  template <typename T>
  void LoadCarried(const ForwardArgs& args, const SequenceSize& extent, T* initial) const;

  const RecurrentCell cell_;
  const RecurrentParameter& recurrent_;
};

// Of one way: T is the element type of a row of any device.
template <typename T, typename Args>
void RecurrentLayer::FillPass(const Args& args, const Bottoms& bottoms, int direction,
                              SequencePass<T>* pass) const {
  // Halves of GPUs have no DTypeOf that data() could check.
  const auto elements = [](const ConstTensorView& view) {
    if constexpr (std::is_floating_point_v<T>) {
      return view.data<T>();
    } else {
      return static_cast<const T*>(view.raw());
    }
  };
  const auto input = [&](int i) {
    return i < 0 ? nullptr : elements(args.inputs[static_cast<size_t>(i)]);
  };
  const Shape* x_static =
      bottoms.x_static < 0 ? nullptr : &args.inputs[static_cast<size_t>(bottoms.x_static)].shape();
  const SequenceSize e = SizesOf(args.inputs[0].shape(), x_static);
  pass->threads = args.context.threads();
  pass->extent = e;
  pass->reverse = Reverse(direction);
  pass->x = input(0);
  pass->cont = input(bottoms.cont);
  pass->x_static = input(bottoms.x_static);
  pass->y_stride = Directions() * e.hidden;
  for (size_t s = 0; bottoms.initial >= 0 && s < cell_.states; ++s) {
    pass->initial[s] = input(bottoms.initial + static_cast<int>(s)) + direction * e.state();
  }
  size_t blob = FirstBlob(args.learned.size(), direction);
  for (size_t b = 0; b < kRecurrentBlobs; ++b) {
    if (!Has(static_cast<RecurrentBlob>(b), e)) continue;
    pass->learned[b] = elements(args.learned[blob++]);
  }
}

// A layer whose steps are Cell::Forward(pass) and Cell::Backward(pass), function templates over
// the element type; the numbers of scratch elements are Cell::ForwardElements(extent), ...
template <typename Cell>
class RecurrentLayerOf final : public RecurrentLayer {
 public:
  explicit RecurrentLayerOf(const LayerParameter& param)
      : RecurrentLayer(param, Cell(param).Describe()), steps_(param) {}

  int64_t ForwardElements(const SequenceSize& e) const override {
    return steps_.ForwardElements(e);
  }
  int64_t BackwardElements(const SequenceSize& e) const override {
    return steps_.BackwardElements(e);
  }

 protected:
  void Run(const ForwardPass<float>& pass) const override { steps_.Forward(pass); }
  void Run(const ForwardPass<double>& pass) const override { steps_.Forward(pass); }
  void Run(const BackwardPass<float>& pass) const override { steps_.Backward(pass); }
  void Run(const BackwardPass<double>& pass) const override { steps_.Backward(pass); }

 private:
  const Cell steps_;
};

// What the registrations of the three types share: arity, documents of common bottoms and tops,
// bad samples.
LayerType RecurrentType(const std::string& name, const RecurrentCell& cell);
// A sample; `fields` go into recurrent_param beside the fillers.
LayerSample RecurrentSample(std::string name, const std::string& fields,
                            std::vector<SampleInput> inputs, int outputs = 1);

}  // namespace crema
