// Internal to the gradient of weights in bfloat16: arranges the pixels of images in one sequence of
// places, so that each place of a filter is a shift of that sequence, and divides the work.
//
// The sequence of dy has `pitch` places for each image row: its pixels, then zeros. In that of x
// the padding after a row is also the padding before the next. With strides, x has one sequence for
// each remainder (phase) of the positions that windows read. The sum for a filter place is then a
// dot product of two ranges.
#pragma once

#include <cstdint>
#include <vector>

#include "core/bfloat16.h"
#include "math/blocked_conv.h"

namespace crema::bf16_gradient {

inline constexpr int64_t kLanes = 16;   // channels of a block
inline constexpr int64_t kPlaces = 32;  // packed at a time, and of a tile
inline constexpr int64_t kTile = kLanes * kLanes;

inline int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t RoundUp(int64_t a, int64_t to) { return DivideUp(a, to) * to; }

// The positions that the places of a filter read along one axis.
struct Taps {
  explicit Taps(const BlockedConvShape::Axis& axis);

  // The coordinate in x of place `at` of a phase; may be outside the image.
  int64_t InputAt(int64_t of_phase, int64_t at) const {
    return at * axis.stride + offsets[static_cast<size_t>(of_phase)] - axis.pad;
  }
  // Returns the places of a row such that no window reaches a pixel of the next one.
  int64_t Pitch() const;

  const BlockedConvShape::Axis axis;
  std::vector<int64_t> phase;    // by filter place
  std::vector<int64_t> shift;    // by filter place
  std::vector<int64_t> offsets;  // by phase
  int64_t reach = 0;             // the largest shift
};

// The division of the work, by the shape alone: sums are added in the same order for any number of
// threads. A slab is a rectangle of input and output channels, whose sums stay in the second-level
// cache while a part of the chunks is processed.
struct Plan {
  explicit Plan(const BlockedConvShape& shape);

  int64_t Filter() const { return shape.h.kernel * shape.w.kernel; }
  int64_t Phases() const { return static_cast<int64_t>(h.offsets.size() * w.offsets.size()); }
  int64_t Inputs() const { return shape.in_channels / shape.groups; }
  int64_t Outputs() const { return shape.out_channels / shape.groups; }
  int64_t Slabs() const { return shape.groups * from_slabs * to_slabs; }
  int64_t Chunks() const { return runs * run_chunks; }

  // Elements of scratch; sums are floats, the others bfloat16.
  int64_t PackedInput() const { return kLanes * input_row; }  // of one block and phase
  int64_t PackedInputs() const { return from * Phases() * PackedInput(); }
  int64_t PackedGradient() const { return kLanes * chunk; }  // of one block
  int64_t PackedGradients() const { return to * PackedGradient(); }
  int64_t Sums() const { return Filter() * from * to * kTile; }
  int64_t SumSets(int threads) const { return parts == 1 ? threads : Slabs() * parts; }

  const BlockedConvShape shape;
  const Taps h, w;
  int64_t pitch;
  int64_t runs;        // ranges of places without a gap: images, or all of the batch as one
  int64_t run_places;  // of one
  int64_t run_chunks;
  int64_t chunk;                   // places at a time
  int64_t input_row;               // elements from one channel of packed inputs to the next
  int64_t from_blocks, to_blocks;  // of a group
  int64_t from, to;                // blocks of a slab
  int64_t from_slabs, to_slabs;
  int64_t parts;  // of the chunks
};

inline constexpr int64_t kNowhere = -1;  // a place that holds zeros

// Finds the pixels of places [begin, begin + count) of a run: element offsets from block 0 of
// image 0, or kNowhere. `count` is at most plan.input_row, and plan.chunk for dy.
void FindInputs(const Plan& plan, int64_t run, int64_t phase, int64_t begin, int64_t count,
                int64_t* places);
void FindGradients(const Plan& plan, int64_t run, int64_t begin, int64_t count, int64_t* places);

// Both functions below require a processor with AVX-512 and a `count` that is a multiple of
// kPlaces.
// to[channel * row + i]: place i of a channel.
void PackInputs(const BFloat16* block, const int64_t* places, int64_t count, int64_t row,
                BFloat16* to);
// to[(i / 2 * 16 + channel) * 2 + i % 2]: place i of a channel.
void PackGradients(const BFloat16* block, const int64_t* places, int64_t count, BFloat16* to);

// Input blocks [from, from + from_count) x output blocks [to, to + to_count) of a group.
struct Slab {
  int64_t group, from, from_count, to, to_count;
};

// Adds `parts` sets of sums, of which the first is overwritten, to the gradient of the weights. A
// set has tiles of 16 inputs x 16 outputs by filter place, block of inputs and block of outputs.
void FinishSlab(const Plan& plan, const Slab& slab, int64_t parts, float* sums, float* dweight);

}  // namespace crema::bf16_gradient
