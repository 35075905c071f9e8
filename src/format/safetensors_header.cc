#include "format/safetensors_header.h"

#include <charconv>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

void AppendUtf8(uint32_t code, std::string* text) {
  const auto rest = [&](int shift) { *text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    *text += static_cast<char>(code);
  } else if (code < 0x800) {
    *text += static_cast<char>(0xC0 | code >> 6);
    rest(0);
  } else if (code < 0x10000) {
    *text += static_cast<char>(0xE0 | code >> 12);
    rest(6), rest(0);
  } else {
    *text += static_cast<char>(0xF0 | code >> 18);
    rest(12), rest(6), rest(0);
  }
}

// Reads the part of JSON that headers have: an object of objects with known keys. Nothing nests.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<SafetensorsEntry> Read() {
    std::vector<SafetensorsEntry> entries;
    std::set<std::string> names;
    ReadObject([&](const std::string& name) {
      if (!names.insert(name).second) Damaged(StrCat("it names '", name, "' twice"));
      if (name == "__metadata__") {
        ReadObject([&](const std::string&) { ReadString(); });
      } else {
        entries.push_back(ReadEntry(name));
      }
    });
    if (Peek() != '\0') Damaged(StrCat("there is text after it at byte ", at_));
    return entries;
  }

 private:
  [[noreturn]] void Damaged(const std::string& what) const {
    Fail(ErrorCode::kDataLoss, StrCat("is not a complete .safetensors file: in its header, ", what),
         {.file = file_});
  }

  char Peek() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Take(c)) Damaged(StrCat("'", c, "' is missing at byte ", at_));
  }

  // Calls `body` with each key, to read its value.
  template <typename Body>
  void ReadObject(const Body& body) {
    Expect('{');
    if (Take('}')) return;
    do {
      const std::string key = ReadString();
      Expect(':');
      body(key);
    } while (Take(','));
    Expect('}');
  }

  SafetensorsEntry ReadEntry(const std::string& name) {
    SafetensorsEntry entry;
    entry.entry.name = name;
    std::set<std::string> keys;
    ReadObject([&](const std::string& key) {
      if (!keys.insert(key).second) Damaged(StrCat("'", name, "' has '", key, "' twice"));
      if (key == "dtype") {
        entry.entry.type = ReadType(name);
      } else if (key == "shape") {
        entry.entry.shape = ShapeOf(name, ReadNumbers(Shape::kMaxAxes));
      } else if (key == "data_offsets") {
        const std::vector<int64_t> range = ReadNumbers(2);
        if (range.size() != 2) Damaged(StrCat("data_offsets of '", name, "' are no pair"));
        entry.begin = static_cast<uint64_t>(range[0]);
        entry.end = static_cast<uint64_t>(range[1]);
      } else {
        Damaged(StrCat("'", name, "' has the unknown key '", key, "'"));
      }
    });
    if (keys.size() != 3) Damaged(StrCat("'", name, "' lacks one of dtype, shape, data_offsets"));
    return entry;
  }

  ElementType ReadType(const std::string& name) {
    const std::string type = ReadString();
    const std::optional<ElementType> known = ElementTypeOf(type);
    if (known) return *known;
    Fail(ErrorCode::kUnsupported,
         StrCat("'", name, "' has elements of type ", type,
                "; save it as float32: tensor.to(torch.float32)"),
         {.file = file_});
  }

  Shape ShapeOf(const std::string& name, const std::vector<int64_t>& dims) const {
    try {
      return Shape(dims);
    } catch (const Error& error) {
      Damaged(StrCat("the shape of '", name, "': ", error.problems().front().message));
    }
  }

  std::vector<int64_t> ReadNumbers(size_t most) {
    std::vector<int64_t> numbers;
    Expect('[');
    if (Take(']')) return numbers;
    do {
      Peek();
      int64_t number = -1;
      const char* begin = text_.data() + at_;
      const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), number);
      if (error != std::errc() || number < 0) {
        Damaged(StrCat("a number is missing, negative or too large at byte ", at_));
      }
      at_ += static_cast<size_t>(stop - begin);
      numbers.push_back(number);
      if (numbers.size() > most) Damaged(StrCat("a list is too long at byte ", at_));
    } while (Take(','));
    Expect(']');
    return numbers;
  }

  std::string ReadString() {
    Expect('"');
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"') {
      const char c = text_[at_++];
      if (static_cast<unsigned char>(c) < 0x20) Damaged("a string has a control character");
      if (c == '\\') {
        ReadEscape(&value);
      } else {
        value += c;
      }
    }
    if (at_ == text_.size()) Damaged("it ends in a string");
    ++at_;
    return value;
  }

  void ReadEscape(std::string* value) {
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    const size_t found = kFrom.find(c);
    if (found != std::string_view::npos) {
      *value += kTo[found];
      return;
    }
    if (c != 'u') Damaged(StrCat("a string has an unknown escape at byte ", at_));
    uint32_t code = ReadHex();
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      const uint32_t low = ReadHex();
      if (low < 0xDC00 || low > 0xDFFF) Damaged("a string has half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xD800 && code <= 0xDFFF) Damaged("a string has half a surrogate pair");
    AppendUtf8(code, value);
  }

  uint32_t ReadHex() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || digits.size() != 4 || stop != digits.data() + 4) {
      Damaged(StrCat("a string has a broken \\u at byte ", at_));
    }
    at_ += 4;
    return code;
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
};

}  // namespace

std::vector<SafetensorsEntry> ReadSafetensorsHeader(std::string_view text,
                                                    const std::string& file) {
  return HeaderReader(text, file).Read();
}

}  // namespace crema
