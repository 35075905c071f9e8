#include "math/filler.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // elements worth a thread
// Blobs have fewer than 2^31 elements, so draws from here on never coincide with those of a value.
constexpr uint64_t kSparseDraws = uint64_t{1} << 40;

const std::vector<std::string>& KnownTypes() {
  static const std::vector<std::string> types = {
      "constant", "uniform", "gaussian", "positive_unitball", "xavier", "msra", "bilinear"};
  return types;
}

// Names of PyTorch and Keras.
constexpr std::pair<std::string_view, std::string_view> kForeignTypes[] = {
    {"kaiming", "msra"},  {"he", "msra"},      {"glorot", "xavier"},
    {"zero", "constant"}, {"one", "constant"}, {"normal", "gaussian"},
};

// Returns " (did you mean 'msra'?)" for "kaiming_normal".
std::string HintOfType(std::string_view type) {
  for (const auto& [begin, here] : kForeignTypes) {
    if (type.starts_with(begin)) return StrCat(" (did you mean '", here, "'?)");
  }
  return DidYouMean(type, KnownTypes());
}

[[noreturn]] void FailFiller(Where where, std::string_view field, std::string message) {
  if (!where.field.empty()) where.field += StrCat(".", field);
  Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(where));
}

void ValidateSparse(const FillerParameter& filler, const Shape& shape, const Where& where) {
  if (filler.sparse() == -1) return;
  if (filler.type() != "gaussian") {
    FailFiller(where, "sparse",
               StrCat("sparse works with the gaussian filler only, and this one is '",
                      filler.type(), "'; remove sparse or use type: \"gaussian\""));
  }
  if (shape.axes() == 0 || filler.sparse() < 0 || filler.sparse() > shape[0]) {
    FailFiller(where, "sparse",
               StrCat("sparse is ", filler.sparse(), ", expected -1 (keep all) or 0 to ",
                      shape.axes() == 0 ? 0 : shape[0],
                      ", the size of axis 0 of the blob of shape ", ToString(shape)));
  }
}

// Returns the divisor of xavier and msra.
double FanCount(const FillerParameter& filler, const Shape& shape) {
  const auto share = [&](int axis) {
    return static_cast<double>(shape.count()) /
           (axis < shape.axes() ? static_cast<double>(shape[axis]) : 1.0);
  };
  const double fan_in = share(0);
  const double fan_out = share(1);
  switch (filler.variance_norm()) {
    case FillerParameter::FAN_OUT:
      return fan_out;
    case FillerParameter::AVERAGE:
      return (fan_in + fan_out) / 2;
    default:
      return fan_in;
  }
}

template <typename T, typename Value>
void FillEach(std::span<T> out, int threads, Value&& value) {
  ParallelFor(threads, static_cast<int64_t>(out.size()), kGrain,
              [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i) {
                  out[static_cast<size_t>(i)] = static_cast<T>(value(static_cast<uint64_t>(i)));
                }
              });
}

template <typename T>
void FillUniform(std::span<T> out, int threads, const RandomStream& stream, double low,
                 double high) {
  ParallelFor(threads, static_cast<int64_t>(out.size()), kGrain,
              [&](int64_t begin, int64_t end, int) {
                std::array<uint32_t, 4> words{};
                for (auto i = static_cast<uint64_t>(begin); i < static_cast<uint64_t>(end); ++i) {
                  if (i % 4 == 0 || i == static_cast<uint64_t>(begin)) words = stream.Block(i / 4);
                  out[i] = static_cast<T>(low + (high - low) * (words[i % 4] * 0x1p-32));
                }
              });
}

template <typename T>
void FillGaussian(std::span<T> out, int threads, const RandomStream& stream, double mean,
                  double deviation, double keep) {
  FillEach(out, threads, [&](uint64_t i) {
    if (keep < 1 && stream.Uniform(kSparseDraws + i) >= keep) return 0.0;
    return mean + deviation * stream.Gaussian(i);
  });
}

// Draws each slice of axis 0 from [0, 1) and divides it by its sum.
template <typename T>
void FillUnitBall(std::span<T> out, int threads, const RandomStream& stream, const Shape& shape) {
  FillUniform(out, threads, stream, 0, 1);
  const int64_t rows = shape.axes() == 0 ? 1 : shape[0];
  const int64_t length = shape.count() / rows;
  ParallelFor(threads, rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const std::span<T> row =
          out.subspan(static_cast<size_t>(r * length), static_cast<size_t>(length));
      double sum = 0;
      for (T value : row) sum += value;
      for (T& value : row) value = sum > 0 ? static_cast<T>(value / sum) : T(1) / T(length);
    }
  });
}

// Fills each plane with the kernel by which a deconvolution enlarges an image bilinearly.
template <typename T>
void FillBilinear(std::span<T> out, int threads, const Shape& shape) {
  const auto side = static_cast<uint64_t>(shape[3]);
  const double factor = std::ceil(static_cast<double>(side) / 2.0);
  const double centre = (static_cast<double>(side) - 1.0) / (2.0 * factor);
  const auto hat = [&](uint64_t at) {
    return 1.0 - std::abs(static_cast<double>(at) / factor - centre);
  };
  FillEach(out, threads, [&](uint64_t i) { return hat(i % side) * hat(i / side % side); });
}

template <typename T>
void FillTyped(const FillerParameter& filler, const Shape& shape, const RandomStream& stream,
               std::span<T> out, int threads) {
  const std::string& type = filler.type();
  if (type == "constant") {
    std::ranges::fill(out, static_cast<T>(filler.value()));
  } else if (type == "uniform") {
    FillUniform(out, threads, stream, filler.min(), filler.max());
  } else if (type == "gaussian") {
    const double keep = filler.sparse() < 0 ? 1.0 : filler.sparse() / static_cast<double>(shape[0]);
    FillGaussian(out, threads, stream, filler.mean(), filler.std(), keep);
  } else if (type == "positive_unitball") {
    FillUnitBall(out, threads, stream, shape);
  } else if (type == "xavier") {
    const double bound = std::sqrt(3.0 / FanCount(filler, shape));
    FillUniform(out, threads, stream, -bound, bound);
  } else if (type == "msra") {
    FillGaussian(out, threads, stream, 0, std::sqrt(2.0 / FanCount(filler, shape)), 1);
  } else {
    FillBilinear(out, threads, shape);
  }
}

}  // namespace

void ValidateFiller(const FillerParameter& filler, const Shape& shape, const Where& where) {
  const std::string& type = filler.type();
  if (std::ranges::find(KnownTypes(), type) == KnownTypes().end()) {
    FailFiller(where, "type",
               StrCat("unknown filler type '", type, "'", HintOfType(type), "; the types are ",
                      Join(KnownTypes(), ", ")));
  }
  ValidateSparse(filler, shape, where);
  if (type == "uniform" && !(filler.min() <= filler.max() && std::isfinite(filler.min()) &&
                             std::isfinite(filler.max()))) {
    FailFiller(where, "min",
               StrCat("a uniform filler draws from min to max, but min is ", filler.min(),
                      " and max is ", filler.max(), " (defaults: 0 and 1)"));
  }
  if (type == "gaussian" &&
      !(filler.std() >= 0 && std::isfinite(filler.std()) && std::isfinite(filler.mean()))) {
    FailFiller(where, "std",
               StrCat("a gaussian filler needs a finite mean and std of 0 or more, but mean is ",
                      filler.mean(), " and std is ", filler.std()));
  }
  if (type == "bilinear" && (shape.axes() != 4 || shape[2] != shape[3])) {
    FailFiller(where, "type",
               StrCat("a bilinear filler needs a blob of 4 axes with square kernels, but this one "
                      "is ",
                      ToString(shape)));
  }
}

void Fill(const FillerParameter& filler, const Shape& shape, const RandomStream& stream,
          const TensorView& out, int threads) {
  ValidateFiller(filler, shape);
  CREMA_CHECK(out.count() == shape.count());
  if (out.count() == 0) return;
  DispatchFloat(out.dtype(),
                [&]<typename T>(T) { FillTyped(filler, shape, stream, out.span<T>(), threads); });
}

}  // namespace crema
