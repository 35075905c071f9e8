// ArgMax on the GPU; see argmax.cc.
#include "crema.pb.h"
#include "layers/arithmetic/argmax.h"
#include "layers/gpu_implementation.h"
#include "layers/layer_axis.h"
#include "layers/whole_numbers.h"

namespace crema {
namespace {

// Lines of values with a constant stride, and the destination of the first values of each.
template <typename T>
struct Search {
  const T* x;
  T* y;
  int64_t searched, inner, top_k;
  bool values;  // written instead of positions
  bool both;    // written after the positions

  CREMA_HOST_DEVICE float Value(int64_t line, int64_t i) const {
    return ToFloat(x[(line / inner * searched + i) * inner + line % inner]);
  }
  CREMA_HOST_DEVICE bool Before(int64_t line, int64_t a, int64_t b) const {
    return ComesBefore(Value(line, a), a, Value(line, b), b);
  }
  // Returns the one of a and b that ranks first. A negative one is ignored.
  CREMA_HOST_DEVICE int64_t First(int64_t line, int64_t a, int64_t b) const {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return Before(line, a, b) ? a : b;
  }
  // As First(best, i), but ignores i unless it ranks after `last`.
  CREMA_HOST_DEVICE int64_t FirstAfter(int64_t line, int64_t last, int64_t best, int64_t i) const {
    return last < 0 || Before(line, last, i) ? First(line, best, i) : best;
  }
  CREMA_HOST_DEVICE void Write(int64_t line, int64_t k, int64_t position) const {
    T* to = y + line / inner * (both ? 2 : 1) * top_k * inner + line % inner;
    const float value = Value(line, position);
    to[k * inner] = FromFloat<T>(values ? value : static_cast<float>(position));
    if (both) to[top_k + k] = FromFloat<T>(value);
  }
};

// One thread per line.
template <typename T>
void SearchShort(const CudaQueue& queue, int64_t lines, const Search<T>& search) {
  ForElements(queue, "ArgMaxShort", lines, [=] CREMA_HOST_DEVICE(int64_t line) {
    int64_t last = -1;
    for (int64_t k = 0; k < search.top_k; ++k) {
      int64_t best = -1;
      for (int64_t i = 0; i < search.searched; ++i) best = search.FirstAfter(line, last, best, i);
      search.Write(line, k, best);
      last = best;
    }
  });
}

// One team per line.
template <typename T>
void SearchLong(const CudaQueue& queue, int64_t lines, const Search<T>& search) {
  ForTeams(queue, "ArgMaxLong", lines, [=] CREMA_HOST_DEVICE(const Team& team, int64_t line) {
    int64_t last = -1;
    for (int64_t k = 0; k < search.top_k; ++k) {
      const int64_t best = team.Reduce<int64_t>(
          search.searched, -1,
          [&](int64_t part, int64_t i) { return search.FirstAfter(line, last, part, i); },
          [&](int64_t a, int64_t b) { return search.First(line, a, b); });
      team.For(1, [&](int64_t) { search.Write(line, k, best); });
      last = best;
    }
  });
}

struct GpuArgMax {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const ArgMaxParameter& param = layer.param().argmax_param();
    const Shape& x = args.inputs[0].shape();
    const bool along = param.has_axis();
    const int axis = along ? LayerAxis(layer, x, param.axis(), "argmax_param.axis") : 0;
    const int64_t inner = along ? x.count(axis + 1) : 1;
    const int64_t searched = along ? x[axis] : x.count(1);
    const int64_t lines = (along ? x.count(0, axis) : x[0]) * inner;
    const bool values = param.out_max_val();
    // Neighbouring lines are adjacent in memory unless they run along the last axis.
    const int64_t shorts = inner > 1 ? 1024 : 8;
    const Search<T> search{
        args.x(),        args.y(),        searched, inner, static_cast<int64_t>(param.top_k()),
        values && along, values && !along};
    if (searched <= shorts) return SearchShort(args.queue, lines, search);
    SearchLong(args.queue, lines, search);
  }

  // Positions are written as values of the type of the net.
  static Support Supports(const OpDesc& query) {
    const ArgMaxParameter& param = query.layer.param().argmax_param();
    const Shape& x = query.context.inputs[0].shape;
    const bool along = param.has_axis();
    if (along && param.out_max_val()) return SupportsCudaFloats(query);
    const int64_t searched =
        along ? x[LayerAxis(query.layer, x, param.axis(), "argmax_param.axis")] : x.count(1);
    if (searched > LargestWhole(query.context.dtype)) {
      return Support::No("has more positions than the type can count");
    }
    return SupportsCudaFloats(query);
  }
};

}  // namespace

void RegisterArgMaxCuda(Registry& registry) {
  registry.AddImplementation("ArgMax", CudaImplementation<GpuArgMax>());
}

}  // namespace crema
