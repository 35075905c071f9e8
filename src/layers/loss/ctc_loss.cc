// CTCLoss: loss = -sum_n ln P(labels_n | softmax of logits_n) / N, where P sums over all alignments
// of the labels of item n to its steps (math/ctc.h). In training, Forward also computes the
// gradient, and Backward only scales it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/sample_error_context.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/labels.h"
#include "layers/loss/loss_type.h"
#include "math/ctc.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // fewest elements per thread
constexpr size_t kInputLengths = 2;
constexpr size_t kLabelLengths = 3;

class CTCLoss final : public Layer {
 public:
  explicit CTCLoss(const LayerParameter& param)
      : Layer(param),
        blank_(param.ctc_loss_param().blank_label()),
        zero_infinity_(param.ctc_loss_param().zero_infinity()) {}

  LayerInfo Infer(const InferContext& context) const override {
    const BlobSpec& logits = context.inputs[0];
    CheckShapes(context.inputs);
    LayerInfo info;
    info.outputs = {{Shape{}, logits.dtype}};
    info.saved = {logits};
    info.gradient_forbidden.assign(context.inputs.size(), true);
    info.gradient_forbidden[0] = false;
    return info;
  }

  // The loss of each item, followed by the work memory of each thread.
  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override {
    const Sizes sizes(context.inputs[0].shape, context.inputs[1].shape);
    const int workers = ParallelWorkers(threads, sizes.items, 1);
    return ScratchBytes<double>(sizes.items) +
           ScratchBytes<double>(workers * CtcScratch(sizes.steps, sizes.labels)) + kScratchSlack;
  }

  void Forward(const ForwardArgs& args) const override {
    const Sizes sizes(args.inputs[0].shape(), args.inputs[1].shape());
    CheckLabels(
        *this, args.inputs[1],
        {.classes = sizes.classes, .inner = std::max<int64_t>(1, sizes.labels), .ignored = -1});
    const int threads = args.context.threads();
    const int64_t each = CtcScratch(sizes.steps, sizes.labels);
    ScratchCutter scratch(args.scratch);
    double* losses = scratch.Take<double>(sizes.items);
    double* work = scratch.Take<double>(ParallelWorkers(threads, sizes.items, 1) * each);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      // Sequential, so that the first bad item is reported.
      for (int64_t n = 0; n < sizes.items; ++n) {
        CheckPadding<T>(args, sizes, n);
        CheckItem(SequenceOf<T>(args, sizes, n), n);
      }
      ParallelFor(threads, sizes.items, 1, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t n = begin; n < end; ++n) {
          losses[n] = RunItem(SequenceOf<T>(args, sizes, n), sizes, work + worker * each,
                              args.saved[0].empty() ? nullptr : GradientOf<T>(args, sizes, n));
        }
      });
      double sum = 0;
      for (int64_t n = 0; n < sizes.items; ++n) sum += losses[n];
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / sizes.Divisor());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Sizes sizes(args.inputs[0].shape(), args.inputs[1].shape());
    DispatchFloat(args.saved[0].dtype(), [&]<typename T>(T) {
      const T scale = static_cast<T>(args.output_grads[0].data<T>()[0] / sizes.Divisor());
      const T* gradient = args.saved[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      ParallelFor(args.context.threads(), args.saved[0].count(), kGrain,
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) dx[i] = scale * gradient[i];
                  });
    });
  }

 private:
  struct Sizes {
    Sizes(const Shape& logits, const Shape& label_shape)
        : steps(logits[0]), items(logits[1]), classes(logits[2]), labels(label_shape.count(1)) {}
    double Divisor() const { return static_cast<double>(std::max<int64_t>(1, items)); }
    int64_t steps;
    int64_t items;
    int64_t classes;
    int64_t labels;  // capacity of one item
  };

  void CheckShapes(std::span<const BlobSpec> inputs) const {
    const Shape& logits = inputs[0].shape;
    const Shape& labels = inputs[1].shape;
    if (logits.axes() != 3) {
      FailInputs(*this,
                 StrCat("logits need three axes, time x batch x classes, but their shape is ",
                        ToString(logits)));
    }
    if (labels.axes() < 1 || labels[0] != logits[1]) {
      FailInputs(*this, StrCat("labels are batch x places, with ", logits[1],
                               " items as the logits have, but their shape is ", ToString(labels)));
    }
    for (size_t i = kInputLengths; i < inputs.size(); ++i) {
      if (inputs[i].shape.count() == logits[1]) continue;
      FailInputs(*this, StrCat("bottom ", i, " holds a length for each of the ", logits[1],
                               " items, but its shape is ", ToString(inputs[i].shape)));
    }
    if (logits[2] == 0) {
      FailInputs(*this, StrCat("there is no class, not even the blank, in logits of shape ",
                               ToString(logits)));
    }
    if (blank_ < -1 || blank_ >= logits[2]) {
      FailField(*this, "ctc_loss_param.blank_label",
                StrCat("blank_label is ", blank_, ", but there are ", logits[2],
                       " classes; expected -1 (the last class) up to ", logits[2] - 1));
    }
  }

  // Returns the length of an item from input 2 or 3, or `most` without that input. Throws kDataLoss
  // if it is not a whole number 0..most.
  template <typename T>
  int64_t LengthOf(const ForwardArgs& args, size_t input, int64_t item, int64_t most) const {
    if (args.inputs.size() <= input) return most;
    const auto length = static_cast<double>(args.inputs[input].data<T>()[item]);
    if (!(length >= 0 && length <= static_cast<double>(most) && length == std::trunc(length))) {
      FailItem(*this, input, item,
               StrCat("length ", length, " at ", SampleErrorContext(item),
                      " is not a whole number 0..", most));
    }
    return static_cast<int64_t>(length);
  }

  // Returns the labels of one item, up to its length or to the padding.
  template <typename T>
  std::span<const T> LabelsOf(const ForwardArgs& args, const Sizes& sizes, int64_t item) const {
    const T* first = args.inputs[1].data<T>() + item * sizes.labels;
    const T* last = first + LengthOf<T>(args, kLabelLengths, item, sizes.labels);
    if (args.inputs.size() <= kLabelLengths) {
      last = std::find_if(first, last, [&](T label) { return IsPadding(label, sizes); });
    }
    return {first, last};
  }

  template <typename T>
  bool IsPadding(T label, const Sizes& sizes) const {
    return label == T(-1) || label == static_cast<T>(Blank(sizes));
  }

  // Without label lengths, throws kDataLoss if a label follows padding.
  template <typename T>
  void CheckPadding(const ForwardArgs& args, const Sizes& sizes, int64_t item) const {
    if (args.inputs.size() > kLabelLengths) return;
    const T* row = args.inputs[1].data<T>() + item * sizes.labels;
    const auto first = static_cast<int64_t>(LabelsOf<T>(args, sizes, item).size());
    for (int64_t i = first; i < sizes.labels; ++i) {
      if (IsPadding(row[i], sizes)) continue;
      FailItem(*this, 1, item,
               StrCat("label ", row[i], " at ", SampleErrorContext(item), ", position ", i,
                      " comes after the padding (-1 or the blank, ", Blank(sizes),
                      "), which ends the labels"));
    }
  }

  template <typename T>
  CtcSequence<T> SequenceOf(const ForwardArgs& args, const Sizes& sizes, int64_t item) const {
    return {.logits = args.inputs[0].data<T>() + item * sizes.classes,
            .time_stride = sizes.items * sizes.classes,
            .classes = sizes.classes,
            .steps = LengthOf<T>(args, kInputLengths, item, sizes.steps),
            .labels = LabelsOf<T>(args, sizes, item),
            .blank = Blank(sizes)};
  }

  template <typename T>
  static T* GradientOf(const ForwardArgs& args, const Sizes& sizes, int64_t item) {
    return args.saved[0].data<T>() + item * sizes.classes;
  }

  int64_t Blank(const Sizes& sizes) const { return blank_ < 0 ? sizes.classes - 1 : blank_; }

  template <typename T>
  void CheckItem(const CtcSequence<T>& sequence, int64_t item) const {
    for (const T label : sequence.labels) {
      if (label != T(-1) && label != static_cast<T>(sequence.blank)) continue;
      FailItem(
          *this, 1, item,
          StrCat("label ", label, " at ", SampleErrorContext(item), " is padding or the blank (",
                 sequence.blank, "), within the length of its labels"));
    }
    const int64_t needed = CtcFewestSteps(sequence.labels);
    if (sequence.steps >= needed || zero_infinity_) return;
    FailItem(
        *this, 1, item,
        StrCat(SampleErrorContext(item), " has ", sequence.steps, " steps, but its ",
               sequence.labels.size(), " labels need at least ", needed,
               " (with a blank between equal neighbours); zero_infinity: true leaves such items "
               "out"));
  }

  // Returns the loss of one item. Writes its gradient for all steps, 0 after the item's length.
  template <typename T>
  double RunItem(const CtcSequence<T>& sequence, const Sizes& sizes, double* work,
                 T* gradient) const {
    const double loss = CtcLoss(sequence, gradient, work);
    const bool left_out = zero_infinity_ && std::isinf(loss);
    if (gradient != nullptr) {
      for (int64_t t = left_out ? 0 : sequence.steps; t < sizes.steps; ++t) {
        std::fill_n(gradient + t * sequence.time_stride, sizes.classes, T(0));
      }
    }
    return left_out ? 0 : loss;
  }

  const int32_t blank_;
  const bool zero_infinity_;
};

std::vector<LayerSample> Samples() {
  const SampleInput logits{.shape = {7, 3, 5}, .low = -2, .high = 2};
  const SampleInput labels = Labels({3, 4}, 4, 1);
  const SampleInput steps = Labels({3}, 7, 5);
  const SampleInput lengths = Labels({3, 1}, 3);
  return {
      {.name = "full_length", .inputs = {logits, labels}},
      {.name = "last_class_is_blank",
       .prototxt = "ctc_loss_param { blank_label: -1 }",
       .inputs = {logits, Labels({3, 3}, 3)}},
      {.name = "padding_alone", .inputs = {logits, Labels({3, 2}, 0, -1)}},
      {.name = "input_lengths", .inputs = {logits, Labels({3, 3}, 4, 1), steps}},
      {.name = "both_lengths",
       .prototxt = "ctc_loss_param { blank_label: 4 }",
       .inputs = {logits, Labels({3, 3}, 3), steps, lengths}},
      {.name = "too_short_costs_nothing",
       .prototxt = "ctc_loss_param { zero_infinity: true }",
       .inputs = {logits, labels, Labels({3}, 7)}},
      {.name = "large", .inputs = {{.shape = {40, 6, 11}}, Labels({6, 12}, 10, 1)}},
      {.name = "no_labels", .inputs = {logits, {.shape = {3, 0}}}},
      {.name = "empty_batch", .inputs = {{.shape = {4, 0, 3}}, {.shape = {0, 2}}}},
  };
}

}  // namespace

void RegisterCTCLoss(Registry& registry) {
  LayerType type = LossType<CTCLoss>("CTCLoss");
  type.summary =
      "Trains sequences against labels without saying when each label comes (Graves et al. 2006).";
  type.formula =
      "p = softmax(logits); loss = -sum_n ln (sum over paths that give labels_n of prod_t p[t, n, "
      "path_t]) / N; a path gives what is left after merging repeats and dropping blanks";
  type.input_docs = {
      "logits: T x N x C, time first, scores before a softmax",
      "labels: N x L, whole numbers 0..C-1; without the fourth bottom the labels of an item end at "
      "the first -1 or blank; no gradient",
      "input lengths: N, steps of each item that count, 0..T; optional: T if missing; no gradient",
      "label lengths: N, labels of each item, 0..L; optional; no gradient"};
  type.output_docs = {"loss: scalar; infinite if logits of -infinity forbid all paths"};
  type.differences = {
      "Forks differ in the order of bottoms and in what they divide by; this one divides by N.",
      "A sequence too short for its labels is an error that names the item, unless zero_infinity."};
  type.origin = "community";
  type.param_fields = {"ctc_loss_param"};
  type.inputs = {2, 4};
  type.samples = Samples();
  type.bad_samples = {
      {.input_shapes = {{7, 3}, {3, 4}}, .expect = "time x batch x classes"},
      {.input_shapes = {{7, 3, 5}, {7, 4}}, .expect = "with 3 items"},
      {.input_shapes = {{7, 3, 5}, {3, 4}, {4}}, .expect = "each of the 3 items"},
      {.input_shapes = {{7, 3, 5}, {3, 4}, {3}, {3, 2}}, .expect = "bottom 3 holds a length"},
      {.prototxt = "ctc_loss_param { blank_label: 5 }",
       .input_shapes = {{7, 3, 5}, {3, 4}},
       .expect = "blank_label is 5, but there are 5 classes"},
      {.prototxt = "ctc_loss_param { blank_label: -2 }",
       .input_shapes = {{7, 3, 5}, {3, 4}},
       .expect = "blank_label is -2"},
      {.prototxt = "ctc_loss_param { blank_label: -1 }",
       .input_shapes = {{7, 3, 0}, {3, 4}},
       .expect = "there is no class"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
