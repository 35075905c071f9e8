// The bytes of a pickle, one after the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/strings.h"
#include "format/pickle.h"

namespace crema {

class PickleBytes {
 public:
  PickleBytes(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  uint64_t at() const { return at_; }

  [[noreturn]] void Damaged(const std::string& what) const {
    Fail(ErrorCode::kDataLoss,
         StrCat(name_, ": is not a complete pickle: at byte ", opcode_at_, " ", what));
  }
  [[noreturn]] void Refuse(const std::string& what) const {
    Fail(ErrorCode::kUnsupported,
         StrCat(name_, ": refused at byte ", opcode_at_, ": ", what,
                ". Write the parameters alone, in Python: torch.save(model.state_dict(), ...) or "
                "safetensors.torch.save_file(model.state_dict(), ...)"));
  }

  uint8_t Byte() { return static_cast<uint8_t>(Take(1)[0]); }
  // The same, as the place that messages name.
  uint8_t Opcode() {
    opcode_at_ = at_;
    if (at_ > kMostPickleBytes) Refuse("it is larger than 64 MiB without its tensors");
    return Byte();
  }
  // Little-endian.
  uint64_t Number(size_t size) {
    const std::string_view bytes = Take(size);
    uint64_t number = 0;
    for (size_t i = size; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
    return number;
  }
  std::string_view Text(uint64_t size) {
    if (size > bytes_.size() - at_) Damaged("it ends within a string");
    if (size > kMostPickledText) Refuse(StrCat("a string has ", size, " bytes"));
    return Take(size);
  }
  // Up to the end of the line, without it.
  std::string_view Line() {
    const std::string_view rest = bytes_.substr(at_, kMostPickledText);
    const size_t size = rest.find('\n');
    if (size == std::string_view::npos) Damaged("a name has no end");
    at_ += size + 1;
    return rest.substr(0, size);
  }

 private:
  std::string_view Take(uint64_t size) {
    if (size > bytes_.size() - at_) Damaged("it ends where more belongs");
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  std::string_view bytes_;
  const std::string& name_;
  uint64_t at_ = 0;
  uint64_t opcode_at_ = 0;
};

}  // namespace crema
