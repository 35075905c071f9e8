#include "format/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostHeader = kMostNpyStart - 12;

struct Header {
  DType dtype = DType::kF32;
  bool big_endian = false;
  bool fortran = false;
  Shape shape;
};

// Parses the header: a Python dictionary with three known keys.
class NpyHeaderReader {
 public:
  NpyHeaderReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header Read() {
    Expect('{');
    while (!Take('}')) {
      const std::string key(ReadString());
      Expect(':');
      if (key == "descr" && !has_descr_) {
        ReadDescr();
      } else if (key == "fortran_order" && !has_order_) {
        ReadOrder();
      } else if (key == "shape" && !has_shape_) {
        ReadShape();
      } else {
        Damaged(StrCat("its header has the key '", key, "', or has it twice"));
      }
      if (!Take(',') && Peek() != '}') Damaged("its header is not a dictionary");
    }
    if (!has_descr_ || !has_order_ || !has_shape_) {
      Damaged("its header lacks one of descr, fortran_order, shape");
    }
    if (Peek() != '\0') Damaged("there is text after its header");
    return header_;
  }

  [[noreturn]] void Damaged(const std::string& what) const {
    Fail(ErrorCode::kDataLoss, StrCat(name_, ": is no whole .npy file: ", what));
  }

 private:
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Take(c)) Damaged(StrCat("its header has no '", c, "' at byte ", at_));
  }

  std::string_view ReadString() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') Damaged("a quoted word is missing in its header");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) Damaged("its header ends in a word");
    const std::string_view word = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return word;
  }

  void ReadDescr() {
    has_descr_ = true;
    if (Peek() == '[') {
      Fail(ErrorCode::kUnsupported, StrCat(name_, ": holds records; save each field on its own"));
    }
    const std::string descr(ReadString());
    header_.big_endian = descr.starts_with('>');
    const bool known_order =
        !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
    const std::string type = known_order ? descr.substr(1) : descr;
    const std::optional<DType> dtype = TypeOf(type);
    if (dtype) {
      header_.dtype = *dtype;
      return;
    }
    const bool object = type.starts_with('O');
    Fail(ErrorCode::kUnsupported,
         StrCat(name_, ": holds ",
                object ? "Python objects, which are programs and are never read"
                       : StrCat("elements of type '", descr, "'"),
                "; save it with .astype(numpy.float32)"));
  }

  static std::optional<DType> TypeOf(const std::string& type) {
    if (type == "f4") return DType::kF32;
    if (type == "f8") return DType::kF64;
    if (type == "f2") return DType::kF16;
    if (type == "u1" || type == "b1" || type == "?") return DType::kU8;
    if (type == "i4") return DType::kI32;
    if (type == "i8") return DType::kI64;
    return std::nullopt;
  }

  void ReadOrder() {
    has_order_ = true;
    Peek();
    const std::string_view rest = text_.substr(at_);
    header_.fortran = rest.starts_with("True");
    if (!header_.fortran && !rest.starts_with("False")) Damaged("fortran_order is no bool");
    at_ += header_.fortran ? 4 : 5;
  }

  void ReadShape() {
    has_shape_ = true;
    Expect('(');
    std::vector<int64_t> dims;
    while (!Take(')')) {
      dims.push_back(ReadDim());
      if (!Take(',') && Peek() != ')') Damaged("its shape is not a tuple");
      if (dims.size() > Shape::kMaxAxes) Damaged("its shape has more than 32 axes");
    }
    try {
      header_.shape = Shape(dims);
    } catch (const Error& error) {
      Damaged(error.problems().front().message);
    }
  }

  int64_t ReadDim() {
    Peek();
    int64_t dim = 0;
    const char* begin = text_.data() + at_;
    const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), dim);
    if (error != std::errc() || dim < 0) Damaged("its shape holds a value that is not a dimension");
    at_ += static_cast<size_t>(stop - begin);
    return dim;
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
  Header header_;
};

size_t LittleEndian(std::string_view bytes) {
  size_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Maps indices of C order to Fortran order.
class FortranOrder {
 public:
  explicit FortranOrder(const Shape& shape)
      : shape_(shape), at_(static_cast<size_t>(shape.axes())) {
    int64_t stride = 1;
    for (int axis = 0; axis < shape.axes(); ++axis) {
      strides_.push_back(stride);
      stride *= shape[axis];
    }
  }
  size_t place() const { return static_cast<size_t>(place_); }
  void Next() {
    for (int axis = shape_.axes() - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      place_ += strides_[a];
      if (++at_[a] < shape_[axis]) return;
      place_ -= strides_[a] * shape_[axis];
      at_[a] = 0;
    }
  }

 private:
  const Shape& shape_;
  std::vector<int64_t> strides_;
  std::vector<int64_t> at_;
  int64_t place_ = 0;
};

void CopyElements(const Header& header, const char* from, char* to) {
  const size_t size = SizeOf(header.dtype);
  const auto count = static_cast<size_t>(header.shape.count());
  if (!header.fortran) {
    std::memcpy(to, from, count * size);
  } else {
    FortranOrder order(header.shape);
    for (size_t i = 0; i < count; ++i, order.Next()) {
      std::memcpy(to + i * size, from + order.place() * size, size);
    }
  }
  if (!header.big_endian) return;
  for (size_t i = 0; i < count; ++i) std::reverse(to + i * size, to + (i + 1) * size);
}

std::string_view Descr(DType dtype) {
  constexpr std::string_view kDescr[] = {"<f4", "<f8", "<f2", "", "|u1", "<i4", "<i8"};  // by DType
  if (dtype != DType::kBF16) return kDescr[static_cast<size_t>(dtype)];
  Fail(ErrorCode::kUnsupported, "bfloat16 cannot be written as .npy; NumPy does not know it");
}

// Parses the header of a file of `size` bytes that begins with `bytes`. Returns the offset of the
// values, too.
std::pair<Header, size_t> HeaderOf(std::string_view bytes, uint64_t size, const std::string& name) {
  const auto damaged = [&](const std::string& what) {
    Fail(ErrorCode::kDataLoss, StrCat(name, ": is no whole .npy file: ", what));
  };
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) damaged("it does not begin as one");
  const int version = bytes[6];
  if (version < 1 || version > 3) damaged(StrCat("it is of version ", version));
  const size_t begin = version == 1 ? 10 : 12;
  const size_t length = LittleEndian(bytes.substr(8, begin - 8));
  if (length > kMostHeader || length > bytes.size() - begin) damaged("its header is cut off");
  const Header header = NpyHeaderReader(bytes.substr(begin, length), name).Read();
  const uint64_t values = size - begin - length;
  const size_t wanted = static_cast<size_t>(header.shape.count()) * SizeOf(header.dtype);
  if (values != wanted) {
    damaged(StrCat("its shape ", ToString(header.shape), " asks for ", wanted, " bytes, and ",
                   values, " are there"));
  }
  return {header, begin + length};
}

}  // namespace

void CheckNpyStart(std::string_view start, uint64_t bytes, const std::string& name) {
  HeaderOf(start, bytes, name);
}

Tensor ParseNpy(std::string_view bytes, const std::string& name) {
  const auto [header, begin] = HeaderOf(bytes, bytes.size(), name);
  Tensor tensor(header.shape, header.dtype);
  if (header.shape.count() > 0) {
    CopyElements(header, bytes.data() + begin, static_cast<char*>(tensor.view().raw()));
  }
  return tensor;
}

std::string FormatNpy(const ConstTensorView& tensor) {
  constexpr size_t kAlignment = 64;
  std::string text =
      StrCat("{'descr': '", Descr(tensor.dtype()), "', 'fortran_order': False, 'shape': (");
  for (int axis = 0; axis < tensor.shape().axes(); ++axis) {
    text += StrCat(tensor.shape()[axis], ",", axis + 1 < tensor.shape().axes() ? " " : "");
  }
  text += "), }";
  const size_t length = (10 + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - 10;
  text.resize(length - 1, ' ');
  std::string file(kMagic);
  file += std::string("\x01\x00", 2);
  file += static_cast<char>(length & 0xFF);
  file += static_cast<char>(length >> 8);
  file += text + "\n";
  if (tensor.count() > 0) file.append(static_cast<const char*>(tensor.raw()), tensor.bytes());
  return file;
}

}  // namespace crema
