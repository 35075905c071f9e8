// Shape inference of recurrent layers: bottoms, tops, parameters.
#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/recurrent/recurrent_layer.h"

namespace crema {

RecurrentLayer::RecurrentLayer(const LayerParameter& param, const RecurrentCell& cell)
    : Layer(param), cell_(cell), recurrent_(this->param().recurrent_param()) {
  constexpr int64_t kMost = 1 << 24;
  if (recurrent_.num_output() == 0) {
    FailField(*this, "recurrent_param.num_output",
              "num_output is missing or 0; it is the size of the hidden state");
  }
  if (Hidden() > kMost) {
    FailField(*this, "recurrent_param.num_output",
              StrCat("num_output is ", Hidden(), ", expected at most ", kMost));
  }
}

int RecurrentLayer::Directions() const {
  return recurrent_.direction() == RecurrentParameter::BIDIRECTIONAL ? 2 : 1;
}

bool RecurrentLayer::Reverse(int direction) const {
  return direction == 1 || recurrent_.direction() == RecurrentParameter::REVERSE;
}

bool RecurrentLayer::Carries(const Bottoms& bottoms) const {
  return !recurrent_.expose_hidden() && bottoms.cont >= 0 && !Reverse(0);
}

bool RecurrentLayer::Has(RecurrentBlob blob, const SequenceSize& sizes) const {
  if (blob == RecurrentBlob::kStatic && sizes.statics == 0) return false;
  return cell_.roles[static_cast<size_t>(blob)] != nullptr;
}

RecurrentLayer::Bottoms RecurrentLayer::BottomsOf(size_t count) const {
  const size_t states = recurrent_.expose_hidden() ? cell_.states : 0;
  const size_t least = (cell_.needs_cont ? 2 : 1) + states;
  if (count < least || count > 3 + states) {
    FailInputs(*this,
               StrCat("there are ", count, " bottoms, expected ", least, " to ", 3 + states,
                      cell_.needs_cont ? ": x, cont" : ": x", cell_.needs_cont ? "" : ", cont",
                      ", x_static", states > 0 ? ", and an initial state for each of " : "",
                      states == 2   ? "h and c"
                      : states == 1 ? "h"
                                    : ""));
  }
  Bottoms bottoms;
  const auto plain = static_cast<int>(count - states);
  if (plain > 1) bottoms.cont = 1;
  if (plain > 2) bottoms.x_static = 2;
  if (states > 0) bottoms.initial = plain;
  return bottoms;
}

void RecurrentLayer::CheckInputs(const InferContext& context, const Bottoms& bottoms) const {
  const auto& in = context.inputs;
  const Shape& x = in[0].shape;
  const auto shape = [&](int i) -> const Shape& { return in[static_cast<size_t>(i)].shape; };
  if (x.axes() < 2) {
    FailInputs(*this, StrCat("x needs 2 axes or more, steps x streams x features, but it is ",
                             ToString(x)));
  }
  if (x.count(2) == 0) FailInputs(*this, StrCat("x has no features: it is ", ToString(x)));
  if (bottoms.cont >= 0 && shape(bottoms.cont) != Shape({x[0], x[1]})) {
    FailInputs(*this, StrCat("cont must be steps x streams, as x: ", ToString(Shape({x[0], x[1]})),
                             ", but it is ", ToString(shape(bottoms.cont))));
  }
  if (bottoms.x_static >= 0) {
    const Shape& x_static = shape(bottoms.x_static);
    if (x_static.axes() < 1 || x_static[0] != x[1] || x_static.count(1) == 0) {
      FailInputs(*this, StrCat("x_static must be streams x features with ", x[1],
                               " streams, as x has, but it is ", ToString(x_static)));
    }
  }
  const Shape state{Directions(), x[1], Hidden()};
  for (size_t s = 0; bottoms.initial >= 0 && s < cell_.states; ++s) {
    const Shape& initial = shape(bottoms.initial + static_cast<int>(s));
    if (initial == state) continue;
    FailInputs(*this, StrCat("the initial state ", s == 0 ? "h" : "c", " must be ",
                             "directions x streams x num_output: ", ToString(state), ", but it is ",
                             ToString(initial)));
  }
  const size_t tops = bottoms.initial >= 0 ? 1 + cell_.states : 1;
  if (context.output_count != tops) {
    FailInputs(*this, StrCat("there are ", context.output_count, " tops, expected ", tops,
                             tops > 1 ? ": the outputs and the final states (expose_hidden)"
                                      : "; expose_hidden: true adds the final states"));
  }
}

SequenceSize RecurrentLayer::SizesOf(const InferContext& context) const {
  const Bottoms bottoms = BottomsOf(context.inputs.size());
  return SizesOf(context.inputs[0].shape,
                 bottoms.x_static < 0
                     ? nullptr
                     : &context.inputs[static_cast<size_t>(bottoms.x_static)].shape);
}

std::vector<ParameterInfo> RecurrentLayer::ParameterInfos(const SequenceSize& e) const {
  const int64_t width = cell_.gates * e.hidden;
  const std::array<Shape, kRecurrentBlobs> shapes = {
      Shape{width, e.inputs},    Shape{width},
      Shape{width, e.statics},   Shape{width, e.hidden},
      Shape{e.hidden, e.hidden}, Shape{cell_.extra_bias * e.hidden}};
  std::vector<ParameterInfo> blobs;
  for (int direction = 0; direction < Directions(); ++direction) {
    for (size_t b = 0; b < kRecurrentBlobs; ++b) {
      if (!Has(static_cast<RecurrentBlob>(b), e)) continue;
      blobs.push_back({.role = StrCat(cell_.roles[b], direction == 1 ? "_reverse" : ""),
                       .shape = shapes[b],
                       .filler = shapes[b].axes() == 1 ? recurrent_.bias_filler()
                                                       : recurrent_.weight_filler()});
    }
  }
  return blobs;
}

LayerInfo RecurrentLayer::Infer(const InferContext& context) const {
  const Bottoms bottoms = BottomsOf(context.inputs.size());
  CheckInputs(context, bottoms);
  const SequenceSize e = SizesOf(context);
  const DType dtype = context.inputs[0].dtype;
  const int64_t directions = Directions();
  LayerInfo info;
  info.outputs = {{{e.steps, e.streams, directions * e.hidden}, dtype}};
  for (size_t s = 0; bottoms.initial >= 0 && s < cell_.states; ++s) {
    info.outputs.push_back({{directions, e.streams, e.hidden}, dtype});
  }
  info.parameters = ParameterInfos(e);
  for (int64_t width : cell_.tapes) {
    if (width == 0) continue;
    info.saved.push_back({{directions * e.steps, e.streams, width * e.hidden}, dtype});
  }
  if (Carries(bottoms)) {
    info.saved.push_back({{static_cast<int64_t>(cell_.states), e.streams, e.hidden}, dtype});
  }
  info.backward_reads_input.assign(context.inputs.size(), true);
  info.backward_reads_output = {true};
  if (bottoms.cont >= 0) info.gradient_forbidden = {false, true};
  for (const ParameterInfo& blob : info.parameters) {
    if (blob.shape.axes() == 2) info.macs += e.rows() * blob.shape.count();
  }
  return info;
}

}  // namespace crema
