#include "format/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/safetensors_header.h"

namespace crema {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 8;

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = kLengthBytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

class SafetensorsFile final : public StateDict {
 public:
  explicit SafetensorsFile(const std::string& path) : StateDict(path), file_(path) {
    const std::string start = file_.Read(0, kLengthBytes);
    if (start.size() < kLengthBytes) Damaged("it ends within the length of its header");
    const uint64_t length = LittleEndian(start);
    if (length > kMostSafetensorsHeader || length > file_.size() - kLengthBytes) {
      Damaged(StrCat("its header says that it has ", length, " bytes"));
    }
    begin_ = kLengthBytes + length;
    std::vector<SafetensorsEntry> entries =
        ReadSafetensorsHeader(file_.Read(kLengthBytes, length), path);
    CheckPlaces(entries);
    // As the file has them: the header of other writers is sorted by type and name.
    for (SafetensorsEntry& entry : entries) {
      begins_.push_back(entry.begin);
      entries_.push_back(std::move(entry.entry));
    }
  }

  Tensor Read(size_t index) override {
    const StateEntry& entry = entries_.at(index);
    const auto bytes = static_cast<size_t>(entry.shape.count()) * SizeOf(entry.type);
    const std::string values = file_.Read(begin_ + begins_[index], bytes);
    if (values.size() != bytes) Damaged("it became shorter while it was read");
    std::vector<int64_t> strides(static_cast<size_t>(entry.shape.axes()));
    for (int axis = 0; axis < entry.shape.axes(); ++axis) {
      strides[static_cast<size_t>(axis)] = entry.shape.count(axis + 1);
    }
    return ToF32({.type = entry.type, .shape = entry.shape, .strides = strides}, values);
  }

 private:
  [[noreturn]] void Damaged(const std::string& what) const {
    Fail(ErrorCode::kDataLoss, StrCat("is not a complete .safetensors file: ", what),
         {.file = path()});
  }

  // The elements of all entries cover the rest of the file, each byte once.
  void CheckPlaces(const std::vector<SafetensorsEntry>& entries) const {
    std::vector<size_t> order(entries.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {},
                      [&](size_t i) { return std::pair(entries[i].begin, entries[i].end); });
    const uint64_t size = file_.size() - begin_;
    uint64_t covered = 0;
    for (const size_t i : order) {
      const SafetensorsEntry& e = entries[i];
      const std::string range = StrCat("'", e.entry.name, "' is at bytes ", e.begin, " to ", e.end);
      if (e.begin > e.end || e.end > size) {
        Damaged(StrCat(range, ", and ", size, " follow the header"));
      }
      const auto wanted = static_cast<uint64_t>(e.entry.shape.count()) * SizeOf(e.entry.type);
      if (e.end - e.begin != wanted) {
        Damaged(StrCat(range, ", but ", ToString(e.entry.shape), " of ", ToString(e.entry.type),
                       " asks for ", wanted, " bytes"));
      }
      if (e.begin < covered) Damaged(range + ", where another tensor is");
      if (e.begin > covered) Damaged(range + ", and bytes before it belong to no tensor");
      covered = e.end;
    }
    if (covered != size) {
      Damaged(StrCat("its tensors end at byte ", covered, " of ", size, " after the header"));
    }
  }

  const RandomFile file_;
  uint64_t begin_ = 0;  // of the elements
  std::vector<uint64_t> begins_;
};

std::string_view NameOf(DType dtype) {
  constexpr std::array<std::string_view, 7> kNames = {"F32", "F64", "F16", "BF16",
                                                      "U8",  "I32", "I64"};  // by DType
  return kNames[static_cast<size_t>(dtype)];
}

std::string HeaderOf(std::span<const NamedArrayView> tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  uint64_t at = 0;
  for (const auto& [name, value] : tensors) {
    std::vector<std::string> dims;
    for (const int64_t dim : value.shape().dims()) dims.push_back(std::to_string(dim));
    header +=
        StrCat(",", JsonString(name), R"(:{"dtype":")", NameOf(value.dtype()), R"(","shape":[)",
               Join(dims, ","), R"(],"data_offsets":[)", at, ",", at + value.bytes(), "]}");
    at += value.bytes();
  }
  header += '}';
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return header;
}

}  // namespace

bool LooksLikeSafetensors(std::string_view start, uint64_t size) {
  if (start.size() <= kLengthBytes || start[kLengthBytes] != '{') return false;
  const uint64_t length = LittleEndian(start);
  return length <= kMostSafetensorsHeader && length <= size - kLengthBytes;
}

std::unique_ptr<StateDict> OpenSafetensors(const std::string& path) {
  return std::make_unique<SafetensorsFile>(path);
}

void WriteSafetensors(const std::string& path, std::span<const NamedArrayView> tensors) {
  std::set<std::string> names;
  uint64_t bytes = 0;
  for (const NamedArrayView& tensor : tensors) {
    if (!names.insert(tensor.name).second || tensor.name == "__metadata__") {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("two tensors would be named '", tensor.name, "'; names must differ"),
           {.file = path});
    }
    bytes += tensor.value.bytes();
  }
  const std::string header = HeaderOf(tensors);
  if (header.size() > kMostSafetensorsHeader) {
    Fail(ErrorCode::kInvalidArgument, "the names of the tensors are too long", {.file = path});
  }
  AtomicFile file(path, kLengthBytes + header.size() + bytes);
  const uint64_t length = header.size();
  std::string start(kLengthBytes, '\0');
  std::memcpy(start.data(), &length, kLengthBytes);
  file.Write(start + header);
  for (const NamedArrayView& tensor : tensors) {
    if (tensor.value.count() == 0) continue;
    file.Write({static_cast<const char*>(tensor.value.raw()), tensor.value.bytes()});
  }
  file.Commit();
}

}  // namespace crema
