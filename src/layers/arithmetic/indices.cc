#include "layers/arithmetic/indices.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/sample_error_context.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

[[noreturn]] void FailIndex(const Layer& layer, double value, int64_t position, int bottom,
                            const IndexRange& range, const Shape& indices, std::string_view what) {
  Where where{.layer = layer.param().name()};
  if (indices.axes() > 0) where.sample = position / indices.count(1);
  where.blob = bottom < layer.param().bottom_size() ? layer.param().bottom(bottom)
                                                    : StrCat("bottom ", bottom);
  const bool whole = std::isfinite(value) && value == std::trunc(value);
  std::string message =
      StrCat("index ", value, " at element ", position, " of \"", where.blob, "\" ");
  if (where.sample >= 0) message += StrCat("(", SampleErrorContext(where.sample), ") ");
  message += StrCat("is ", whole ? "outside" : "not a whole number in");
  // An empty range has no last index.
  message += range.limit > 0 ? StrCat(" ", range.from_end ? -range.limit : 0, "..", range.limit - 1)
                             : std::string(" an empty range");
  message += StrCat(": there are ", range.limit, " ", what);
  Fail(ErrorCode::kDataLoss, std::move(message), std::move(where));
}

}  // namespace

void CheckIndices(const Layer& layer, const ConstTensorView& indices, int bottom,
                  std::span<const IndexRange> ranges, std::string_view what) {
  DispatchFloat(indices.dtype(), [&]<typename T>(T) {
    const T* data = indices.data<T>();
    size_t at = 0;
    for (int64_t i = 0; i < indices.count(); ++i) {
      const IndexRange& range = ranges[at];
      if (++at == ranges.size()) at = 0;
      const auto value = static_cast<double>(data[i]);
      if (RowOfIndex(value, range.limit, range.from_end) >= 0) continue;
      FailIndex(layer, value, i, bottom, range, indices.shape(), what);
    }
  });
}

void CheckIndices(const Layer& layer, const ConstTensorView& indices, int bottom, int64_t limit,
                  std::string_view what) {
  const IndexRange range{.limit = limit};
  CheckIndices(layer, indices, bottom, {&range, 1}, what);
}

template <typename T>
void GatherRows(int threads, const GatherSize& sizes, const T* indices, const T* x, T* y) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, sizes.inner));
  ParallelFor(threads, sizes.outer * sizes.picked, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t row = at / sizes.picked * sizes.rows +
                          RowOfIndex(indices[at % sizes.picked], sizes.rows, sizes.from_end);
      std::copy_n(x + row * sizes.inner, sizes.inner, y + at * sizes.inner);
    }
  });
}

template <typename T>
void ScatterAddRows(int threads, const GatherSize& sizes, const T* indices, const T* dy, T* dx) {
  const auto add = [&](int64_t o, int64_t begin, int64_t end) {
    for (int64_t k = 0; k < sizes.picked; ++k) {
      const int64_t row = o * sizes.rows + RowOfIndex(indices[k], sizes.rows, sizes.from_end);
      const T* from = dy + (o * sizes.picked + k) * sizes.inner;
      T* to = dx + row * sizes.inner;
      for (int64_t i = begin; i < end; ++i) to[i] += from[i];
    }
  };
  // Threads never share a row of one o, so that equal indices are added in order.
  const int64_t each = std::max<int64_t>(1, sizes.picked);
  if (sizes.outer > 1) {
    const int64_t slab = std::max<int64_t>(1, each * sizes.inner);
    ParallelFor(threads, sizes.outer, std::max<int64_t>(1, kGrain / slab),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t o = begin; o < end; ++o) add(o, 0, sizes.inner);
                });
  } else if (sizes.outer == 1) {
    ParallelFor(threads, sizes.inner, std::max<int64_t>(1, kGrain / each),
                [&](int64_t begin, int64_t end, int) { add(0, begin, end); });
  }
}

template void GatherRows(int, const GatherSize&, const float*, const float*, float*);
template void GatherRows(int, const GatherSize&, const double*, const double*, double*);
template void ScatterAddRows(int, const GatherSize&, const float*, const float*, float*);
template void ScatterAddRows(int, const GatherSize&, const double*, const double*, double*);

}  // namespace crema
