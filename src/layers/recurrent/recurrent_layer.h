// Base of RNN, LSTM and GRU: bottoms, tops, parameters, directions, and the state between batches.
// A cell (lstm.cc, rnn.cc, gru.cc) adds the computation of its steps.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "graph/layer.h"
#include "graph/registry.h"
#include "layers/elements.h"
#include "layers/recurrent/recurrent_state.h"
#include "layers/recurrent/sequence_pass.h"
#include "math/scratch.h"

namespace crema {

// Properties of one cell; sizes are multiples of num_output.
struct RecurrentCell {
  int64_t gates = 1;  // width of the input projection
  size_t states = 1;  // h, c
  bool needs_cont = true;
  std::array<const char*, kRecurrentBlobs> roles{};  // null: no such blob
  int64_t extra_bias = 1;                            // length of kExtraBias
  std::array<int64_t, kMostTapes> tapes{};           // saved width per row; 0 means none
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

  // Use other products than Gemm, one for each direction; empty means Gemm.
  void ForwardWith(const ForwardArgs& args, std::span<SequenceProducts* const> products) const;
  void BackwardWith(const BackwardArgs& args, std::span<SequenceProducts* const> products) const;

  // The members below describe the layout of the layer to its implementations.
  // Indices of the bottoms; -1 means absent.
  struct Bottoms {
    int cont = -1;
    int x_static = -1;
    int initial = -1;  // first of the initial states
  };
  Bottoms BottomsOf(size_t count) const;
  int64_t Hidden() const { return recurrent_.num_output(); }
  int Directions() const;
  bool Reverse(int direction) const;
  // Returns true if a batch begins with the final states of the last batch.
  bool Carries(const Bottoms& bottoms) const;
  bool Has(RecurrentBlob blob, const SequenceSize& sizes) const;
  SequenceSize SizesOf(const Shape& x, const Shape* x_static) const;
  SequenceSize SizesOf(const InferContext& context) const;
  // Throws kInvalidArgument: a batch with another number of streams continues `before` streams.
  [[noreturn]] void FailOtherStreams(int64_t streams, int64_t before) const;
  // Returns the index of the first parameter of a direction; `blobs` is their total number.
  size_t FirstBlob(size_t blobs, int direction) const;
  const RecurrentCell& cell() const { return cell_; }
  // Fills the members shared by the forward and backward pass, except the scratch.
  template <typename T, typename Args>
  void FillPass(const Args& args, const Bottoms& bottoms, int direction,
                SequencePass<T>* pass) const;
  // Fill a pass in one direction; T is the element type on any device. Forward returns where the
  // initial states that are carried from the last batch belong; null if none are.
  template <typename T>
  T* FillForward(const ForwardArgs& args, int direction, ScratchCutter* cutter,
                 ForwardPass<T>* pass) const;
  template <typename T>
  void FillBackward(const BackwardArgs& args, int direction, BackwardPass<T>* pass) const;

  // Returns the number of elements of the cell's own scratch.
  virtual int64_t ForwardElements(const SequenceSize& sizes) const = 0;
  virtual int64_t BackwardElements(const SequenceSize& sizes) const = 0;

 protected:
  virtual void Run(const ForwardPass<float>& pass) const = 0;
  virtual void Run(const ForwardPass<double>& pass) const = 0;
  virtual void Run(const BackwardPass<float>& pass) const = 0;
  virtual void Run(const BackwardPass<double>& pass) const = 0;

 private:
  void CheckInputs(const InferContext& context, const Bottoms& bottoms) const;
  std::vector<ParameterInfo> ParameterInfos(const SequenceSize& sizes) const;
  size_t ScratchSize(const InferContext& context, int64_t cell, bool forward) const;

  // Returns the number of elements of one direction of a tape: steps x streams x width.
  int64_t TapeSize(const SequenceSize& e, size_t tape) const {
    return e.rows() * cell_.tapes[tape] * e.hidden;
  }
  template <typename T>
  void CutScratch(int64_t cell, ScratchCutter* cutter, SequencePass<T>* pass) const;
  template <typename T>
  void ForwardDirection(const ForwardArgs& args, int direction, SequenceProducts* products) const;
  template <typename T>
  void LoadCarried(const ForwardArgs& args, const SequenceSize& sizes, T* initial) const;

  const RecurrentCell cell_;
  const RecurrentParameter& recurrent_;
};

template <typename T, typename Args>
void RecurrentLayer::FillPass(const Args& args, const Bottoms& bottoms, int direction,
                              SequencePass<T>* pass) const {
  const auto input = [&](int i) {
    return i < 0 ? nullptr : Elements<T>(args.inputs[static_cast<size_t>(i)]);
  };
  const Shape* x_static =
      bottoms.x_static < 0 ? nullptr : &args.inputs[static_cast<size_t>(bottoms.x_static)].shape();
  const SequenceSize e = SizesOf(args.inputs[0].shape(), x_static);
  pass->sizes = e;
  pass->threads = args.context.threads();
  pass->reverse = Reverse(direction);
  pass->x = input(0);
  pass->cont = input(bottoms.cont);
  pass->x_static = input(bottoms.x_static);
  pass->y_stride = Directions() * e.hidden;
  for (size_t s = 0; bottoms.initial >= 0 && s < cell_.states; ++s) {
    pass->initial[s] = input(bottoms.initial + static_cast<int>(s)) + direction * e.state();
  }
  size_t blob = FirstBlob(args.parameters.size(), direction);
  for (size_t b = 0; b < kRecurrentBlobs; ++b) {
    if (!Has(static_cast<RecurrentBlob>(b), e)) continue;
    pass->parameters[b] = Elements<T>(args.parameters[blob++]);
  }
}

template <typename T>
void RecurrentLayer::CutScratch(int64_t cell, ScratchCutter* cutter, SequencePass<T>* pass) const {
  const SequenceSize& e = pass->sizes;
  pass->scratch = cutter->Take<T>(cell);
  if (e.statics > 0) pass->static_scratch = cutter->Take<T>(e.streams * cell_.gates * e.hidden);
}

template <typename T>
T* RecurrentLayer::FillForward(const ForwardArgs& args, int direction, ScratchCutter* cutter,
                               ForwardPass<T>* pass) const {
  const Bottoms bottoms = BottomsOf(args.inputs.size());
  FillPass<T>(args, bottoms, direction, pass);
  const SequenceSize& e = pass->sizes;
  CutScratch(ForwardElements(e), cutter, pass);
  pass->y = Elements<T>(args.outputs[0]) + direction * e.hidden;
  size_t saved = 0;
  // Returns the next saved blob at an offset, or scratch in its place if it is not saved.
  const auto next = [&](int64_t count, int64_t offset) {
    const size_t i = saved++;
    if (i >= args.saved.size() || args.saved[i].empty()) return cutter->Take<T>(count);
    return Elements<T>(args.saved[i]) + offset;
  };
  for (size_t t = 0; t < kMostTapes; ++t) {
    const int64_t size = TapeSize(e, t);
    if (cell_.tapes[t] > 0) pass->tape[t] = next(size, direction * size);
  }
  const bool carries = direction == 0 && Carries(bottoms);
  T* const initial = carries ? next(static_cast<int64_t>(cell_.states) * e.state(), 0) : nullptr;
  for (size_t s = 0; s < cell_.states; ++s) {
    if (carries) {
      pass->initial[s] = initial + static_cast<int64_t>(s) * e.state();
    } else if (bottoms.initial >= 0) {
      pass->final[s] = Elements<T>(args.outputs[1 + s]) + direction * e.state();
    }
  }
  return initial;
}

template <typename T>
void RecurrentLayer::FillBackward(const BackwardArgs& args, int direction,
                                  BackwardPass<T>* pass) const {
  const Bottoms bottoms = BottomsOf(args.inputs.size());
  const auto input_grad = [&](int i) {
    return i < 0 ? nullptr : Elements<T>(args.input_grads[static_cast<size_t>(i)]);
  };
  ScratchCutter cutter(args.scratch);
  FillPass<T>(args, bottoms, direction, pass);
  const SequenceSize& e = pass->sizes;
  CutScratch(BackwardElements(e), &cutter, pass);
  pass->y = Elements<T>(args.outputs[0]) + direction * e.hidden;
  pass->dy = Elements<T>(args.output_grads[0]) + direction * e.hidden;
  size_t saved = 0;
  for (size_t t = 0; t < kMostTapes; ++t) {
    if (cell_.tapes[t] == 0) continue;
    pass->tapes[t] = Elements<T>(args.saved[saved++]) + direction * TapeSize(e, t);
  }
  for (size_t s = 0; s < cell_.states; ++s) {
    if (direction == 0 && Carries(bottoms)) {
      pass->initial[s] = Elements<T>(args.saved[saved]) + static_cast<int64_t>(s) * e.state();
    } else if (bottoms.initial >= 0) {
      T* grad = input_grad(bottoms.initial + static_cast<int>(s));
      if (grad != nullptr) pass->initial_grads[s] = grad + direction * e.state();
      pass->final_grads[s] = Elements<T>(args.output_grads[1 + s]) + direction * e.state();
    }
  }
  pass->dx = input_grad(0);
  pass->dstatic = input_grad(bottoms.x_static);
  pass->accumulate = direction > 0;
  size_t blob = FirstBlob(args.parameters.size(), direction);
  for (size_t b = 0; b < kRecurrentBlobs; ++b) {
    if (!Has(static_cast<RecurrentBlob>(b), e)) continue;
    pass->parameter_grads[b] = Elements<T>(args.parameter_grads[blob++]);
  }
}

// A layer whose steps are Cell::Forward(pass) and Cell::Backward(pass), function templates over the
// element type. Cell::ForwardElements(sizes) and Cell::BackwardElements(sizes) return the number
// of scratch elements.
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

// Returns the shared part of the registrations of RNN, LSTM and GRU: arity, documentation of common
// bottoms and tops, bad samples.
LayerType RecurrentType(const std::string& name, const RecurrentCell& cell);
// Returns a sample; `fields` are added to the fillers in recurrent_param.
LayerSample RecurrentSample(std::string name, const std::string& fields,
                            std::vector<SampleInput> inputs, int outputs = 1);

}  // namespace crema
