// Writes protobuf messages of foreign schemas field by field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace crema {

// Thread safety: one thread.
class MessageWriter {
 public:
  void Integer(int field, int64_t value);
  void Double(int field, double value);
  void Float(int field, float value);
  void Bytes(int field, std::string_view value);  // also for text and messages
  void Message(int field, const MessageWriter& message) { Bytes(field, message.bytes()); }
  void PackedDoubles(int field, std::span<const double> values);

  const std::string& bytes() const { return bytes_; }

 private:
  void Key(int field, int wire_type);
  void Varint(uint64_t value);

  std::string bytes_;
};

// Little-endian bytes of `value`.
std::string LittleEndian(uint32_t value);
std::string LittleEndian(uint64_t value);

}  // namespace crema
