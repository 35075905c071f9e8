// Layers whose bottoms are broadcast to one shape, as in NumPy: Binary, Where.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "graph/layer.h"
#include "math/broadcast_tiles.h"

namespace crema {

// Returns the shape that all inputs are broadcast to: axes are aligned at the end, missing ones are
// 1, and an axis of 1 is repeated. Throws kInvalidArgument, naming both shapes, if two do not fit.
Shape BroadcastShapeOf(const Layer& layer, std::span<const BlobSpec> inputs);

// Returns true if the input is not repeated on the way to `result`.
inline bool IsWhole(const BlobSpec& input, const Shape& result) { return input.shape == result; }

// Returns the map of these inputs, in their order, to `result`. The operand after them is the
// result itself. `Input` is a view or a BlobSpec.
template <typename Input>
BroadcastMap MapOfInputs(const Shape& result, std::span<const Input> inputs) {
  std::array<const Shape*, BroadcastMap::kMaxOperands> shapes{};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if constexpr (std::is_same_v<Input, BlobSpec>) {
      shapes[i] = &inputs[i].shape;
    } else {
      shapes[i] = &inputs[i].shape();
    }
  }
  shapes[inputs.size()] = &result;
  return MapOf(result, std::span(shapes).first(inputs.size() + 1));
}

// Returns the scratch bytes that the sums of the gradients of repeated inputs need, one after the
// other.
size_t GradientSumScratch(const Shape& result, std::span<const BlobSpec> inputs);

// Writes the gradient of an input, summed if it is repeated. Each thread calls make_tiles() once.
// It returns an object with
//   void Fill(int64_t at, int64_t count, Compute<T>* dx)
//   const Compute<T>* operator()(int64_t at, int64_t count)
// for the gradients of the elements of the result in a tile. `map` is that of the inputs. `grain`
// is the minimum number of elements per thread.
template <typename T, typename MakeTiles>
void WriteGradient(const BackwardArgs& args, const BroadcastMap& map, size_t input, int64_t grain,
                   const MakeTiles& make_tiles) {
  const TensorView& grad = args.input_grads[input];
  const int threads = args.context.threads();
  T* dx = grad.data<T>();
  if (grad.shape() != args.output_grads[0].shape()) {
    return SumTiles(threads, map, static_cast<int>(input), grad.count(), make_tiles, args.scratch,
                    dx);
  }
  ParallelFor(threads, map.count, grain, [&](int64_t begin, int64_t end, int) {
    auto tiles = make_tiles();
    TileWriter<T> writer;
    ForEachTile(map, begin, end, [&](int64_t at, int64_t count) {
      writer.Write(dx + at, count, [&](Compute<T>* to) { tiles.Fill(at, count, to); });
    });
  });
}

// Sets outputs, reach, shared_inputs and any_format of a layer that computes each element of its
// output from those of its inputs at the same place, after broadcasting.
void SetBroadcastFacts(const Layer& layer, std::span<const BlobSpec> inputs, LayerInfo* info);

}  // namespace crema
