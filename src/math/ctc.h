// Connectionist temporal classification (Graves, Fernandez, Gomez, Schmidhuber 2006): the
// probability of a label sequence, summed over all its alignments in time.
#pragma once

#include <cstdint>
#include <span>

namespace crema {

// One sequence. Class c at time t is logits[t * time_stride + c].
template <typename T>
struct CtcSequence {
  const T* logits = nullptr;
  int64_t time_stride = 0;
  int64_t classes = 0;
  int64_t steps = 0;
  std::span<const T> labels;  // whole numbers 0..classes-1, none of them the blank
  int64_t blank = 0;
};

// Returns the fewest steps that can hold the labels: one for each, and a blank between equal
// neighbours.
template <typename T>
int64_t CtcFewestSteps(std::span<const T> labels);

// Returns the doubles that CtcLoss needs for up to that many steps and labels.
int64_t CtcScratch(int64_t steps, int64_t labels);

// Returns -ln P(labels), after a softmax over the classes of each step; infinity if no alignment is
// possible. `gradient` is null, or is written for all steps, laid out as the logits; its values are
// unspecified if the result is not finite. Forward-backward in log space.
template <typename T>
double CtcLoss(const CtcSequence<T>& sequence, T* gradient, double* scratch);

}  // namespace crema
