// Sums over a BroadcastMap on the GPU.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "math/broadcast_map.h"
#include "math/cuda/broadcast.cuh"
#include "math/cuda/copy.cuh"

namespace crema {

// The result of a map, divided: position of an element of one operand, plus position of one of the
// elements that it is repeated to.
struct Repetitions {
  Repetitions(const BroadcastMap& map, int operand) {
    int64_t step = map.count;
    for (int a = 0; a < map.size; ++a) {
      step /= map.length[a];
      BroadcastMap& part = map.stride[operand][a] != 0 ? own : repeated;
      part.Add(map.length[a], {step});
    }
  }
  CREMA_HOST_DEVICE int64_t PositionOf(int64_t element, int64_t repetition) const {
    return own.PositionOf(0, element) + repeated.PositionOf(0, repetition);
  }

  BroadcastMap own;       // the elements of the operand
  BroadcastMap repeated;  // the repetitions of each
};

// Returns the three axes that are repeated, own and repeated, if there are no more.
inline std::optional<BroadcastShape> AsBroadcastShape(const BroadcastMap& map, int operand) {
  const Repetitions parts(map, operand);
  if (map.count == 0 || parts.own.size > 1) return std::nullopt;
  if (parts.own.size == 0) return BroadcastShape{1, 1, map.count};
  const int64_t middle = parts.own.count, inner = parts.own.stride[0][0];
  return BroadcastShape{map.count / (middle * inner), middle, inner};
}

// Returns the bytes of scratch that make SumRepetitions fast. It works with less too.
inline size_t RepetitionScratch(const BroadcastMap& map, int operand) {
  const std::optional<BroadcastShape> shape = AsBroadcastShape(map, operand);
  return shape ? BroadcastSumScratch(*shape) : 0;
}

// sums[k] = the sum of term(i) over the elements i of the result to which element k of the operand,
// which has `elements`, is repeated. `term` returns float.
template <typename T, typename Term>
static void SumRepetitions(const CudaQueue& queue, const BroadcastMap& map, int operand,
                           int64_t elements, const Term& term, std::span<std::byte> scratch,
                           T* sums) {
  ZeroElements(queue, elements, sums);
  if (map.count == 0) return;
  const std::optional<BroadcastShape> shape = AsBroadcastShape(map, operand);
  if (shape && BroadcastSumScratch(*shape) <= scratch.size()) {
    return AddBroadcastSums(queue, *shape, term, scratch, sums);
  }
  const Repetitions parts(map, operand);
  const int64_t repetitions = parts.repeated.count;
  const auto element = [=] CREMA_HOST_DEVICE(int64_t k, int64_t r) {
    return term(parts.PositionOf(k, r));
  };
  // Neighbouring threads read neighbouring elements.
  if (map.stride[operand][map.size - 1] != 0 || repetitions <= Team::kWarp) {
    return ForElements(queue, "SumRepetitions", elements, [=] CREMA_HOST_DEVICE(int64_t k) {
      float sum = 0;
      for (int64_t r = 0; r < repetitions; ++r) sum += element(k, r);
      sums[k] = FromFloat<T>(sum);
    });
  }
  AddRowSums(queue, elements, repetitions, element, sums);
}

}  // namespace crema
