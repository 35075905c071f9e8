// CTCLoss on the GPU; see ctc_loss.cc and math/ctc.h. One team processes the steps of an item in
// order, with its threads split over the states. The gradient has no order in time: one team per
// step.
#include "crema.pb.h"
#include "layers/loss/gpu_loss.cuh"
#include "math/log_sum.h"

namespace crema {
namespace {

template <typename T>
struct CtcBatch {
  CREMA_HOST_DEVICE int64_t Step(int64_t n, int64_t t) const { return t * items + n; }
  // Blanks, and the labels between them.
  CREMA_HOST_DEVICE int64_t States(int64_t count) const { return 2 * count + 1; }
  CREMA_HOST_DEVICE double* Alpha(int64_t n, int64_t t) const {
    return alpha + (n * steps + t) * States(room);
  }
  CREMA_HOST_DEVICE float Label(int64_t n, int64_t i) const {
    return ToFloat(labels.data[n * room + i]);
  }
  CREMA_HOST_DEVICE bool IsPadding(int64_t n, int64_t i) const {
    return Label(n, i) == -1 || Label(n, i) == static_cast<float>(blank);
  }
  CREMA_HOST_DEVICE int64_t ClassOf(int64_t n, int64_t s) const {
    return s % 2 == 0 ? blank : static_cast<int64_t>(Label(n, s / 2));
  }
  CREMA_HOST_DEVICE bool MaySkipTo(int64_t n, int64_t s) const {
    return s >= 2 && s % 2 == 1 && ClassOf(n, s) != ClassOf(n, s - 2);
  }
  CREMA_HOST_DEVICE double LogProbability(int64_t n, int64_t t, int64_t s) const {
    const int64_t row = Step(n, t);
    return static_cast<double>(ToFloat(logits[row * classes + ClassOf(n, s)])) - norms[row];
  }

  // Returns a whole number 0..most, or -1 if invalid (see kWrongLabel).
  CREMA_HOST_DEVICE static int64_t Length(const T* given, int64_t n, int64_t most) {
    if (given == nullptr) return most;
    const float length = ToFloat(given[n]);
    const bool fits = length >= 0 && length <= static_cast<float>(most);
    return fits && length == std::trunc(length) ? static_cast<int64_t>(length) : -1;
  }

  // Returns the number of labels of item n, or -1 if the CPU would reject them.
  CREMA_HOST_DEVICE int64_t CountLabels(const Team& team, int64_t n) const {
    int64_t count = Length(label_lengths, n, room);
    if (label_lengths == nullptr) {
      const auto to_end = [&](int64_t i) { return IsPadding(n, i) ? room - i : int64_t{0}; };
      count = room - team.Max(room, int64_t{0}, to_end);
    }
    const int64_t wrong = team.Sum(room, [&](int64_t i) {
      const bool inside = i < count, padding = IsPadding(n, i);
      const bool misplaced = label_lengths == nullptr ? !inside && !padding : inside && padding;
      return static_cast<int64_t>(misplaced || labels(n * room + i) == kWrongLabel);
    });
    return wrong > 0 ? -1 : count;
  }

  // Returns the fewest steps that can hold the labels.
  CREMA_HOST_DEVICE int64_t FewestSteps(const Team& team, int64_t n, int64_t count) const {
    return count + team.Sum(count, [&](int64_t i) {
      return static_cast<int64_t>(i > 0 && Label(n, i) == Label(n, i - 1));
    });
  }

  // Returns ln P of the labels by the forward recursion. Writes alpha.
  CREMA_HOST_DEVICE double Forward(const Team& team, int64_t n, int64_t length,
                                   int64_t count) const {
    const double never = -std::numeric_limits<double>::infinity();
    const int64_t states = States(count);
    if (length == 0) return states == 1 ? 0 : never;
    team.For(states, [&](int64_t s) { Alpha(n, 0)[s] = s < 2 ? LogProbability(n, 0, s) : never; });
    for (int64_t t = 1; t < length; ++t) {
      const double* before = Alpha(n, t - 1);
      team.For(states, [&](int64_t s) {
        double sum = before[s];
        if (s > 0) sum = LogSum(sum, before[s - 1]);
        if (MaySkipTo(n, s)) sum = LogSum(sum, before[s - 2]);
        Alpha(n, t)[s] = sum + LogProbability(n, t, s);
      });
    }
    const double* last = Alpha(n, length - 1);
    return states > 1 ? LogSum(last[states - 1], last[states - 2]) : last[0];
  }

  // Replaces alpha with the probability that a path is in that state at that step.
  CREMA_HOST_DEVICE void Backward(const Team& team, int64_t n, int64_t length, int64_t count,
                                  double log_probability) const {
    const int64_t states = States(count);
    for (int64_t t = length - 1; t >= 0; --t) {
      double* own = beta + (2 * n + t % 2) * States(room);
      const double* next = beta + (2 * n + (t + 1) % 2) * States(room);
      const auto from = [&](int64_t s) { return next[s] + LogProbability(n, t + 1, s); };
      team.For(states, [&](int64_t s) {
        if (t == length - 1) {
          own[s] = s >= states - 2 ? 0 : -std::numeric_limits<double>::infinity();
        } else {
          double sum = from(s);
          if (s + 1 < states) sum = LogSum(sum, from(s + 1));
          if (s + 2 < states && MaySkipTo(n, s + 2)) sum = LogSum(sum, from(s + 2));
          own[s] = sum;
        }
        double* at = Alpha(n, t) + s;
        *at = std::exp(*at + own[s] - log_probability);
      });
    }
  }

  // Computes the loss of item n and the inputs of its gradient.
  CREMA_HOST_DEVICE void Run(const Team& team, int64_t n) const {
    const int64_t length = Length(input_lengths, n, steps);
    const int64_t count = CountLabels(team, n);
    bool wrong = length < 0 || count < 0;
    const int64_t fewest = FewestSteps(team, n, wrong ? 0 : count);
    if (length < fewest && !zero_infinity) wrong = true;
    const double log_probability = wrong ? 0 : Forward(team, n, length, count);
    const bool left_out = zero_infinity && std::isinf(log_probability);
    // This call separates the reads of alpha above from the writes below.
    team.For(1, [&](int64_t) {
      losses[n] = wrong ? NotANumber() : left_out ? 0 : static_cast<float>(-log_probability);
      lengths[n] = wrong || left_out ? 0 : length;
      counts[n] = wrong ? 0 : count;
    });
    if (!wrong && !left_out && gradient != nullptr) {
      Backward(team, n, length, count, log_probability);
    }
  }

  // Writes the gradient of one step of one item: softmax minus the probability of paths in states
  // of the class.
  CREMA_HOST_DEVICE void WriteGradient(const Team& team, int64_t row) const {
    const int64_t t = row / items, n = row % items;
    const int64_t length = lengths[n], states = States(counts[n]);
    const double* at = Alpha(n, t);
    const double at_blank =
        team.Sum(t < length ? states / 2 + 1 : 0, [&](int64_t i) { return at[2 * i]; });
    team.For(classes, [&](int64_t c) {
      const int64_t i = row * classes + c;
      double paths = c == blank ? at_blank : 0;
      for (int64_t s = 1; s < states && t < length && c != blank; s += 2) {
        if (ClassOf(n, s) == c) paths += at[s];
      }
      const double p = std::exp(static_cast<double>(ToFloat(logits[i])) - norms[row]);
      gradient[i] = FromFloat<T>(t < length ? static_cast<float>(p - paths) : 0);
    });
  }

  const T* logits;
  GpuLabels<T> labels;
  const T* input_lengths;  // null means all steps
  const T* label_lengths;  // null means up to the padding
  int64_t steps, items, classes, room, blank;
  bool zero_infinity;
  T* gradient;  // null if not needed
  // Scratch: ln of the sums of exp(logits); the lattices; for each item its loss, the number of
  // steps with a gradient, and the number of labels.
  double* norms = nullptr;
  double* alpha = nullptr;
  double* beta = nullptr;
  float* losses = nullptr;
  int64_t* lengths = nullptr;
  int64_t* counts = nullptr;
};

template <typename T>
void WriteNorms(const CudaQueue& queue, const CtcBatch<T>& batch) {
  ForTeams(queue, "CtcNorms", batch.steps * batch.items,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t row) {
             const T* x = batch.logits + row * batch.classes;
             const float top = team.Max(batch.classes, -std::numeric_limits<float>::infinity(),
                                        [&](int64_t c) { return ToFloat(x[c]); });
             const double sum = team.Sum(batch.classes, [&](int64_t c) {
               return std::exp(static_cast<double>(ToFloat(x[c]) - top));
             });
             team.For(1, [&](int64_t) { batch.norms[row] = top + std::log(sum); });
           });
}

template <typename T>
void RunBatch(const CudaQueue& queue, const CtcBatch<T>& batch) {
  WriteNorms(queue, batch);
  ForTeams(queue, "CtcItems", batch.items,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) { batch.Run(team, n); });
  if (batch.gradient == nullptr) return;
  ForTeams(
      queue, "CtcGradient", batch.steps * batch.items,
      [=] CREMA_HOST_DEVICE(const Team& team, int64_t row) { batch.WriteGradient(team, row); });
}

GpuDivisor DivisorOf(const Shape& logits) {
  return {.fixed = static_cast<float>(std::max<int64_t>(1, logits[1]))};
}

template <typename T>
CtcBatch<T> BatchOf(const Layer& layer, const ForwardArgs& args) {
  const Shape& logits = args.inputs[0].shape();
  const CTCLossParameter& param = layer.param().ctc_loss_param();
  const int64_t classes = logits[2];
  return {.logits = Elements<T>(args.inputs[0]),
          .labels = GpuLabels<T>(Elements<T>(args.inputs[1]), classes, -1),
          .input_lengths = args.inputs.size() > 2 ? Elements<T>(args.inputs[2]) : nullptr,
          .label_lengths = args.inputs.size() > 3 ? Elements<T>(args.inputs[3]) : nullptr,
          .steps = logits[0],
          .items = logits[1],
          .classes = classes,
          .room = args.inputs[1].shape().count(1),
          .blank = param.blank_label() < 0 ? classes - 1 : param.blank_label(),
          .zero_infinity = param.zero_infinity(),
          .gradient = Elements<T>(args.saved[0])};
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    CtcBatch<T> batch = BatchOf<T>(layer, args);
    const int64_t rows = batch.steps * batch.items, states = batch.States(batch.room);
    ScratchCutter cutter(args.scratch);
    double* parts = cutter.Take<double>(kMostSumParts);
    batch.norms = cutter.Take<double>(rows);
    batch.alpha = cutter.Take<double>(rows * states);
    batch.beta = cutter.Take<double>(2 * batch.items * states);
    batch.losses = cutter.Take<float>(batch.items);
    batch.lengths = cutter.Take<int64_t>(batch.items);
    batch.counts = cutter.Take<int64_t>(batch.items);
    RunBatch(queue, batch);
    WriteSumOfCosts(queue, batch.items, batch.losses, DivisorOf(args.inputs[0].shape()), parts,
                    Elements<T>(args.outputs[0]));
  });
}

size_t ForwardScratch(const OpDesc& query) {
  const Shape& logits = query.context.inputs[0].shape;
  const int64_t states = 2 * query.context.inputs[1].shape.count(1) + 1;
  return LossScratch(query) + ScratchBytes<double>(logits[0] * logits[1]) +
         ScratchBytes<double>(logits[0] * logits[1] * states) +
         ScratchBytes<double>(2 * logits[1] * states) + ScratchBytes<float>(logits[1]) +
         2 * ScratchBytes<int64_t>(logits[1]);
}

template <typename T>
void ScaleGradient(const CudaQueue& queue, int64_t count, const T* gradient, GpuDivisor divisor,
                   const T* dloss, T* dx) {
  ForElements(queue, "CtcBackward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    dx[i] = FromFloat<T>(ToFloat(dloss[0]) / divisor.Value() * ToFloat(gradient[i]));
  });
}

void BackwardOnGpu(const Layer&, const BackwardArgs& args) {
  const ConstTensorView& gradient = args.saved[0];
  DispatchCudaFloat(gradient.dtype(), [&]<typename T>(T) {
    ScaleGradient(BoundQueue(args.context), gradient.count(), Elements<T>(gradient),
                  DivisorOf(gradient.shape()), Elements<T>(args.output_grads[0]),
                  Elements<T>(args.input_grads[0]));
  });
}

}  // namespace

void RegisterCTCLossCuda(Registry& registry) {
  registry.AddImplementation(
      "CTCLoss",
      MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {.forward_scratch = ForwardScratch}));
}

}  // namespace crema
