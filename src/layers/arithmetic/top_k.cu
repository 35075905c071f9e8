// TopK on the GPU; see top_k.cc. One team sorts a line.
#include <span>

#include "layers/arithmetic/top_k.h"
#include "layers/gpu_implementation.h"
#include "layers/whole_numbers.h"
#include "math/cuda/copy.cuh"
#include "math/cuda/team_lists.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

using Item = Ranked<float>;

// Results of TopK; null: not needed.
template <typename T>
struct Results {
  T* values;
  T* positions;
  int32_t* saved;
};

template <typename T>
void SortLines(const CudaQueue& queue, const TopKLines& all, const T* x, Item* scratch,
               const Results<T>& results) {
  const TopKLines lines = all;
  const Results<T> to = results;
  ForTeams(queue, "TopK", lines.count, [=] CREMA_HOST_DEVICE(const Team& team, int64_t line) {
    Item* items = scratch + line * lines.searched;
    team.For(lines.searched, [&](int64_t i) {
      items[i] = Item{ToFloat(x[lines.InX(line, i)]), static_cast<int32_t>(i)};
    });
    Sort(team, lines.searched, items, [&](const Item& a, const Item& b) {
      return lines.Before(a.score, a.index, b.score, b.index);
    });
    if (!lines.sorted) {
      Sort(team, lines.k, items, [](const Item& a, const Item& b) { return a.index < b.index; });
    }
    team.For(lines.k, [&](int64_t i) {
      const int64_t at = lines.InY(line, i);
      const int32_t index = items[i].index;
      to.values[at] = x[lines.InX(line, index)];
      if (to.positions != nullptr) to.positions[at] = FromFloat<T>(static_cast<float>(index));
      if (to.saved != nullptr) to.saved[at] = index;
    });
  });
}

template <typename T>
void SendBack(const CudaQueue& queue, const TopKLines& all, const int32_t* positions, const T* dy,
              T* dx) {
  const TopKLines lines = all;
  ForElements(queue, "TopKGradient", lines.count * lines.k, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t line = i / (lines.k * lines.inner) * lines.inner + i % lines.inner;
    dx[lines.InX(line, positions[i])] = dy[i];
  });
}

struct GpuTopK {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const TopKLines lines(layer, args.inputs[0].shape());
    if (lines.k == 0) return;
    auto* const items = ScratchCutter(args.scratch).Take<Item>(lines.count * lines.searched);
    SortLines(args.queue, lines, args.x(), items,
              Results<T>{args.y(), args.y(1), args.template Saved<int32_t>()});
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const TopKLines lines(layer, args.input_grads[0].shape());
    ZeroElements(args.queue, args.input_grads[0].count(), args.dx());
    if (args.dy() == nullptr) return;
    SendBack(args.queue, lines, args.template Saved<int32_t>(), args.dy(), args.dx());
  }

  static size_t ForwardScratch(const OpDesc& query) {
    return kScratchSlack + ScratchBytes<Item>(query.context.inputs[0].shape.count());
  }

  // Positions are written as values of the type of the net.
  static Support Supports(const OpDesc& query) {
    const TopKLines lines(query.layer, query.context.inputs[0].shape);
    if (query.context.output_count > 1 && lines.searched > LargestWhole(query.context.dtype)) {
      return Support::No("has more positions than the type can count");
    }
    return SupportsCudaFloats(query);
  }
};

}  // namespace

void RegisterTopKCuda(Registry& registry) {
  registry.AddImplementation("TopK", CudaImplementation<GpuTopK>());
}

}  // namespace crema
