#include "data/image/pixel_kernels.h"

#include <algorithm>
#include <cstring>

#include "math/vectorize.h"

namespace crema {
namespace {

// Rows are processed in pieces that stay in the L1 cache.
constexpr int kPiece = 512;

template <typename S, typename T>
struct Row {
  const S* in;
  const float* mean;  // null: `mean_value`
  T mean_value;
  T scale;
  int width;
  bool mirror;
  T* out;
};

template <typename S, typename T>
inline void Forwards(const S* __restrict in, const float* __restrict mean, T scale, ptrdiff_t count,
                     T* __restrict out) {
  for (ptrdiff_t x = 0; x < count; ++x) {
    out[x] = (static_cast<T>(in[x]) - static_cast<T>(mean[x])) * scale;
  }
}

template <typename T>
inline void Reversed(const T* __restrict last, ptrdiff_t count, T* __restrict out) {
  for (ptrdiff_t x = 0; x < count; ++x) out[x] = last[-x];
}

// Two steps, since compilers do not vectorise a loop that reads backwards and converts.
template <typename S, typename T>
inline void MirroredWithMeanImage(const Row<S, T>& row) {
  T piece[kPiece];
  for (int begin = 0; begin < row.width; begin += kPiece) {
    const int count = std::min(kPiece, row.width - begin);
    Forwards(row.in + begin, row.mean + begin, row.scale, count, piece);
    Reversed(piece + count - 1, count, row.out + row.width - begin - count);
  }
}

template <typename S, typename T>
inline void WithMeanValue(const S* __restrict in, T mean, T scale, ptrdiff_t count,
                          T* __restrict out) {
  for (ptrdiff_t x = 0; x < count; ++x) out[x] = (static_cast<T>(in[x]) - mean) * scale;
}

template <typename S, typename T>
inline void MirroredWithMeanValue(const S* __restrict last, T mean, T scale, ptrdiff_t count,
                                  T* __restrict out) {
  for (ptrdiff_t x = 0; x < count; ++x) out[x] = (static_cast<T>(last[-x]) - mean) * scale;
}

template <typename S, typename T>
inline void AnyRow(const Row<S, T>& row) {
  if (row.mean != nullptr && row.mirror) {
    MirroredWithMeanImage(row);
  } else if (row.mean != nullptr) {
    Forwards(row.in, row.mean, row.scale, row.width, row.out);
  } else if (row.mirror) {
    MirroredWithMeanValue(row.in + row.width - 1, row.mean_value, row.scale, row.width, row.out);
  } else {
    WithMeanValue(row.in, row.mean_value, row.scale, row.width, row.out);
  }
}

// One row per call: g++ vectorises rows less well when they are inlined into the outer loops.
CREMA_MULTIVERSION void ConvertRow(const Row<uint8_t, float>& row) { AnyRow(row); }
CREMA_MULTIVERSION void ConvertRow(const Row<uint8_t, double>& row) { AnyRow(row); }
CREMA_MULTIVERSION void ConvertRow(const Row<float, float>& row) { AnyRow(row); }
void ConvertRow(const Row<float, double>& row) { AnyRow(row); }

CREMA_MULTIVERSION void SplitThree(const uint8_t* __restrict packed, ptrdiff_t count,
                                   uint8_t* __restrict first, uint8_t* __restrict second,
                                   uint8_t* __restrict third) {
  for (ptrdiff_t x = 0; x < count; ++x) {
    first[x] = packed[3 * x];
    second[x] = packed[3 * x + 1];
    third[x] = packed[3 * x + 2];
  }
}

// Reads mirrored pixels backwards. A constant width lets the compiler vectorise.
template <int kChannels>
inline void ReverseLoop(const uint8_t* __restrict in, ptrdiff_t count, uint8_t* __restrict out) {
  for (ptrdiff_t x = 0; x < count; ++x) {
    for (int c = 0; c < kChannels; ++c) {
      out[x * kChannels + c] = in[(count - 1 - x) * kChannels + c];
    }
  }
}
CREMA_MULTIVERSION void ReverseOne(const uint8_t* in, ptrdiff_t count, uint8_t* out) {
  ReverseLoop<1>(in, count, out);
}
CREMA_MULTIVERSION void ReverseThree(const uint8_t* in, ptrdiff_t count, uint8_t* out) {
  ReverseLoop<3>(in, count, out);
}

void CopyPackedRow(const uint8_t* in, const ByteRows& rows, uint8_t* out) {
  if (!rows.mirror) {
    std::memcpy(out, in, static_cast<size_t>(rows.width) * static_cast<size_t>(rows.channels));
  } else if (rows.channels == 1) {
    ReverseOne(in, rows.width, out);
  } else if (rows.channels == 3) {
    ReverseThree(in, rows.width, out);
  } else {
    for (int x = 0; x < rows.width; ++x) {
      std::copy_n(in + ptrdiff_t{rows.width - 1 - x} * rows.channels, rows.channels,
                  out + ptrdiff_t{x} * rows.channels);
    }
  }
}

CREMA_MULTIVERSION void JoinThree(const uint8_t* __restrict first, const uint8_t* __restrict second,
                                  const uint8_t* __restrict third, ptrdiff_t count,
                                  uint8_t* __restrict packed) {
  for (ptrdiff_t x = 0; x < count; ++x) {
    packed[3 * x] = first[x];
    packed[3 * x + 1] = second[x];
    packed[3 * x + 2] = third[x];
  }
}

CREMA_MULTIVERSION void JoinThreeMirrored(const uint8_t* __restrict first,
                                          const uint8_t* __restrict second,
                                          const uint8_t* __restrict third, ptrdiff_t count,
                                          uint8_t* __restrict packed) {
  for (ptrdiff_t x = 0; x < count; ++x) {
    packed[3 * x] = first[count - 1 - x];
    packed[3 * x + 1] = second[count - 1 - x];
    packed[3 * x + 2] = third[count - 1 - x];
  }
}

void JoinPlanes(const uint8_t* in, const ByteRows& rows, uint8_t* out) {
  if (rows.channels == 3) {
    const auto join = rows.mirror ? JoinThreeMirrored : JoinThree;
    return join(in, in + rows.plane, in + 2 * rows.plane, rows.width, out);
  }
  for (int c = 0; c < rows.channels; ++c, in += rows.plane) {
    for (int x = 0; x < rows.width; ++x) {
      out[ptrdiff_t{x} * rows.channels + c] = in[rows.mirror ? rows.width - 1 - x : x];
    }
  }
}

}  // namespace

void CopyBytes(const ByteRows& rows) {
  const bool together = rows.plane == 0 || rows.channels == 1;
  for (int y = 0; y < rows.height; ++y) {
    const uint8_t* in = rows.pixels + y * rows.row_bytes;
    uint8_t* out = rows.out + ptrdiff_t{y} * rows.width * rows.channels;
    if (together) {
      CopyPackedRow(in, rows, out);
    } else {
      JoinPlanes(in, rows, out);
    }
  }
}

void SplitPixels(const uint8_t* packed, ptrdiff_t count, uint8_t* first, uint8_t* second,
                 uint8_t* third) {
  SplitThree(packed, count, first, second, third);
}

template <typename S, typename T>
void ConvertPlane(const PlaneRows<S, T>& plane) {
  Row<S, T> row{.in = plane.pixels,
                .mean = plane.mean,
                .mean_value = plane.mean_value,
                .scale = plane.scale,
                .width = plane.width,
                .mirror = plane.mirror,
                .out = plane.out};
  for (int y = 0; y < plane.height; ++y) {
    ConvertRow(row);
    row.in += plane.stride;
    if (row.mean != nullptr) row.mean += plane.stride;
    row.out += plane.width;
  }
}
template void ConvertPlane(const PlaneRows<uint8_t, float>&);
template void ConvertPlane(const PlaneRows<uint8_t, double>&);
template void ConvertPlane(const PlaneRows<float, float>&);
template void ConvertPlane(const PlaneRows<float, double>&);

template <typename T>
void ConvertPacked(const PackedRows<T>& rows) {
  uint8_t lanes[3][kPiece];
  const ptrdiff_t plane = static_cast<ptrdiff_t>(rows.height) * rows.width;
  for (int y = 0; y < rows.height; ++y) {
    for (int begin = 0; begin < rows.width; begin += kPiece) {
      const int count = std::min(kPiece, rows.width - begin);
      const uint8_t* packed =
          rows.pixels + y * rows.row_bytes + static_cast<ptrdiff_t>(begin) * rows.channels;
      if (rows.channels == 3) SplitThree(packed, count, lanes[0], lanes[1], lanes[2]);
      const int place = rows.mirror ? rows.width - begin - count : begin;
      const ptrdiff_t mean = y * rows.mean_stride + begin;
      for (int c = 0; c < rows.channels; ++c) {
        ConvertRow({.in = rows.channels == 1 ? packed : lanes[c],
                    .mean = rows.mean == nullptr ? nullptr : rows.mean + c * rows.mean_plane + mean,
                    .mean_value = rows.mean_values[c],
                    .scale = rows.scale,
                    .width = count,
                    .mirror = rows.mirror,
                    .out = rows.out + c * plane + static_cast<ptrdiff_t>(y) * rows.width + place});
      }
    }
  }
}
template void ConvertPacked(const PackedRows<float>&);
template void ConvertPacked(const PackedRows<double>&);

}  // namespace crema
