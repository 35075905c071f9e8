// CosineSimilarity on the GPU; see cosine_similarity.cc.
#include "crema.pb.h"
#include "layers/arithmetic/cosine_similarity.h"
#include "layers/gpu_implementation.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

template <typename T>
CREMA_HOST_DEVICE VectorPair Measure(const Team& team, const T* a, const T* b, int64_t size) {
  VectorPair pair;
  pair.dot = team.Sum(size, [&](int64_t i) { return ToFloat(a[i]) * ToFloat(b[i]); });
  pair.aa = team.Sum(size, [&](int64_t i) { return ToFloat(a[i]) * ToFloat(a[i]); });
  pair.bb = team.Sum(size, [&](int64_t i) { return ToFloat(b[i]) * ToFloat(b[i]); });
  return pair;
}

template <typename T>
void Compare(const CudaQueue& queue, int64_t vectors, int64_t size, double eps, const T* a,
             const T* b, T* y) {
  ForTeams(queue, "CosineSimilarity", vectors, [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
    const VectorPair pair = Measure(team, a + n * size, b + n * size, size);
    team.For(
        1, [&](int64_t) { y[n] = FromFloat<T>(static_cast<float>(pair.dot / pair.Divisor(eps))); });
  });
}

// da = b * to_other - a * to_a, with dy in both factors, and the same for db. Null means not
// wanted.
template <typename T>
void WriteGradients(const CudaQueue& queue, int64_t vectors, int64_t size, double eps, const T* a,
                    const T* b, const T* dy, T* da, T* db) {
  ForTeams(queue, "CosineGradients", vectors, [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
    const int64_t at = n * size;
    const VectorPair pair = Measure(team, a + at, b + at, size);
    const double weight = static_cast<double>(ToFloat(dy[n])) / pair.Divisor(eps);
    const bool moves = pair.lengths() > eps;  // the divisor depends on a and b
    const auto to_other = static_cast<float>(weight);
    const auto to_a = static_cast<float>(moves ? weight * pair.dot / pair.aa : 0);
    const auto to_b = static_cast<float>(moves ? weight * pair.dot / pair.bb : 0);
    team.For(size, [&](int64_t i) {
      const float va = ToFloat(a[at + i]), vb = ToFloat(b[at + i]);
      if (da != nullptr) da[at + i] = FromFloat<T>(to_other * vb - to_a * va);
      if (db != nullptr) db[at + i] = FromFloat<T>(to_other * va - to_b * vb);
    });
  });
}

int Axis(const Layer& layer, const Shape& shape) {
  return LayerAxis(layer, shape, layer.param().cosine_similarity_param().axis(),
                   "cosine_similarity_param.axis");
}

double Eps(const Layer& layer) { return layer.param().cosine_similarity_param().eps(); }

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& a = args.inputs[0];
  const int axis = Axis(layer, a.shape());
  DispatchCudaFloat(a.dtype(), [&]<typename T>(T) {
    Compare(queue, a.shape().count(0, axis), a.shape().count(axis), Eps(layer), Elements<T>(a),
            Elements<T>(args.inputs[1]), Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& a = args.inputs[0];
  const int axis = Axis(layer, a.shape());
  DispatchCudaFloat(a.dtype(), [&]<typename T>(T) {
    WriteGradients(queue, a.shape().count(0, axis), a.shape().count(axis), Eps(layer),
                   Elements<T>(a), Elements<T>(args.inputs[1]), Elements<T>(args.output_grads[0]),
                   Elements<T>(args.input_grads[0]), Elements<T>(args.input_grads[1]));
  });
}

}  // namespace

void RegisterCosineSimilarityCuda(Registry& registry) {
  registry.AddImplementation("CosineSimilarity",
                             MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
