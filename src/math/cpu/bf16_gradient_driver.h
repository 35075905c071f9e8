// Internal to the gradient of weights in bfloat16: the loops around the products. A template over
// the products, which differ by processor unit and which tests replace by a stand-in.
//
// Products has Multiply(rows, columns, operands), a constructor that sets up the unit of the
// calling thread and a destructor that releases it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/parallel_for.h"
#include "math/cpu/bf16_gradient_plan.h"
#include "math/cpu/bf16_gradient_products.h"
#include "math/scratch.h"

namespace crema::bf16_gradient {

// The scratch of one thread.
struct WorkerScratch {
  WorkerScratch(const Plan& p, ScratchCutter* cutter)
      : places(cutter->Take<int64_t>(p.input_row)),
        inputs(cutter->Take<BFloat16>(p.PackedInputs())),
        gradients(cutter->Take<BFloat16>(p.PackedGradients())) {}
  static size_t Bytes(const Plan& p) {
    return ScratchBytes<int64_t>(p.input_row) + ScratchBytes<BFloat16>(p.PackedInputs()) +
           ScratchBytes<BFloat16>(p.PackedGradients());
  }

  int64_t* places;
  BFloat16* inputs;
  BFloat16* gradients;
};

template <typename Products>
class GradientWorker {
 public:
  GradientWorker(const Plan& plan, const BFloat16* x, const BFloat16* dy)
      : p_(plan), x_(x), dy_(dy) {}

  Slab SlabOf(int64_t number) const {
    const int64_t from = number / p_.to_slabs % p_.from_slabs * p_.from;
    const int64_t to = number % p_.to_slabs * p_.to;
    return {number / (p_.to_slabs * p_.from_slabs), from, std::min(p_.from, p_.from_blocks - from),
            to, std::min(p_.to, p_.to_blocks - to)};
  }

  // Computes the sums of one part of the chunks.
  void Sum(const Products& products, const Slab& slab, int64_t part, const WorkerScratch& scratch,
           float* sums) const {
    std::fill_n(sums, p_.Sums(), 0.0F);
    const int64_t end = p_.Chunks() * (part + 1) / p_.parts;
    for (int64_t c = p_.Chunks() * part / p_.parts; c < end; ++c) {
      const int64_t first = c % p_.run_chunks * p_.chunk;
      const int64_t places = std::min(p_.chunk, p_.run_places - first);
      Pack(slab, c / p_.run_chunks, first, scratch);
      Multiply(products, slab, places, scratch, sums);
    }
  }

 private:
  void Pack(const Slab& slab, int64_t run, int64_t first, const WorkerScratch& s) const {
    const BlockedConvShape& shape = p_.shape;
    const int64_t in_plane = shape.h.in * shape.w.in * kLanes;
    const int64_t reach = RoundUp(p_.chunk + p_.h.reach * p_.pitch + p_.w.reach, kPlaces);
    for (int64_t phase = 0; phase < p_.Phases(); ++phase) {
      FindInputs(p_, run, phase, first, reach, s.places);
      for (int64_t b = 0; b < slab.from_count; ++b) {
        const int64_t block = slab.group * p_.from_blocks + slab.from + b;
        PackInputs(x_ + block * in_plane, s.places, reach, p_.input_row,
                   s.inputs + (phase * p_.from + b) * p_.PackedInput());
      }
    }
    const int64_t out_plane = shape.h.out * shape.w.out * kLanes;
    FindGradients(p_, run, first, p_.chunk, s.places);
    for (int64_t b = 0; b < slab.to_count; ++b) {
      const int64_t block = slab.group * p_.to_blocks + slab.to + b;
      PackGradients(dy_ + block * out_plane, s.places, p_.chunk,
                    s.gradients + b * p_.PackedGradient());
    }
  }

  void Multiply(const Products& products, const Slab& slab, int64_t places, const WorkerScratch& s,
                float* sums) const {
    for (int64_t to = 0; to < slab.to_count; to += 2) {
      for (int64_t from = 0; from < slab.from_count; from += 2) {
        MultiplyFilter(products, slab, from, to, places, s,
                       sums + (from * slab.to_count + to) * kTile);
      }
    }
  }

  void MultiplyFilter(const Products& products, const Slab& slab, int64_t from, int64_t to,
                      int64_t places, const WorkerScratch& s, float* sums) const {
    const auto columns = static_cast<int64_t>(p_.w.offsets.size());
    const auto rows = static_cast<int>(std::min<int64_t>(2, slab.from_count - from));
    const auto gradients = static_cast<int>(std::min<int64_t>(2, slab.to_count - to));
    const int64_t filter_step = slab.from_count * slab.to_count * kTile;
    for (size_t i = 0; i < p_.h.shift.size(); ++i) {
      for (size_t j = 0; j < p_.w.shift.size(); ++j, sums += filter_step) {
        const int64_t phase = p_.h.phase[i] * columns + p_.w.phase[j];
        const int64_t shift = p_.h.shift[i] * p_.pitch + p_.w.shift[j];
        products.Multiply(rows, gradients,
                          {.places = places,
                           .inputs = s.inputs + (phase * p_.from + from) * p_.PackedInput() + shift,
                           .input_row = p_.input_row,
                           .input_block = p_.PackedInput(),
                           .gradients = s.gradients + to * p_.PackedGradient(),
                           .gradient_block = p_.PackedGradient(),
                           .sums = sums,
                           .sum_row = slab.to_count * kTile});
      }
    }
  }

  const Plan& p_;
  const BFloat16* x_;
  const BFloat16* dy_;
};

inline size_t GradientScratch(const Plan& p, int threads) {
  return ScratchBytes<float>(p.SumSets(threads) * p.Sums()) +
         static_cast<size_t>(threads) * WorkerScratch::Bytes(p) + kScratchSlack;
}

// As BF16WeightGradient, with the same requirements.
template <typename Products>
void RunGradient(const BlockedConvShape& shape, int threads, const BFloat16* x, const BFloat16* dy,
                 float* dweight, std::span<std::byte> scratch) {
  if (shape.batch == 0) return;
  const Plan p(shape);
  ScratchCutter cutter(scratch);
  auto* sums = cutter.Take<float>(p.SumSets(threads) * p.Sums());
  std::byte* workers = cutter.Rest().data();
  const size_t worker_bytes = WorkerScratch::Bytes(p);
  const GradientWorker<Products> gradient(p, x, dy);
  ParallelFor(threads, p.Slabs() * p.parts, 1, [&](int64_t i, int64_t end, int worker) {
    const Products products;
    ScratchCutter own({workers + static_cast<size_t>(worker) * worker_bytes, worker_bytes});
    const WorkerScratch mine(p, &own);
    for (; i < end; ++i) {
      const Slab slab = gradient.SlabOf(i / p.parts);
      float* set = sums + (p.parts == 1 ? worker : i) * p.Sums();
      gradient.Sum(products, slab, i % p.parts, mine, set);
      if (p.parts == 1) FinishSlab(p, slab, 1, set, dweight);
    }
  });
  if (p.parts == 1) return;
  ParallelFor(threads, p.Slabs(), 1, [&](int64_t slab, int64_t end, int) {
    for (; slab < end; ++slab) {
      FinishSlab(p, gradient.SlabOf(slab), p.parts, sums + slab * p.parts * p.Sums(), dweight);
    }
  });
}

}  // namespace crema::bf16_gradient
