#include "math/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "math/log_sum.h"

namespace crema {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // ln 0

// The labels with blanks around them are 2 L + 1 states; a path starts in one of the first two and
// ends in one of the last two. Each step stays, advances by one, or skips the blank between unequal
// labels.
template <typename T>
class Lattice {
 public:
  Lattice(const CtcSequence<T>& sequence, double* scratch)
      : sequence_(sequence),
        states_(2 * static_cast<int64_t>(sequence.labels.size()) + 1),
        log_norm_(scratch),
        alpha_(log_norm_ + sequence.steps),
        beta_(alpha_ + sequence.steps * states_),
        next_beta_(beta_ + states_) {}

  // Returns ln P, by the forward recursion.
  double Forward() {
    if (sequence_.steps == 0) return states_ == 1 ? 0 : kNever;
    for (int64_t t = 0; t < sequence_.steps; ++t) log_norm_[t] = LogNorm(Row(t));
    for (int64_t s = 0; s < states_; ++s) alpha_[s] = s < 2 ? LogProbability(0, s) : kNever;
    for (int64_t t = 1; t < sequence_.steps; ++t) {
      const double* before = alpha_ + (t - 1) * states_;
      for (int64_t s = 0; s < states_; ++s) {
        double sum = before[s];
        if (s > 0) sum = LogSum(sum, before[s - 1]);
        if (MaySkipTo(s)) sum = LogSum(sum, before[s - 2]);
        alpha_[t * states_ + s] = sum + LogProbability(t, s);
      }
    }
    const double* last = alpha_ + (sequence_.steps - 1) * states_;
    return states_ > 1 ? LogSum(last[states_ - 1], last[states_ - 2]) : last[0];
  }

  // Writes d(-ln P) / d logits = softmax - the probability that a path is in a state of that class.
  void Backward(double log_probability, T* gradient) {
    for (int64_t t = sequence_.steps; t-- > 0;) {
      StepBeta(t);
      T* row = gradient + t * sequence_.time_stride;
      for (int64_t c = 0; c < sequence_.classes; ++c) {
        row[c] = static_cast<T>(std::exp(static_cast<double>(Row(t)[c]) - log_norm_[t]));
      }
      const double* alpha = alpha_ + t * states_;
      for (int64_t s = 0; s < states_; ++s) {
        row[ClassOf(s)] -= static_cast<T>(std::exp(alpha[s] + beta_[s] - log_probability));
      }
    }
  }

 private:
  const T* Row(int64_t t) const { return sequence_.logits + t * sequence_.time_stride; }

  int64_t ClassOf(int64_t state) const {
    return state % 2 == 0 ? sequence_.blank
                          : static_cast<int64_t>(sequence_.labels[static_cast<size_t>(state / 2)]);
  }

  bool MaySkipTo(int64_t state) const {
    return state >= 2 && state % 2 == 1 && ClassOf(state) != ClassOf(state - 2);
  }

  double LogNorm(const T* row) const {
    const double top = static_cast<double>(*std::max_element(row, row + sequence_.classes));
    double sum = 0;
    for (int64_t c = 0; c < sequence_.classes; ++c) {
      sum += std::exp(static_cast<double>(row[c]) - top);
    }
    return top + std::log(sum);
  }

  double LogProbability(int64_t t, int64_t state) const {
    return static_cast<double>(Row(t)[ClassOf(state)]) - log_norm_[t];
  }

  // Computes beta_ of time t: ln P of the rest of the path, after t, from that of t + 1.
  void StepBeta(int64_t t) {
    std::swap(beta_, next_beta_);
    if (t == sequence_.steps - 1) {
      for (int64_t s = 0; s < states_; ++s) beta_[s] = s >= states_ - 2 ? 0 : kNever;
      return;
    }
    // From here on next_beta_ includes the probability of the state at t + 1 itself.
    for (int64_t s = 0; s < states_; ++s) next_beta_[s] += LogProbability(t + 1, s);
    for (int64_t s = 0; s < states_; ++s) {
      double sum = next_beta_[s];
      if (s + 1 < states_) sum = LogSum(sum, next_beta_[s + 1]);
      if (s + 2 < states_ && MaySkipTo(s + 2)) sum = LogSum(sum, next_beta_[s + 2]);
      beta_[s] = sum;
    }
  }

  const CtcSequence<T>& sequence_;
  const int64_t states_;
  double* log_norm_;  // ln of the sum of exp(logits), by time
  double* alpha_;     // ln P of the paths up to and with a time and state
  double* beta_;
  double* next_beta_;
};

}  // namespace

template <typename T>
int64_t CtcFewestSteps(std::span<const T> labels) {
  auto steps = static_cast<int64_t>(labels.size());
  for (size_t i = 1; i < labels.size(); ++i) steps += labels[i] == labels[i - 1];
  return steps;
}

int64_t CtcScratch(int64_t steps, int64_t labels) {
  const int64_t states = 2 * labels + 1;
  return steps + steps * states + 2 * states;
}

template <typename T>
double CtcLoss(const CtcSequence<T>& sequence, T* gradient, double* scratch) {
  Lattice<T> lattice(sequence, scratch);
  const double log_probability = lattice.Forward();
  if (gradient != nullptr) lattice.Backward(log_probability, gradient);
  return -log_probability;
}

template int64_t CtcFewestSteps(std::span<const float>);
template int64_t CtcFewestSteps(std::span<const double>);
template double CtcLoss(const CtcSequence<float>&, float*, double*);
template double CtcLoss(const CtcSequence<double>&, double*, double*);

}  // namespace crema
