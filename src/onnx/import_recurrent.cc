// LSTM, GRU and RNN.
#include <algorithm>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

// Sizes of a recurrent node, and its input as steps x streams x features.
struct Sequence {
  OnnxBlob x;
  int64_t steps = 0;
  int64_t streams = 0;
  int64_t directions = 1;
  int64_t size = 0;  // of the hidden state
  RecurrentParameter::Direction direction = RecurrentParameter::FORWARD;
  bool batch_first = false;
  Dims lengths;  // of the streams; none: all have all steps
};

// Added to gates after the end of a sequence: they are open or shut then.
constexpr float kShut = -1e4F;
constexpr float kOpen = 1e4F;

// 1 in the steps of each sequence, or after them: steps x streams x 1.
OnnxTensor StepMask(const Sequence& sequence, bool after) {
  std::vector<float> values;
  for (int64_t t = 0; t < sequence.steps; ++t) {
    for (const int64_t length : sequence.lengths) values.push_back((t >= length) == after ? 1 : 0);
  }
  return MakeFloats({sequence.steps, sequence.streams, 1}, std::move(values));
}

void RefuseSettings(const NodeImport& node, const std::vector<std::string>& activations) {
  if (node.HasAttribute("clip")) node.Refuse("clips its gates");
  if (node.Int("input_forget", 0) != 0) node.Refuse("couples its input and forget gates");
  if (node.HasAttribute("activation_alpha") || node.HasAttribute("activation_beta")) {
    node.Refuse("has parameters of activations");
  }
  const auto* given = FindAttribute(node.node(), "activations");
  for (int i = 0; given != nullptr && i < given->strings_size(); ++i) {
    const std::string& wanted = activations[static_cast<size_t>(i) % activations.size()];
    std::string name = given->strings(i);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (name != wanted) node.Refuse(StrCat("has the activation ", given->strings(i)));
  }
}

Sequence ReadSequence(NodeImport& node) {
  Sequence sequence;
  OnnxBlob x = node.In(0);
  if (x.shape.axes() != 3) node.Refuse("takes three axes");
  sequence.batch_first = node.Int("layout", 0) != 0;
  if (sequence.batch_first) x = PermuteBlob(node, x, {1, 0, 2});
  sequence.x = x;
  sequence.steps = x.shape[0];
  sequence.streams = x.shape[1];
  const std::string direction = node.Choice("direction", {"forward", "reverse", "bidirectional"});
  if (direction == "reverse") sequence.direction = RecurrentParameter::REVERSE;
  if (direction == "bidirectional") {
    sequence.direction = RecurrentParameter::BIDIRECTIONAL;
    sequence.directions = 2;
  }
  const Shape& recurrent = node.ShapeOf(2);
  if (recurrent.axes() != 3 || recurrent[0] != sequence.directions) {
    node.Refuse("has weights of another number of directions");
  }
  sequence.size = recurrent[2];
  if (const int64_t size = node.Int("hidden_size", sequence.size); size != sequence.size) {
    node.Refuse(StrCat("hidden_size is ", size, ", but its weights are for ", sequence.size));
  }
  const int64_t most = std::max(sequence.steps, sequence.directions * sequence.size);
  if (BoundedCount({most, sequence.streams}) > kMostMadeElements) node.Refuse("is too large");
  if (node.Has(4)) {
    const Dims lengths = node.Ints(4, "sequence_lens");
    const auto fits = [&](int64_t length) { return length > 0 && length <= sequence.steps; };
    if (static_cast<int64_t>(lengths.size()) != sequence.streams ||
        !std::ranges::all_of(lengths, fits)) {
      node.Refuse("has sequence_lens that do not fit its input");
    }
    const bool full =
        std::ranges::all_of(lengths, [&](int64_t length) { return length == sequence.steps; });
    if (!full) {  // a last feature says that a sequence has ended
      sequence.lengths = lengths;
      const OnnxBlob ended = node.AddConstant(StepMask(sequence, true));
      sequence.x = ConcatBlob(node, {x, ended}, 2);
    }
  }
  return sequence;
}

// Rows of one direction of a tensor of directions x rows (x columns), in blocks of `size` rows, in
// another order.
OnnxTensor Blocks(const OnnxTensor& from, int64_t direction, int64_t size, const Dims& order) {
  const int64_t columns = from.dims.size() == 3 ? from.dims[2] : 1;
  const int64_t rows = from.dims[1];
  std::vector<float> values;
  for (const int64_t block : order) {
    if ((block + 1) * size > rows) return MakeFloats({0}, {});
    const auto start = from.floats->begin() +
                       static_cast<std::ptrdiff_t>((direction * rows + block * size) * columns);
    values.insert(values.end(), start, start + static_cast<std::ptrdiff_t>(size * columns));
  }
  const auto count = static_cast<int64_t>(order.size()) * size;
  Dims dims = {count};
  if (from.dims.size() == 3) dims.push_back(columns);
  return MakeFloats(dims, std::move(values));
}

OnnxTensor AddTensors(const OnnxTensor& a, const OnnxTensor& b) {
  std::vector<float> values = *a.floats;
  for (size_t i = 0; i < values.size(); ++i) values[i] += (*b.floats)[i];
  return MakeFloats(a.dims, std::move(values));
}

OnnxTensor Filled(const Dims& dims, float value) {
  return BroadcastTensor(MakeFloats(Dims(dims.size(), 1), {value}), dims);
}

// Weights of all gates: input, recurrent, and the biases of both.
struct Gates {
  OnnxTensor input, recurrent, input_bias, recurrent_bias;
};

Gates ReadGates(const NodeImport& node, const Sequence& sequence, int64_t direction,
                const Dims& order) {
  const OnnxTensor input = ToFloats(node.Weights(1, "weights"));
  const OnnxTensor recurrent = ToFloats(node.Weights(2, "recurrent weights"));
  const auto gates = static_cast<int64_t>(order.size());
  const int64_t rows = gates * sequence.size;
  if (input.dims.size() != 3 || input.dims[0] != sequence.directions || input.dims[1] != rows ||
      input.dims[2] + (sequence.lengths.empty() ? 0 : 1) != sequence.x.shape[2] ||
      recurrent.dims[1] != rows) {
    node.Refuse("has weights that do not fit its input");
  }
  Dims later = order;
  for (int64_t& block : later) block += gates;
  OnnxTensor bias = Filled({sequence.directions, 2 * rows}, 0);
  if (node.Has(3)) bias = ToFloats(node.Weights(3, "bias"));
  if (bias.dims != Dims{sequence.directions, 2 * rows}) node.Refuse("has a bias that does not fit");
  return {Blocks(input, direction, sequence.size, order),
          Blocks(recurrent, direction, sequence.size, order),
          Blocks(bias, direction, sequence.size, order),
          Blocks(bias, direction, sequence.size, later)};
}

// Appends a column, of one value for each block of rows, for the feature that says that a sequence
// has ended.
OnnxTensor WithColumn(const Sequence& sequence, const OnnxTensor& rows,
                      const std::vector<float>& blocks) {
  if (sequence.lengths.empty()) return rows;
  const auto columns = static_cast<size_t>(rows.dims[1]);
  std::vector<float> values;
  for (size_t i = 0; i < static_cast<size_t>(rows.dims[0]); ++i) {
    const auto row = rows.floats->begin() + static_cast<std::ptrdiff_t>(i * columns);
    values.insert(values.end(), row, row + static_cast<std::ptrdiff_t>(columns));
    values.push_back(blocks[i / static_cast<size_t>(sequence.size)]);
  }
  return MakeFloats({rows.dims[0], rows.dims[1] + 1}, std::move(values));
}

// The outputs of the last steps of sequences, for the directions that do not end at step 0:
// directions x streams x size. `y` is steps x streams x directions x size, `last` the states after
// the last step of the layer.
OnnxBlob LastOutputs(NodeImport& node, const Sequence& sequence, const OnnxBlob& y,
                     const OnnxBlob& last) {
  std::vector<float> ends;
  for (int64_t t = 0; t < sequence.steps; ++t) {
    for (const int64_t length : sequence.lengths) ends.push_back(t + 1 == length ? 1 : 0);
  }
  const OnnxBlob at_end =
      node.AddConstant(MakeFloats({sequence.steps, sequence.streams, 1, 1}, std::move(ends)));
  OnnxBlob forward = CutBlob(node, y, 2, 0, 1);
  forward = BinaryBlob(node, BinaryParameter::MUL, forward, at_end);
  forward = ReduceBlob(node, ReductionParameter::SUM, forward, {0});
  forward = ReshapeBlob(node, forward, {1, sequence.streams, sequence.size});
  if (sequence.directions == 1) return forward;
  return ConcatBlob(node, {forward, CutBlob(node, last, 0, 1, 1)}, 0);
}

// An initial state: the input, or zeros.
OnnxBlob InitialState(NodeImport& node, const Sequence& sequence, size_t input) {
  if (!node.Has(input)) {
    return node.AddConstant(Filled({sequence.directions, sequence.streams, sequence.size}, 0));
  }
  const OnnxBlob state = node.In(input);
  return sequence.batch_first ? PermuteBlob(node, state, {1, 0, 2}) : state;
}

// Adds the layer and sets the outputs. `states` is 2 for LSTM.
void AddRecurrent(NodeImport& node, const Sequence& sequence, const char* type, size_t states,
                  std::vector<OnnxTensor> weights, bool reset_after) {
  const bool expose = node.Has(5) || node.Has(6) || node.Wants(1) || node.Wants(2);
  OnnxTensor cont = Filled({sequence.steps, sequence.streams}, 1);
  if (!expose) {  // each batch begins anew
    std::vector<float> values = *cont.floats;
    std::fill_n(values.begin(), sequence.steps > 0 ? sequence.streams : 0, 0.0F);
    cont = MakeFloats(cont.dims, std::move(values));
  }
  std::vector<OnnxBlob> bottoms = {sequence.x, node.AddConstant(cont)};
  for (size_t i = 0; expose && i < states; ++i) {
    bottoms.push_back(InitialState(node, sequence, 5 + i));
  }
  auto tops = node.AddAll(
      type, bottoms, expose ? 1 + states : 1,
      [&](LayerParameter* layer) {
        RecurrentParameter* param = layer->mutable_recurrent_param();
        param->set_num_output(static_cast<uint32_t>(sequence.size));
        if (expose) param->set_expose_hidden(true);
        if (sequence.direction != RecurrentParameter::FORWARD) {
          param->set_direction(sequence.direction);
        }
        if (!reset_after) param->set_reset_after(false);
      },
      std::move(weights));
  OnnxBlob y = ReshapeBlob(node, tops[0],
                           {sequence.steps, sequence.streams, sequence.directions, sequence.size});
  const bool is_lstm = states == 2;
  if (!sequence.lengths.empty()) {
    OnnxTensor mask = StepMask(sequence, false);
    mask.dims.push_back(1);
    y = BinaryBlob(node, BinaryParameter::MUL, y, node.AddConstant(mask));
    // The cell of an ended LSTM stays as it is, its output does not.
    if (is_lstm && node.Wants(1) && sequence.direction != RecurrentParameter::REVERSE) {
      tops[1] = LastOutputs(node, sequence, y, tops[1]);
    }
  }
  if (node.Wants(0)) {
    y = PermuteBlob(node, y, sequence.batch_first ? Dims{1, 0, 2, 3} : Dims{0, 2, 1, 3});
    node.Output(0, y);
  }
  for (size_t i = 0; expose && i < states; ++i) {
    if (!node.Wants(1 + i)) continue;
    const Dims order = sequence.batch_first ? Dims{1, 0, 2} : Dims{0, 1, 2};
    node.Output(1 + i, PermuteBlob(node, tops[1 + i], order));
  }
}

void ConvertLSTM(NodeImport& node) {
  RefuseSettings(node, {"sigmoid", "tanh", "tanh"});
  const Sequence sequence = ReadSequence(node);
  if (node.Has(7)) {
    const std::vector<float> peepholes = node.Floats(7, "peepholes");
    if (std::ranges::any_of(peepholes, [](float v) { return v != 0; })) {
      node.Refuse("has peepholes");
    }
  }
  // Backward, a sequence begins with its missing steps, after which only zeros are still there.
  if (!sequence.lengths.empty() && sequence.direction != RecurrentParameter::FORWARD &&
      (node.Has(5) || node.Has(6))) {
    node.Refuse("has initial states and, backward, sequences of different lengths");
  }
  std::vector<OnnxTensor> weights;
  for (int64_t d = 0; d < sequence.directions; ++d) {
    // ONNX orders the gates i, o, f, c; the layer i, f, o, g.
    Gates gates = ReadGates(node, sequence, d, {0, 2, 1, 3});
    gates.input = WithColumn(sequence, gates.input, {kShut, kOpen, 0, 0});
    weights.insert(weights.end(), {gates.input, AddTensors(gates.input_bias, gates.recurrent_bias),
                                   gates.recurrent});
  }
  AddRecurrent(node, sequence, "LSTM", 2, std::move(weights), true);
}

void ConvertGRU(NodeImport& node) {
  RefuseSettings(node, {"sigmoid", "tanh"});
  const Sequence sequence = ReadSequence(node);
  const bool after = node.Int("linear_before_reset", 0) != 0;
  std::vector<OnnxTensor> weights;
  for (int64_t d = 0; d < sequence.directions; ++d) {
    // ONNX orders the gates z, r, h; the layer r, z, n.
    Gates gates = ReadGates(node, sequence, d, {1, 0, 2});
    gates.input = WithColumn(sequence, gates.input, {0, kOpen, 0});
    if (after) {
      weights.insert(weights.end(),
                     {gates.input, gates.input_bias, gates.recurrent, gates.recurrent_bias});
    } else {
      weights.insert(
          weights.end(),
          {gates.input, AddTensors(gates.input_bias, gates.recurrent_bias), gates.recurrent});
    }
  }
  AddRecurrent(node, sequence, "GRU", 1, std::move(weights), after);
}

// Places the rows of one gate after zeros for two others.
OnnxTensor AsThird(const OnnxTensor& rows) {
  Dims dims = rows.dims;
  dims[0] *= 3;
  std::vector<float> values(rows.floats->size() * 3, 0);
  std::ranges::copy(*rows.floats, values.end() - static_cast<std::ptrdiff_t>(rows.floats->size()));
  return MakeFloats(dims, std::move(values));
}

// A GRU whose gates are always open is the plain net: Crema's RNN has an output layer, which ONNX
// lacks.
void ConvertRNN(NodeImport& node) {
  RefuseSettings(node, {"tanh"});
  const Sequence sequence = ReadSequence(node);
  std::vector<OnnxTensor> weights;
  for (int64_t d = 0; d < sequence.directions; ++d) {
    const Gates gates = ReadGates(node, sequence, d, {0});
    std::vector<float> bias = *AsThird(AddTensors(gates.input_bias, gates.recurrent_bias)).floats;
    for (int64_t i = 0; i < sequence.size; ++i) {
      bias[static_cast<size_t>(i)] = 100;                   // reset gate: sigmoid(100) = 1
      bias[static_cast<size_t>(sequence.size + i)] = -200;  // update gate: 0
    }
    const OnnxTensor input = WithColumn(sequence, AsThird(gates.input), {0, kOpen, 0});
    weights.insert(weights.end(),
                   {input, MakeFloats({3 * sequence.size}, bias), AsThird(gates.recurrent)});
  }
  AddRecurrent(node, sequence, "GRU", 1, std::move(weights), false);
}

}  // namespace

void AddRecurrentConverters(ConverterTable* table) {
  (*table)["LSTM"] = ConvertLSTM;
  (*table)["GRU"] = ConvertGRU;
  (*table)["RNN"] = ConvertRNN;
}

}  // namespace crema
