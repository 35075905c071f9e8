// OneHot on the GPU; see one_hot.cc.
#include "crema.pb.h"
#include "layers/arithmetic/one_hot.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

template <typename T>
void Mark(const CudaQueue& queue, const OneHotParameter& hot, int64_t count, int64_t after,
          const T* index, T* y) {
  const int64_t depth = hot.depth(), inner = after;
  const float on = hot.on_value(), off = hot.off_value();
  ForElements(queue, "OneHot", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float given = ToFloat(index[i / (depth * inner) * inner + i % inner]);
    y[i] = FromFloat<T>(OneHotClass(given, depth) == i / inner % depth ? on : off);
  });
}

struct GpuOneHot {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Shape& y = args.outputs[0].shape();
    Mark(args.queue, layer.param().one_hot_param(), y.count(), OneHotInner(layer, y), args.x(),
         args.y());
  }
};

}  // namespace

void RegisterOneHotCuda(Registry& registry) {
  registry.AddImplementation("OneHot", CudaImplementation<GpuOneHot>());
}

}  // namespace crema
