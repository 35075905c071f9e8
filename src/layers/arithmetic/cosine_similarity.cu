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

// Vectors of a layer, and what their lengths are compared with.
struct Vectors {
  Vectors(const Layer& layer, const Shape& shape)
      : eps(layer.param().cosine_similarity_param().eps()) {
    const int axis = LayerAxis(layer, shape, layer.param().cosine_similarity_param().axis(),
                               "cosine_similarity_param.axis");
    count = shape.count(0, axis);
    size = shape.count(axis);
  }
  double eps;
  int64_t count, size;
};

struct GpuCosineSimilarity {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Vectors v(layer, args.inputs[0].shape());
    const T *a = args.x(0), *b = args.x(1);
    T* y = args.y();
    ForTeams(args.queue, "CosineSimilarity", v.count,
             [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
               const VectorPair pair = Measure(team, a + n * v.size, b + n * v.size, v.size);
               team.For(1, [&](int64_t) {
                 y[n] = FromFloat<T>(static_cast<float>(pair.dot / pair.Divisor(v.eps)));
               });
             });
  }

  // da = b * to_other - a * to_a, with dy in both factors, and the same for db. Null means not
  // needed.
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Vectors v(layer, args.inputs[0].shape());
    const T *a = args.x(0), *b = args.x(1), *dy = args.dy();
    T *da = args.dx(0), *db = args.dx(1);
    ForTeams(args.queue, "CosineGradients", v.count,
             [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
               const int64_t at = n * v.size;
               const VectorPair pair = Measure(team, a + at, b + at, v.size);
               const double weight = static_cast<double>(ToFloat(dy[n])) / pair.Divisor(v.eps);
               const bool moves = pair.lengths() > v.eps;  // the divisor depends on a and b
               const auto to_other = static_cast<float>(weight);
               const auto to_a = static_cast<float>(moves ? weight * pair.dot / pair.aa : 0);
               const auto to_b = static_cast<float>(moves ? weight * pair.dot / pair.bb : 0);
               team.For(v.size, [&](int64_t i) {
                 const float va = ToFloat(a[at + i]), vb = ToFloat(b[at + i]);
                 if (da != nullptr) da[at + i] = FromFloat<T>(to_other * vb - to_a * va);
                 if (db != nullptr) db[at + i] = FromFloat<T>(to_other * va - to_b * vb);
               });
             });
  }
};

}  // namespace

void RegisterCosineSimilarityCuda(Registry& registry) {
  registry.AddImplementation("CosineSimilarity", CudaImplementation<GpuCosineSimilarity>());
}

}  // namespace crema
