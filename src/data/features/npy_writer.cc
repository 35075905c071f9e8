// NumPy's .npy, version 1.0: a text header of fixed length, then the elements. The header is
// written last, when the number of rows is known.
#include <bit>
#include <optional>
#include <vector>

#include "core/blob_types.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/features/feature_writer.h"
#include "format/file.h"

namespace crema {
namespace {

static_assert(std::endian::native == std::endian::little);  // the header declares '<f4'

constexpr size_t kHeaderBytes = 256;  // multiple of 64, enough for 32 axes

std::string Header(const Shape& shape, int64_t rows) {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int axis = 0; axis < shape.axes(); ++axis) {
    text += StrCat(axis == 0 ? rows : shape[axis], ",", axis + 1 < shape.axes() ? " " : "");
  }
  text += "), }";
  const size_t length = kHeaderBytes - 10;
  CREMA_CHECK(text.size() < length);
  text.resize(length - 1, ' ');
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(length & 0xFF);
  header += static_cast<char>(length >> 8);
  return header + text + "\n";
}

class NpyWriter : public FeatureWriter {
 public:
  explicit NpyWriter(const std::string& path) : path_(path), file_(path) {
    file_.Write(std::string(kHeaderBytes, ' '));
  }

  void Append(const ConstTensorView& rows) override {
    if (!first_) first_ = rows.shape();
    CheckSameRows(*first_, rows.shape(), path_);
    rows_ += rows.shape().axes() > 0 ? rows.shape()[0] : 0;
    DispatchBlob(rows.dtype(), [&]<typename T>(T) {
      const auto values = rows.span<T>();
      buffer_.assign(values.begin(), values.end());
    });
    file_.Write({reinterpret_cast<const char*>(buffer_.data()), buffer_.size() * sizeof(float)});
  }

  void Close() override {
    if (!first_) first_ = Shape{0};
    file_.WriteAt(0, Header(*first_, rows_));
    file_.Commit();
  }

 private:
  std::string path_;
  AtomicFile file_;
  std::optional<Shape> first_;
  int64_t rows_ = 0;
  std::vector<float> buffer_;
};

}  // namespace

std::unique_ptr<FeatureWriter> NewNpyWriter(const std::string& path) {
  return std::make_unique<NpyWriter>(path);
}

}  // namespace crema
