#include "format/blob_proto.h"

#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/half.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

using google::protobuf::RepeatedField;

// NVCaffe's storage: little-endian bytes of one of three types.
struct RawArray {
  const std::string& bytes;
  Type type;
};

RawArray RawData(const BlobProto& proto) { return {proto.raw_data(), proto.raw_data_type()}; }
RawArray RawDiff(const BlobProto& proto) { return {proto.raw_diff(), proto.raw_diff_type()}; }

size_t RawSize(const RawArray& raw) {
  if (raw.type == FLOAT16) return 2;
  if (raw.type == FLOAT) return 4;
  return raw.type == DOUBLE ? 8 : 0;
}

int64_t RawCount(const RawArray& raw) {
  const size_t size = RawSize(raw);
  if (size == 0 || raw.bytes.size() % size != 0) return 0;
  return static_cast<int64_t>(raw.bytes.size() / size);
}

template <typename Stored, typename T, typename Convert>
void CopyRaw(const std::string& bytes, T* out, Convert convert) {
  for (size_t i = 0; i < bytes.size() / sizeof(Stored); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<T>(convert(value));
  }
}

template <typename T>
void CopyRaw(const RawArray& raw, T* out) {
  const auto same = [](auto value) { return value; };
  if (raw.type == FLOAT16) CopyRaw<uint16_t>(raw.bytes, out, HalfToFloat);
  if (raw.type == FLOAT) CopyRaw<float>(raw.bytes, out, same);
  if (raw.type == DOUBLE) CopyRaw<double>(raw.bytes, out, same);
}

int64_t CountOf(const RepeatedField<double>& doubles, const RepeatedField<float>& floats,
                const RawArray& raw) {
  if (!doubles.empty()) return doubles.size();
  return !floats.empty() ? floats.size() : RawCount(raw);
}

// Stores image bytes as floats or doubles.
void CopyBytes(const RepeatedField<double>& doubles, const RepeatedField<float>& floats,
               const TensorView& out, const char* what) {
  for (int i = 0; i < static_cast<int>(out.count()); ++i) {
    const double value = !doubles.empty() ? doubles.Get(i) : floats.empty() ? -1 : floats.Get(i);
    if (!(value >= 0 && value <= 255 && value == std::floor(value))) {
      Fail(ErrorCode::kDataLoss, StrCat("the file holds ", what,
                                        " that are not bytes (integers from 0 to 255) for a blob "
                                        "of bytes (",
                                        ToString(out.shape()), ")"));
    }
    out.data<uint8_t>()[i] = static_cast<uint8_t>(value);
  }
}

void CopyArray(const RepeatedField<double>& doubles, const RepeatedField<float>& floats,
               const RawArray& raw, const TensorView& out, const char* what) {
  CREMA_CHECK(out.device().type == DeviceType::kCpu);
  const int64_t count = CountOf(doubles, floats, raw);
  if (count != out.count()) {
    Fail(ErrorCode::kDataLoss, StrCat("the file holds ", count, " ", what, " for a blob of ",
                                      out.count(), " (", ToString(out.shape()), ")"));
  }
  if (out.dtype() == DType::kU8) return CopyBytes(doubles, floats, out, what);
  DispatchFloat(out.dtype(), [&]<typename T>(T) {
    if (!doubles.empty()) {
      for (int i = 0; i < doubles.size(); ++i) out.data<T>()[i] = static_cast<T>(doubles.Get(i));
    } else if (!floats.empty()) {
      for (int i = 0; i < floats.size(); ++i) out.data<T>()[i] = static_cast<T>(floats.Get(i));
    } else {
      CopyRaw(raw, out.data<T>());
    }
  });
}

void StoreArray(const ConstTensorView& in, RepeatedField<double>* doubles,
                RepeatedField<float>* floats) {
  CREMA_CHECK(in.device().type == DeviceType::kCpu);
  doubles->Clear();
  floats->Clear();
  const int count = static_cast<int>(in.count());
  if (count == 0) return;
  if (in.dtype() == DType::kF64) {
    doubles->Resize(count, 0);
    std::memcpy(doubles->mutable_data(), in.raw(), in.bytes());
  } else if (in.dtype() == DType::kU8) {
    const auto bytes = in.span<uint8_t>();
    floats->Assign(bytes.begin(), bytes.end());
  } else {
    CREMA_CHECK(in.dtype() == DType::kF32);
    floats->Resize(count, 0);
    std::memcpy(floats->mutable_data(), in.raw(), in.bytes());
  }
}

}  // namespace

bool IsLegacyShape(const BlobProto& proto) {
  return proto.has_num() || proto.has_channels() || proto.has_height() || proto.has_width();
}

Shape ShapeOf(const BlobProto& proto) {
  const auto make = [](std::span<const int64_t> dims) {
    try {
      return Shape(dims);
    } catch (const Error& error) {
      Fail(ErrorCode::kDataLoss, "a stored shape is damaged: " + error.problems().front().message);
    }
  };
  if (IsLegacyShape(proto)) {
    const std::array<int64_t, 4> dims = {proto.num(), proto.channels(), proto.height(),
                                         proto.width()};
    return make(dims);
  }
  const auto& dim = proto.shape().dim();
  return make({dim.data(), static_cast<size_t>(dim.size())});
}

bool ShapeMatches(const BlobProto& proto, const Shape& target) {
  const Shape stored = ShapeOf(proto);
  if (stored == target) return true;
  if (stored.axes() != 4 || target.axes() > 4) return false;
  for (int axis = 0; axis < 4; ++axis) {
    const int target_axis = axis - (4 - target.axes());
    if (stored[axis] != (target_axis < 0 ? 1 : target[target_axis])) return false;
  }
  return true;
}

int64_t DataCount(const BlobProto& proto) {
  return CountOf(proto.double_data(), proto.data(), RawData(proto));
}

int64_t DiffCount(const BlobProto& proto) {
  return CountOf(proto.double_diff(), proto.diff(), RawDiff(proto));
}

void CheckBlob(const BlobProto& proto) {
  const Shape shape = ShapeOf(proto);
  const int64_t values = DataCount(proto);
  const int64_t gradients = DiffCount(proto);
  if (values != shape.count()) {
    Fail(ErrorCode::kDataLoss, StrCat("a blob of shape ", ToString(shape), " has ", values,
                                      " values instead of ", shape.count()));
  }
  if (gradients != 0 && gradients != shape.count()) {
    Fail(ErrorCode::kDataLoss, StrCat("a blob of shape ", ToString(shape), " has ", gradients,
                                      " gradients instead of ", shape.count()));
  }
}

void CopyTo(const BlobProto& proto, const TensorView& data) {
  CopyArray(proto.double_data(), proto.data(), RawData(proto), data, "values");
}

void CopyDiffTo(const BlobProto& proto, const TensorView& diff) {
  CopyArray(proto.double_diff(), proto.diff(), RawDiff(proto), diff, "gradients");
}

void CopyFrom(const ConstTensorView& data, BlobProto* proto) {
  proto->clear_num();
  proto->clear_channels();
  proto->clear_height();
  proto->clear_width();
  proto->clear_raw_data();
  proto->clear_raw_data_type();
  BlobShape* shape = proto->mutable_shape();
  shape->clear_dim();
  for (int64_t dim : data.shape().dims()) shape->add_dim(dim);
  StoreArray(data, proto->mutable_double_data(), proto->mutable_data());
}

void CopyDiffFrom(const ConstTensorView& diff, BlobProto* proto) {
  proto->clear_raw_diff();
  proto->clear_raw_diff_type();
  StoreArray(diff, proto->mutable_double_diff(), proto->mutable_diff());
}

}  // namespace crema
