// Sizes of MatMul; see matmul.cc.
#pragma once

#include <cstdint>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

// Sizes of a batch of products. A and B have `products` matrices or fewer, which are repeated.
struct MatMulSize {
  int64_t m = 0, n = 0, k = 0;
  Shape batch;  // axes of C before the last two
  Shape batch_a;
  Shape batch_b;
  int64_t products() const { return batch.count(); }
  bool empty() const { return m == 0 || n == 0 || k == 0 || products() == 0; }
};

inline Shape WithoutMatrix(const Shape& shape) {
  return Shape(shape.dims().first(static_cast<size_t>(shape.axes() - 2)));
}

inline MatMulSize MatMulSizeOf(const Layer& layer, const Shape& a, const Shape& b) {
  const bool transpose_a = layer.param().matmul_param().transpose_a();
  const bool transpose_b = layer.param().matmul_param().transpose_b();
  const auto fail = [&](const char* why) {
    FailInputs(layer, StrCat("cannot multiply ", ToString(a), transpose_a ? " (transposed)" : "",
                             " by ", ToString(b), transpose_b ? " (transposed)" : "", ": ", why));
  };
  if (a.axes() < 2 || b.axes() < 2) fail("matrices have 2 axes or more");
  const int a_rows = a.axes() - (transpose_a ? 1 : 2);
  const int b_rows = b.axes() - (transpose_b ? 1 : 2);
  const int a_columns = 2 * a.axes() - 3 - a_rows;
  const int b_columns = 2 * b.axes() - 3 - b_rows;
  if (b[b_rows] != a[a_columns]) {
    fail("the first must have as many columns as the second has rows");
  }
  const Shape batch_a = WithoutMatrix(a);
  const Shape batch_b = WithoutMatrix(b);
  Shape batch = batch_a.axes() >= batch_b.axes() ? batch_a : batch_b;
  const Shape& shorter = batch_a.axes() >= batch_b.axes() ? batch_b : batch_a;
  for (int i = 1; i <= shorter.axes(); ++i) {
    const int axis = batch.axes() - i;
    const int64_t size = shorter[shorter.axes() - i];
    if (batch[axis] == 1) batch = batch.With(axis, size);
    if (size != batch[axis] && size != 1) fail("axes before the last two must be equal, or 1");
  }
  return {a[a_rows], b[b_columns], a[a_columns], batch, batch_a, batch_b};
}

// Returns the index of the matrix that product `at` of `batch` takes from an operand with axes
// `own`.
inline int64_t MatrixOf(const Shape& batch, const Shape& own, int64_t at) {
  int64_t matrix = 0;
  int64_t step = 1;
  for (int i = 1; i <= own.axes(); ++i) {
    const int64_t size = batch[batch.axes() - i];
    const int64_t mine = own[own.axes() - i];
    if (mine > 1) matrix += at % size * step;
    step *= mine;
    at /= size;
  }
  return matrix;
}

// If B is one matrix, merges all products into one, with the rows of all A.
inline MatMulSize MergedMatMul(MatMulSize e, bool transpose_a) {
  if (e.batch_b.axes() > 0 || transpose_a) return e;
  e.m *= e.products();
  e.batch = e.batch_a = Shape();
  return e;
}

}  // namespace crema
