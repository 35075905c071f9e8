// CosineSimilarity: y = <a, b> / max(|a| |b|, eps) for pairs of vectors. Axes before `axis` count
// the vectors, the others are their elements.
// With p = |a| |b| > eps: da = dy * (b / p - y * a / |a|^2), db likewise. Otherwise the divisor is
// constant: da = dy * b / eps, db = dy * a / eps.
#include "layers/arithmetic/cosine_similarity.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "math/broadcast.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 13;  // minimum elements per thread

template <typename T>
VectorPair Measure(const T* a, const T* b, int64_t count) {
  const auto product = [](T x, T y) { return x * y; };
  return {broadcast::SumRun(product, a, b, count), broadcast::SumRun(product, a, a, count),
          broadcast::SumRun(product, b, b, count)};
}

// da = b * to_other - a * to_self. Both factors include dy.
template <typename T>
void WriteGradient(const T* a, const T* b, double to_other, double to_self, T* da, int64_t count) {
  for (int64_t i = 0; i < count; ++i) da[i] = T(to_other) * b[i] - T(to_self) * a[i];
}

class CosineSimilarity final : public Layer {
 public:
  explicit CosineSimilarity(const LayerParameter& param)
      : Layer(param), eps_(param.cosine_similarity_param().eps()) {
    if (!(eps_ > 0 && std::isfinite(eps_))) {
      FailField(*this, "cosine_similarity_param.eps",
                StrCat("eps is ", eps_, ", expected a finite number above 0"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& a = context.inputs[0].shape;
    const Shape& b = context.inputs[1].shape;
    if (a != b) {
      FailInputs(*this, StrCat("the bottoms must have one shape, but they are ", ToString(a),
                               " and ", ToString(b)));
    }
    const auto vectors = a.dims().first(static_cast<size_t>(Axis(a)));
    LayerInfo info;
    info.outputs = {{Shape(vectors), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(Axis(a));
    info.backward_reads_input = {true, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* a = args.inputs[0].data<T>();
      const T* b = args.inputs[1].data<T>();
      T* y = args.outputs[0].data<T>();
      ForEachVector(args.context, args.inputs[0].shape(), [&](int64_t n, int64_t at, int64_t size) {
        const VectorPair pair = Measure(a + at, b + at, size);
        y[n] = static_cast<T>(pair.dot / pair.Divisor(eps_));
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* a = args.inputs[0].data<T>();
      const T* b = args.inputs[1].data<T>();
      const T* dy = args.output_grads[0].data<T>();
      ForEachVector(args.context, args.inputs[0].shape(), [&](int64_t n, int64_t at, int64_t size) {
        const VectorPair pair = Measure(a + at, b + at, size);
        const double weight = static_cast<double>(dy[n]) / pair.Divisor(eps_);
        const bool moves = pair.lengths() > eps_;  // the divisor depends on a and b
        if (const TensorView& da = args.input_grads[0]; !da.empty()) {
          WriteGradient(a + at, b + at, weight, moves ? weight * pair.dot / pair.aa : 0,
                        da.data<T>() + at, size);
        }
        if (const TensorView& db = args.input_grads[1]; !db.empty()) {
          WriteGradient(b + at, a + at, weight, moves ? weight * pair.dot / pair.bb : 0,
                        db.data<T>() + at, size);
        }
      });
    });
  }

 private:
  int Axis(const Shape& shape) const {
    return LayerAxis(*this, shape, param().cosine_similarity_param().axis(),
                     "cosine_similarity_param.axis");
  }

  // Calls body(index, offset, size) for each vector.
  template <typename Body>
  void ForEachVector(const ExecContext& context, const Shape& shape, Body&& body) const {
    const int axis = Axis(shape);
    const int64_t size = shape.count(axis);
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, size));
    ParallelFor(context.threads(), shape.count(0, axis), grain,
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t n = begin; n < end; ++n) body(n, n * size, size);
                });
  }

  const double eps_;
};

}  // namespace

void RegisterCosineSimilarity(Registry& registry) {
  LayerType type;
  type.name = "CosineSimilarity";
  type.category = "arithmetic";
  type.summary = "Cosine of the angle between pairs of vectors.";
  type.formula = "y[n] = <a[n], b[n]> / max(|a[n]| |b[n]|, eps)";
  type.input_docs = {"a: N x D; axes before axis are N, all others D", "b: the shape of a"};
  type.output_docs = {"y: N, the axes of a before axis"};
  type.origin = "Crema";
  type.param_fields = {"cosine_similarity_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const CosineSimilarity>(p); };
  const auto sample = [](std::string name, std::string text, const std::vector<int64_t>& shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = std::move(text),
                       .inputs = {{.shape = shape}, {.shape = shape}}};
  };
  type.samples = {
      sample("plain", "", {4, 5}),
      sample("images", "", {2, 3, 2, 2}),
      sample("last_axis", "cosine_similarity_param { axis: -1 }", {2, 3, 4}),
      sample("all_one_vector", "cosine_similarity_param { axis: 0 }", {3, 4}),
      sample("below_eps", "cosine_similarity_param { eps: 1000 }", {3, 4}),
      sample("large", "", {40, 3001}),
      sample("empty_batch", "", {0, 3}),
      sample("empty_vectors", "", {3, 0}),
  };
  type.bad_samples = {
      {"", {{2, 3}, {2, 4}}, "2x3 and 2x4"},
      {"", {{2}, {2}}, "axis 1 is outside"},
      {"cosine_similarity_param { eps: 0 }",
       {{2, 3}, {2, 3}},
       "eps is 0, expected a finite number above 0"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
