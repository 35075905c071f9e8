// RNN, LSTM, GRU and LSTMUnit. ONNX's recurrent operators have no `cont`, which resets states in
// the middle of a batch: time is unrolled, one step after the other over the same weights.
#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/recurrent/recurrent_layer.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

constexpr int64_t kMostSteps = 1024;

// One direction of time of a recurrent layer.
class Direction {
 public:
  Direction(LayerExport* e, int direction)
      : e_(*e),
        layer_(dynamic_cast<const RecurrentLayer&>(e->layer)),
        bottoms_(layer_.BottomsOf(e->in.size())),
        direction_(direction),
        reverse_(layer_.Reverse(direction)) {
    const Shape* x_static = bottoms_.x_static < 0 ? nullptr : &e_.shape(At(bottoms_.x_static));
    sizes_ = layer_.SizesOf(e_.shape(), x_static);
    size_t blob = layer_.FirstBlob(e_.parameters.size(), direction);
    for (size_t b = 0; b < kRecurrentBlobs; ++b) {
      if (layer_.Has(static_cast<RecurrentBlob>(b), sizes_)) blobs_[b] = static_cast<int>(blob++);
    }
    if (sizes_.steps > kMostSteps) {
      e_.Refuse(StrCat("its ", sizes_.steps, " steps are written one by one, at most ", kMostSteps,
                       "; give the Input fewer steps"));
    }
    if (sizes_.steps == 0) e_.Refuse("it has no step");
    ReadInputs();
  }

  // Returns the outputs of all steps: T x N x D.
  std::string Run() {
    std::vector<std::string> outputs(static_cast<size_t>(sizes_.steps));
    for (int64_t k = 0; k < sizes_.steps; ++k) {
      const int64_t t = reverse_ ? sizes_.steps - 1 - k : k;
      LoadStates(k, t);
      Step(t);
      outputs[static_cast<size_t>(t)] = e_.Unsqueeze(states_[0], {0});
    }
    const std::string y =
        outputs.size() == 1 ? outputs[0] : e_.Add("Concat", outputs, {{"axis", 0}});
    if (e_.param.type() != "RNN") return y;
    return e_.Add("Tanh", {Product(y, RecurrentBlob::kExtra, RecurrentBlob::kExtraBias)});
  }

  // 1 x N x D after the last step.
  std::string Final(size_t state) { return e_.Unsqueeze(states_[state], {0}); }

 private:
  static size_t At(int index) { return static_cast<size_t>(index); }
  std::string Blob(RecurrentBlob blob) const {
    return e_.Parameter(At(blobs_[static_cast<size_t>(blob)]));
  }

  // x W^T + b.
  std::string Product(const std::string& x, RecurrentBlob weight, RecurrentBlob bias) {
    const std::string transposed = e_.Transpose(Blob(weight), {1, 0});
    return e_.Add("Add", {e_.Add("MatMul", {x, transposed}), Blob(bias)});
  }

  // Pieces of one step, without the axis of time.
  std::vector<std::string> Steps(const std::string& x) {
    const auto steps = static_cast<size_t>(sizes_.steps);
    std::vector<std::string> pieces = {x};
    if (steps > 1) {
      const std::vector<int64_t> ones(steps, 1);
      pieces = e_.graph.AddMany("Split", {x, e_.graph.Ints(ones)}, steps, {{"axis", 0}});
    }
    for (std::string& piece : pieces) piece = e_.Squeeze(piece, {0});
    return pieces;
  }

  void ReadInputs() {
    const Shape flat{sizes_.steps, sizes_.streams, sizes_.inputs};
    std::string gates = Product(e_.Reshape(e_.in[0], e_.shape(), flat, false),
                                RecurrentBlob::kInput, RecurrentBlob::kBias);
    if (sizes_.statics > 0) {
      const size_t i = At(bottoms_.x_static);
      const std::string rows =
          e_.Reshape(e_.in[i], e_.shape(i), Shape{sizes_.streams, sizes_.statics}, false);
      const std::string transposed = e_.Transpose(Blob(RecurrentBlob::kStatic), {1, 0});
      gates = e_.Add("Add", {gates, e_.Add("MatMul", {rows, transposed})});
    }
    gates_ = Steps(gates);
    if (bottoms_.cont >= 0) {
      const Shape column{sizes_.steps, sizes_.streams, 1};
      const size_t i = At(bottoms_.cont);
      cont_ = Steps(e_.Reshape(e_.in[i], e_.shape(i), column, false));
    }
    for (size_t s = 0; s < layer_.cell().states; ++s) states_.push_back(Initial(s));
  }

  std::string Initial(size_t state) {
    if (bottoms_.initial < 0) {
      const auto count = static_cast<size_t>(sizes_.state());
      return e_.graph.Floats({sizes_.streams, sizes_.hidden}, std::vector<float>(count, 0));
    }
    const std::string& all = e_.in[At(bottoms_.initial) + state];
    const std::string own =
        layer_.Directions() == 1 ? all : e_.Slice(all, 0, direction_, direction_ + 1);
    return e_.Squeeze(own, {0});
  }

  // States before the k-th step, which is that of time t.
  void LoadStates(int64_t k, int64_t t) {
    const bool zeros = k == 0 && bottoms_.initial < 0;
    if (cont_.empty() || zeros || (reverse_ && k == 0)) return;
    const std::string& factor = cont_[static_cast<size_t>(reverse_ ? t + 1 : t)];
    for (std::string& state : states_) state = e_.Add("Mul", {state, factor});
  }

  std::vector<std::string> Split(const std::string& x, size_t parts) {
    const std::vector<int64_t> sizes(parts, sizes_.hidden);
    return e_.graph.AddMany("Split", {x, e_.graph.Ints(sizes)}, parts, {{"axis", 1}});
  }

  // h W_h^T + x
  std::string Hidden(const std::string& h, const std::string& weight, const std::string& x) {
    return e_.Add("Gemm", {h, weight, x}, {{"transB", 1}});
  }

  void Step(int64_t t) {
    const std::string& gates = gates_[static_cast<size_t>(t)];
    if (e_.param.type() == "GRU") return GruStep(gates);
    const std::string sum = Hidden(states_[0], Blob(RecurrentBlob::kHidden), gates);
    if (e_.param.type() == "RNN") {
      states_[0] = e_.Add("Tanh", {sum});
      return;
    }
    const std::vector<std::string> gate = Split(sum, 4);  // i, f, o, g
    const std::string kept = e_.Add("Mul", {e_.Add("Sigmoid", {gate[1]}), states_[1]});
    const std::string added =
        e_.Add("Mul", {e_.Add("Sigmoid", {gate[0]}), e_.Add("Tanh", {gate[3]})});
    states_[1] = e_.Add("Add", {kept, added});
    states_[0] = e_.Add("Mul", {e_.Add("Sigmoid", {gate[2]}), e_.Add("Tanh", {states_[1]})});
  }

  void GruStep(const std::string& gates) {
    const std::string h = states_[0];
    const std::vector<std::string> x = Split(gates, 3);  // r, z, n
    const std::string weight = Blob(RecurrentBlob::kHidden);
    const int64_t d = sizes_.hidden;
    std::string r, z, n;
    if (e_.param.recurrent_param().reset_after()) {
      const std::vector<std::string> u =
          Split(Hidden(h, weight, Blob(RecurrentBlob::kExtraBias)), 3);
      r = e_.Add("Sigmoid", {e_.Add("Add", {x[0], u[0]})});
      z = e_.Add("Sigmoid", {e_.Add("Add", {x[1], u[1]})});
      n = e_.Add("Add", {x[2], e_.Add("Mul", {r, u[2]})});
    } else {
      const auto part = [&](int64_t i) { return e_.Slice(weight, 0, i * d, (i + 1) * d); };
      r = e_.Add("Sigmoid", {Hidden(h, part(0), x[0])});
      z = e_.Add("Sigmoid", {Hidden(h, part(1), x[1])});
      n = Hidden(e_.Add("Mul", {r, h}), part(2), x[2]);
    }
    const std::string rest = e_.Add("Sub", {e_.graph.Scalar(1), z});
    states_[0] = e_.Add("Add", {e_.Add("Mul", {rest, e_.Add("Tanh", {n})}), e_.Add("Mul", {z, h})});
  }

  LayerExport& e_;
  const RecurrentLayer& layer_;
  const RecurrentLayer::Bottoms bottoms_;
  const int direction_;
  const bool reverse_;
  SequenceSize sizes_;
  std::array<int, kRecurrentBlobs> blobs_{};
  std::vector<std::string> gates_, cont_;  // by time
  std::vector<std::string> states_;        // N x D
};

void Recurrent(LayerExport& e) {
  const auto& layer = dynamic_cast<const RecurrentLayer&>(e.layer);
  std::vector<std::string> outputs;
  std::vector<std::vector<std::string>> finals(layer.cell().states);
  for (int d = 0; d < layer.Directions(); ++d) {
    Direction direction(&e, d);
    outputs.push_back(direction.Run());
    for (size_t s = 0; s < finals.size(); ++s) finals[s].push_back(direction.Final(s));
  }
  const auto join = [&](const std::vector<std::string>& parts, int axis) {
    return parts.size() == 1 ? parts[0] : e.Add("Concat", parts, {{"axis", axis}});
  };
  e.out = {join(outputs, 2)};
  for (size_t s = 0; 1 + s < e.info.outputs.size(); ++s) e.out.push_back(join(finals[s], 0));
}

void LstmUnit(LayerExport& e) {
  const std::vector<int64_t> sizes(4, e.shape()[2]);
  const std::vector<std::string> gate =
      e.graph.AddMany("Split", {e.in[1], e.graph.Ints(sizes)}, 4, {{"axis", 2}});
  const std::string before = e.Add("Mul", {e.in[0], e.Unsqueeze(e.in[2], {2})});
  const std::string kept = e.Add("Mul", {e.Add("Sigmoid", {gate[1]}), before});
  const std::string added = e.Add("Mul", {e.Add("Sigmoid", {gate[0]}), e.Add("Tanh", {gate[3]})});
  const std::string c = e.Add("Add", {kept, added});
  e.out = {c, e.Add("Mul", {e.Add("Sigmoid", {gate[2]}), e.Add("Tanh", {c})})};
}

}  // namespace

void AddRecurrentEmitters(EmitterTable* table) {
  table->insert(
      {{"GRU", Recurrent}, {"LSTM", Recurrent}, {"LSTMUnit", LstmUnit}, {"RNN", Recurrent}});
}

}  // namespace crema
