#include "report/message_writer.h"

#include <bit>

namespace crema {
namespace {

constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kBytes = 2;
constexpr int kFixed32 = 5;

template <typename T>
std::string LowestFirst(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
  return bytes;
}

}  // namespace

std::string LittleEndian(uint32_t value) { return LowestFirst(value); }
std::string LittleEndian(uint64_t value) { return LowestFirst(value); }

void MessageWriter::Varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void MessageWriter::Key(int field, int wire_type) {
  Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

void MessageWriter::Integer(int field, int64_t value) {
  Key(field, kVarint);
  Varint(static_cast<uint64_t>(value));
}

void MessageWriter::Double(int field, double value) {
  Key(field, kFixed64);
  bytes_ += LittleEndian(std::bit_cast<uint64_t>(value));
}

void MessageWriter::Float(int field, float value) {
  Key(field, kFixed32);
  bytes_ += LittleEndian(std::bit_cast<uint32_t>(value));
}

void MessageWriter::Bytes(int field, std::string_view value) {
  Key(field, kBytes);
  Varint(value.size());
  bytes_ += value;
}

void MessageWriter::PackedDoubles(int field, std::span<const double> values) {
  std::string packed;
  for (double value : values) packed += LittleEndian(std::bit_cast<uint64_t>(value));
  Bytes(field, packed);
}

}  // namespace crema
