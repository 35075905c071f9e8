#include "data/records/datum_wire.h"

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/record_sets.h"

namespace crema {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;
using testing::Bytes;
using Random = std::mt19937;

bool LooksAnnotated(const Datum& datum) {
  const UnknownFieldSet& unknown = datum.GetReflection()->GetUnknownFields(datum);
  return unknown.field_count() > 0 && unknown.field(0).number() == Datum::kChannelsFieldNumber &&
         unknown.field(0).type() == UnknownField::TYPE_LENGTH_DELIMITED;
}

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += StrCat(static_cast<int>(static_cast<uint8_t>(c)), " ");
  return text;
}

// Expects that protobuf and the view agree. Returns true if the bytes are a Datum.
bool ExpectSame(const std::string& bytes) {
  Datum datum;
  const bool parsed = datum.ParseFromString(bytes);
  DatumParser parser;
  DatumView view;
  EXPECT_EQ(parser.Parse(bytes, &view), parsed) << Hex(bytes);
  if (!parsed) return false;
  EXPECT_EQ(view.channels, datum.channels()) << Hex(bytes);
  EXPECT_EQ(view.height, datum.height()) << Hex(bytes);
  EXPECT_EQ(view.width, datum.width()) << Hex(bytes);
  EXPECT_EQ(view.label, datum.label()) << Hex(bytes);
  EXPECT_EQ(view.has_label, datum.has_label()) << Hex(bytes);
  EXPECT_EQ(view.encoded, datum.encoded()) << Hex(bytes);
  EXPECT_EQ(view.data, datum.data()) << Hex(bytes);
  EXPECT_EQ(view.annotated, LooksAnnotated(datum)) << Hex(bytes);
  const auto count = static_cast<size_t>(datum.float_data_size());
  EXPECT_EQ(view.float_data.size(), count) << Hex(bytes);
  if (view.float_data.size() == count && count > 0) {
    EXPECT_EQ(std::memcmp(view.float_data.data(), datum.float_data().data(), count * sizeof(float)),
              0)
        << Hex(bytes);
  }
  return true;
}

std::string RandomBytes(Random& random, size_t most) {
  std::string bytes(random() % (most + 1), '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

int32_t RandomNumber(Random& random) {
  const auto bits = static_cast<int32_t>(random());
  return random() % 2 == 0 ? bits % 300 : bits;
}

void AddUnknown(Random& random, int depth, UnknownFieldSet* fields) {
  const auto number = static_cast<int>(random() % 3 == 0 ? 1 + random() % 8 : 9 + random() % 5000);
  switch (random() % 5) {
    case 0:
      fields->AddVarint(number, (uint64_t{random()} << 32) | random());
      break;
    case 1:
      fields->AddFixed32(number, static_cast<uint32_t>(random()));
      break;
    case 2:
      fields->AddFixed64(number, random());
      break;
    case 3:
      fields->AddLengthDelimited(number, RandomBytes(random, 9));
      break;
    default:
      UnknownFieldSet* group = fields->AddGroup(number);
      if (depth < 3) AddUnknown(random, depth + 1, group);
  }
}

Datum RandomDatum(Random& random) {
  Datum datum;
  if (random() % 4 != 0) datum.set_channels(RandomNumber(random));
  if (random() % 4 != 0) datum.set_height(RandomNumber(random));
  if (random() % 4 != 0) datum.set_width(RandomNumber(random));
  if (random() % 4 != 0) datum.set_label(RandomNumber(random));
  if (random() % 3 != 0) datum.set_data(RandomBytes(random, 40));
  if (random() % 3 == 0) datum.set_encoded(random() % 2 == 0);
  if (random() % 3 == 0) datum.set_record_id(static_cast<uint32_t>(random()));
  if (random() % 3 == 0) {
    for (uint32_t n = random() % 5; n > 0; --n) {
      datum.add_float_data(static_cast<float>(RandomNumber(random)));
    }
  }
  if (random() % 3 == 0) {
    AddUnknown(random, 0, datum.GetReflection()->MutableUnknownFields(&datum));
  }
  return datum;
}

TEST(DatumWire, SeesWhatProtobufSeesInValidMessages) {
  Random random(1);
  int accepted = 0;
  constexpr int kRuns = 20000;
  for (int i = 0; i < kRuns; ++i) {
    std::string bytes = RandomDatum(random).SerializeAsString();
    // Concatenated messages are one message, in which the last value of a field counts.
    while (random() % 3 == 0) bytes += RandomDatum(random).SerializeAsString();
    accepted += ExpectSame(bytes) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, kRuns * 9 / 10);  // some have floats that are no whole number
}

TEST(DatumWire, AcceptsAndRefusesDamagedMessagesAsProtobufDoes) {
  Random random(2);
  int refused = 0;
  constexpr int kRuns = 100000;
  for (int i = 0; i < kRuns; ++i) {
    std::string bytes = RandomDatum(random).SerializeAsString();
    for (uint32_t n = 1 + random() % 4; n > 0 && !bytes.empty(); --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 1:
          bytes[at] = static_cast<char>(random());
          break;
        case 2:
          bytes.resize(at);
          break;
        case 3:
          bytes.erase(at, 1 + random() % 3);
          break;
        default:
          bytes.insert(at, RandomBytes(random, 12));
      }
    }
    refused += ExpectSame(bytes) ? 0 : 1;
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, kRuns / 10);
  EXPECT_LT(refused, kRuns * 9 / 10);
}

TEST(DatumWire, AcceptsAndRefusesRandomBytesAsProtobufDoes) {
  Random random(3);
  for (int i = 0; i < 200000; ++i) {
    ExpectSame(RandomBytes(random, 12));
    if (HasFailure()) return;
  }
}

TEST(DatumWire, EdgesOfTheWireForm) {
  EXPECT_TRUE(ExpectSame(""));
  EXPECT_FALSE(ExpectSame(Bytes({0})));
  EXPECT_FALSE(ExpectSame(Bytes({1, 0, 0, 0, 0, 0, 0, 0, 0})));           // field 0
  EXPECT_FALSE(ExpectSame(Bytes({0x0E, 0})));                             // wire type 6
  EXPECT_FALSE(ExpectSame(Bytes({0x0C})));                                // an end without group
  EXPECT_TRUE(ExpectSame(Bytes({0x53, 0x08, 1, 0x54})));                  // a group
  EXPECT_FALSE(ExpectSame(Bytes({0x53, 0x08, 1, 0x5C})));                 // with another's end
  EXPECT_FALSE(ExpectSame(Bytes({0x53, 0x08, 1})));                       // without end
  EXPECT_TRUE(ExpectSame(Bytes({0x88, 0x80, 0x80, 0x80, 0, 5})));         // a long tag
  EXPECT_TRUE(ExpectSame(Bytes({0x88, 0x80, 0x80, 0x80, 0x70, 5})));      // with bits above 32
  EXPECT_FALSE(ExpectSame(Bytes({0x88, 0x80, 0x80, 0x80, 0x80, 0, 5})));  // too long
  EXPECT_TRUE(ExpectSame(Bytes({0x22, 0x82, 0x80, 0x80, 0x80, 0, 'a', 'b'})));
  EXPECT_FALSE(ExpectSame(Bytes({0x22, 0x82, 0x80, 0x80, 0x80, 0x80, 0, 'a', 'b'})));
  EXPECT_FALSE(ExpectSame(Bytes({0x22, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 'a'})));
  EXPECT_FALSE(ExpectSame(Bytes({0x22, 3, 'a', 'b'})));
  EXPECT_FALSE(ExpectSame(Bytes({0x32, 3, 0, 0, 0})));  // floats that are no whole number
  EXPECT_TRUE(
      ExpectSame(Bytes({0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F})));
  EXPECT_FALSE(
      ExpectSame(Bytes({0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0})));
  // A flag is true for any bit of 64.
  EXPECT_TRUE(ExpectSame(Bytes({0x38, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01})));
  for (const size_t depth : {99U, 100U, 101U, 102U}) {
    ExpectSame(std::string(depth, 0x53) + std::string(depth, 0x54));
  }
}

TEST(DatumWire, PixelsStayWhereTheyLie) {
  Datum datum;
  datum.set_data("pixels");
  const std::string bytes = datum.SerializeAsString();
  DatumParser parser;
  DatumView view;
  ASSERT_TRUE(parser.Parse(bytes, &view));
  EXPECT_GE(view.data.data(), bytes.data());
  EXPECT_LE(view.data.data() + view.data.size(), bytes.data() + bytes.size());
}

TEST(DatumWire, PackedFloatsStayWhereTheyAreAlignedAndAreCopiedElsewhere) {
  const std::vector<float> values = {1.5F, -2, 3};
  std::string packed = Bytes({0x32, 12});
  packed.append(reinterpret_cast<const char*>(values.data()), 12);
  for (size_t shift = 0; shift < 4; ++shift) {
    alignas(float) char memory[32];
    std::memcpy(memory + shift, packed.data(), packed.size());
    const std::string_view record(memory + shift, packed.size());
    DatumParser parser;
    DatumView view;
    ASSERT_TRUE(parser.Parse(record, &view));
    EXPECT_EQ(std::vector<float>(view.float_data.begin(), view.float_data.end()), values);
    const bool inside = reinterpret_cast<const char*>(view.float_data.data()) == memory + shift + 2;
    EXPECT_EQ(inside, shift == 2);
  }
  EXPECT_TRUE(ExpectSame(packed + packed));
}

}  // namespace
}  // namespace crema
