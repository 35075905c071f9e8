#include "report/event_file.h"

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "report/message_writer.h"
#include "report/tensorboard_writer.h"
#include "support/net.h"

namespace crema {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// Independent of the library's table: bit by bit, by the polynomial.
uint32_t BitwiseCrc32c(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
  }
  return crc ^ 0xFFFFFFFF;
}

uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

template <typename T>
T NumberAt(const std::string& bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes.at(at + i))) << (8 * i);
  }
  return value;
}

// The data of each record, after checking frames and checksums.
std::vector<std::string> RecordsOf(const std::string& file) {
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const auto length = NumberAt<uint64_t>(file, at);
    EXPECT_EQ(NumberAt<uint32_t>(file, at + 8), Masked(BitwiseCrc32c(file.substr(at, 8))));
    const std::string data = file.substr(at + 12, length);
    EXPECT_EQ(data.size(), length);
    EXPECT_EQ(NumberAt<uint32_t>(file, at + 12 + length), Masked(BitwiseCrc32c(data)));
    records.push_back(data);
    at += 16 + length;
  }
  return records;
}

using Fields = std::shared_ptr<UnknownFieldSet>;  // which cannot be copied itself

Fields Parse(const std::string& message) {
  auto fields = std::make_shared<UnknownFieldSet>();
  EXPECT_TRUE(fields->ParseFromString(message));
  return fields;
}

std::vector<const UnknownField*> All(const Fields& set, int number) {
  std::vector<const UnknownField*> found;
  for (int i = 0; i < set->field_count(); ++i) {
    if (set->field(i).number() == number) found.push_back(&set->field(i));
  }
  return found;
}

Fields EventOf(const std::string& record) {
  const std::vector<std::string> records = RecordsOf(record);
  EXPECT_EQ(records.size(), 1U);
  return Parse(records.at(0));
}

std::vector<double> Doubles(const std::string& packed) {
  std::vector<double> values;
  for (size_t at = 0; at < packed.size(); at += 8) {
    values.push_back(std::bit_cast<double>(NumberAt<uint64_t>(packed, at)));
  }
  return values;
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283U);  // the check value of the polynomial
  EXPECT_EQ(Crc32c(""), 0U);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

TEST(Crc32c, AgreesWithOneBitAtATime) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    bytes += static_cast<char>(i * 37 % 251);
    EXPECT_EQ(Crc32c(bytes), BitwiseCrc32c(bytes));
  }
}

TEST(EventFile, BeginsWithItsVersion) {
  const Fields event = EventOf(FileVersionEvent(12.5));
  EXPECT_EQ(std::bit_cast<double>(All(event, 1).at(0)->fixed64()), 12.5);
  EXPECT_EQ(All(event, 3).at(0)->length_delimited(), "brain.Event:2");
}

TEST(EventFile, ScalarsHaveStepTagAndValue) {
  const std::vector<NamedScalar> scalars = {{"train/loss", 0.25}, {"test_0/accuracy", -3}};
  const Fields event = EventOf(ScalarsEvent({.wall = 1.5, .step = 300}, scalars));
  EXPECT_EQ(All(event, 2).at(0)->varint(), 300U);
  const Fields summary = Parse(All(event, 5).at(0)->length_delimited());
  const auto values = All(summary, 1);
  ASSERT_EQ(values.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const Fields value = Parse(values[i]->length_delimited());
    EXPECT_EQ(All(value, 1).at(0)->length_delimited(), scalars[i].tag);
    EXPECT_EQ(std::bit_cast<float>(All(value, 2).at(0)->fixed32()),
              static_cast<float>(scalars[i].value));
  }
}

TEST(EventFile, RestartNamesTheStep) {
  const Fields event = EventOf(RestartEvent({.wall = 1, .step = 20}));
  EXPECT_EQ(All(event, 2).at(0)->varint(), 20U);
  const Fields log = Parse(All(event, 7).at(0)->length_delimited());
  EXPECT_EQ(All(log, 1).at(0)->varint(), 1U);
}

TEST(EventFile, HistogramsHaveLimitsAndCounts) {
  const std::vector<float> values = {0, 1, 1, 4, NAN, INFINITY};
  const std::vector<NamedHistogram> histograms = {{"weights/a", HistogramOf(values, 4)}};
  const Fields event = EventOf(HistogramsEvent({.wall = 1, .step = 2}, histograms));
  const Fields summary = Parse(All(event, 5).at(0)->length_delimited());
  const Fields value = Parse(All(summary, 1).at(0)->length_delimited());
  const Fields histogram = Parse(All(value, 5).at(0)->length_delimited());
  const auto number = [&](int field) {
    return std::bit_cast<double>(All(histogram, field).at(0)->fixed64());
  };
  EXPECT_EQ(number(1), 0);   // min
  EXPECT_EQ(number(2), 4);   // max
  EXPECT_EQ(number(3), 4);   // count
  EXPECT_EQ(number(4), 6);   // sum
  EXPECT_EQ(number(5), 18);  // of squares
  EXPECT_EQ(Doubles(All(histogram, 6).at(0)->length_delimited()),
            (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(Doubles(All(histogram, 7).at(0)->length_delimited()),
            (std::vector<double>{1, 2, 0, 1}));
}

TEST(Histogram, OfNothingAndOfOneValue) {
  EXPECT_EQ(HistogramOf({}).counts, (std::vector<double>{0}));
  const std::vector<float> same = {2, 2, 2};
  const Histogram h = HistogramOf(same);
  EXPECT_EQ(h.limits, (std::vector<double>{2}));
  EXPECT_EQ(h.counts, (std::vector<double>{3}));
}

TEST(MessageWriter, NumbersAreVarints) {
  MessageWriter message;
  message.Integer(1, 0);
  message.Integer(2, 127);
  message.Integer(3, 128);
  message.Integer(100, -1);
  const Fields fields = Parse(message.bytes());
  EXPECT_EQ(All(fields, 1).at(0)->varint(), 0U);
  EXPECT_EQ(All(fields, 2).at(0)->varint(), 127U);
  EXPECT_EQ(All(fields, 3).at(0)->varint(), 128U);
  EXPECT_EQ(All(fields, 100).at(0)->varint(), ~uint64_t{0});
}

TEST(TensorboardGraph, NodesAreLayersAndSplitsAreLookedThrough) {
  const auto plan = test::PlanText(R"(
    layer { name: "in put" type: "DummyData" top: "x" dummy_data_param { shape { dim: 2 dim: 3 } } }
    layer { name: "a" type: "InnerProduct" bottom: "x" top: "y"
      inner_product_param { num_output: 4 } }
    layer { name: "b" type: "InnerProduct" bottom: "x" top: "z"
      inner_product_param { num_output: 4 } }
    layer { name: "sum" type: "Eltwise" bottom: "y" bottom: "z" top: "s" })");
  const Fields graph = Parse(GraphDefOf(*plan));
  std::vector<std::string> lines;
  for (const UnknownField* field : All(graph, 1)) {
    const Fields node = Parse(field->length_delimited());
    std::string line =
        All(node, 1).at(0)->length_delimited() + " " + All(node, 2).at(0)->length_delimited() + ":";
    for (const UnknownField* input : All(node, 3)) line += " " + input->length_delimited();
    lines.push_back(line);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"in_put DummyData:", "a InnerProduct: in_put",
                                             "b InnerProduct: in_put", "sum Eltwise: a b"}));
}

}  // namespace
}  // namespace crema
