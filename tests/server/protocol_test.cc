// Parses requests and formats answers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/strings.h"
#include "server/protocol/classification.h"
#include "server/protocol/infer_json.h"
#include "server/protocol/load_json.h"
#include "server/protocol/names.h"
#include "server/request_error.h"

namespace crema::test {
namespace {

using namespace server;

InferRequest Parse(const std::string& body, std::optional<size_t> header = {},
                   const RequestLimits& limits = {}) {
  return ParseInferRequest(std::make_shared<const std::string>(body), header, limits);
}

// Returns the status of a refused body; 0: accepted.
int Status(const std::string& body, std::optional<size_t> header = {}) {
  try {
    Parse(body, header);
  } catch (const RequestError& error) {
    return HttpStatus(error.cause());
  }
  return 0;
}

std::string FloatBytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<float> ValuesOfInput(const InferRequest& request, size_t i) {
  const std::string_view bytes = request.inputs[i].bytes();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(InferJson, ReadsFlatAndNestedData) {
  for (const char* data : {"[1,2.5,-3,4e2]", "[[1,2.5],[-3,4e2]]"}) {
    const InferRequest request = Parse(StrCat(
        R"({"id":"a","inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":)", data, "}]}"));
    EXPECT_EQ(request.id, "a");
    ASSERT_EQ(request.inputs.size(), 1U);
    EXPECT_EQ(request.inputs[0].name, "x");
    EXPECT_EQ(request.inputs[0].shape, (Shape{2, 2}));
    EXPECT_EQ(ValuesOfInput(request, 0), (std::vector<float>{1, 2.5, -3, 400}));
  }
}

TEST(InferJson, ReadsNumbersToTheLastBit) {
  const float third = 1.0F / 3;
  const InferRequest request =
      Parse(R"({"inputs":[{"data":[0.33333334,1.17549435e-38,3.4028235e38,1e-60],)"
            R"("datatype":"FP32","shape":[4],"name":"x"}]})");
  EXPECT_EQ(ValuesOfInput(request, 0), (std::vector<float>{third, std::numeric_limits<float>::min(),
                                                           std::numeric_limits<float>::max(), 0}));
}

TEST(InferJson, ReadsZerosOfAnyExponent) {
  const InferRequest request = Parse(
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[4],"data":[0E77,-0,0e-400,0.0]}]})");
  EXPECT_EQ(ValuesOfInput(request, 0), (std::vector<float>{0, 0, 0, 0}));
}

TEST(InferJson, ReadsBinaryInputsInTheirOrder) {
  const std::string json =
      R"({"inputs":[{"name":"a","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
      R"({"name":"b","shape":[1],"datatype":"FP32","data":[9]},)"
      R"({"name":"c","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}],)"
      R"("outputs":[{"name":"y","parameters":{"binary_data":true,"classification":3}},{"name":"z"}],)"
      R"("parameters":{"timeout":250,"unknown":{}}})";
  const std::string good = json.substr(0, json.find(R"(,"unknown")")) + "}}";
  const InferRequest request = Parse(good + FloatBytes({1, 2}) + FloatBytes({3}), good.size());
  ASSERT_EQ(request.inputs.size(), 3U);
  EXPECT_EQ(ValuesOfInput(request, 0), (std::vector<float>{1, 2}));
  EXPECT_EQ(ValuesOfInput(request, 1), (std::vector<float>{9}));
  EXPECT_EQ(ValuesOfInput(request, 2), (std::vector<float>{3}));
  ASSERT_EQ(request.outputs.size(), 2U);
  EXPECT_TRUE(request.outputs[0].binary);
  EXPECT_EQ(request.outputs[0].classes, 3);
  EXPECT_FALSE(request.outputs[1].binary);
  EXPECT_EQ(request.timeout_us, 250);
  EXPECT_EQ(Status(json, json.size()), 400);
}

TEST(InferJson, BinaryPartsMustFit) {
  const std::string json =
      R"({"inputs":[{"name":"a","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}]})";
  EXPECT_EQ(Status(json + FloatBytes({1, 2}), json.size()), 0);
  EXPECT_EQ(Status(json + FloatBytes({1}), json.size()), 400);
  EXPECT_EQ(Status(json + FloatBytes({1, 2, 3}), json.size()), 400);
  EXPECT_EQ(Status(json + FloatBytes({1, 2}), json.size() + 100), 400);
  EXPECT_EQ(Status(json + FloatBytes({1, 2})), 400) << "without the length of the header";
}

TEST(InferJson, ShapesAreBoundedWithoutMultiplying) {
  const auto shape = [](const std::string& dims) {
    return Status(StrCat(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[)", dims,
                         R"(],"data":[1]}]})"));
  };
  EXPECT_EQ(shape("1"), 0);
  EXPECT_EQ(shape("2"), 400);
  EXPECT_EQ(shape("0"), 400);
  EXPECT_EQ(shape("-1"), 400);
  EXPECT_EQ(shape("9223372036854775807,9223372036854775807"), 413);
  EXPECT_EQ(shape("4294967296,4294967296"), 413) << "2^64, which wraps to 0";
  EXPECT_EQ(shape("18446744073709551617"), 400);
  EXPECT_EQ(shape("1.0"), 400);
  EXPECT_EQ(shape("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"), 400) << "17 axes";
}

TEST(InferReply, SaysFloatsShortAndExactly) {
  InferRequest request;
  request.id = "q\"";
  const InferReply reply{"m", 3, {{"y", Shape{1, 3}, {0.1F, -0.0F, 16777216.0F}}}};
  const InferBody body = WriteInferReply(request, reply, {});
  EXPECT_EQ(body.bytes,
            R"({"model_name":"m","model_version":"3","id":"q\"","outputs":[{"name":"y",)"
            R"("datatype":"FP32","shape":[1,3],"data":[0.1,-0,16777216]}]})");
  EXPECT_FALSE(body.header_length.has_value());
}

TEST(InferReply, PutsBinaryOutputsAfterTheJson) {
  InferRequest request;
  request.outputs = {{"y", true, 0}, {"z", false, 0}};
  const InferReply reply{"m", 1, {{"y", Shape{2}, {1, 2}}, {"z", Shape{1}, {3}}}};
  const InferBody body = WriteInferReply(request, reply, {});
  ASSERT_TRUE(body.header_length.has_value());
  EXPECT_EQ(body.bytes.substr(*body.header_length), FloatBytes({1, 2}));
  EXPECT_NE(body.bytes.find(R"("parameters":{"binary_data_size":8})"), std::string::npos);
  EXPECT_NE(body.bytes.find(R"("shape":[1],"data":[3])"), std::string::npos);
}

TEST(InferReply, WhatJsonCannotSayIsRefusedAndBinaryIsNot) {
  InferRequest request;
  const InferReply reply{"m", 1, {{"y", Shape{1}, {std::nanf("")}}}};
  EXPECT_THROW(WriteInferReply(request, reply, {}), RequestError);
  request.binary_outputs = true;
  EXPECT_TRUE(WriteInferReply(request, reply, {}).header_length.has_value());
}

TEST(Classification, OfNothingIsNothing) {
  for (const Shape& shape : {Shape{0, 4}, Shape{3, 0}, Shape{0}, Shape{0, 0, 2}}) {
    const Classification none = BestClasses({"y", shape, {}}, 2, {});
    EXPECT_TRUE(none.texts.empty());
    EXPECT_EQ(none.shape.count(), 0);
  }
}

TEST(Classification, IsTextOfScoreIndexAndLabel) {
  InferRequest request;
  request.outputs = {{"y", false, 2}};
  const InferReply reply{"m", 1, {{"y", Shape{2, 2}, {0.25F, 0.75F, 1, 0}}}};
  const InferBody body = WriteInferReply(request, reply, {"cat", "dog"});
  EXPECT_NE(body.bytes.find(R"("datatype":"BYTES","shape":[2,2],)"
                            R"("data":["0.75:1:dog","0.25:0:cat","1:0:cat","0:1:dog"])"),
            std::string::npos)
      << body.bytes;
}

TEST(Names, OfModelsVersionsAndRequests) {
  EXPECT_TRUE(IsModelName("ResNet-50_v1.5"));
  EXPECT_TRUE(IsModelName(std::string(128, 'a')));
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string(129, 'a'),
        std::string("a/b"), std::string("a b"), std::string("a%41"), std::string("\xc3\xa4"),
        std::string("a\0b", 3)}) {
    EXPECT_FALSE(IsModelName(bad)) << bad;
  }
  EXPECT_EQ(ParseVersion("12"), 12);
  EXPECT_EQ(ParseVersion("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* bad : {"", "0", "01", "-1", "+1", "1 ", "1x", "9223372036854775808"}) {
    EXPECT_EQ(ParseVersion(bad), 0) << bad;
  }
  const std::string id = MakeRequestId();
  EXPECT_TRUE(IsRequestId(id));
  EXPECT_NE(id, MakeRequestId());
  EXPECT_FALSE(IsRequestId("a\r\nSet-Cookie: b"));
}

TEST(Index, TakesAnEmptyBodyAndAFlatObject) {
  EXPECT_FALSE(AsksForReady(""));
  EXPECT_FALSE(AsksForReady("{}"));
  EXPECT_TRUE(AsksForReady(R"({"ready":true})"));
  for (const char* bad : {"[]", "1", "{", R"({"ready":1})", R"({"a":{"b":1}})", "{}x"}) {
    EXPECT_THROW(AsksForReady(bad), RequestError) << bad;
  }
}

TEST(Load, RefusesAConfigurationAndFilesInTheBody) {
  for (const char* good :
       {"", "{}", R"({"parameters":{}})", R"({"parameters":{"a":{"config":[1]}},"config":1})",
        R"({"a":[{"parameters":{"config":1}}]})"}) {
    EXPECT_NO_THROW(CheckLoadBody(good)) << good;
  }
  for (const std::string& bad :
       {std::string(R"({"parameters":{"config":"{}"}})"),
        std::string(R"({"parameters":{"a":1,"files":1}})"),
        std::string(R"({"parameters":{"file:1/model.crema":"eA=="}})"),
        std::string(R"({"a":{},"parameters":{"b":{},"config":null}})"), std::string("[]"),
        std::string("1"), std::string("{"), std::string("{}x"), std::string("{}\0", 3),
        "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}"}) {
    EXPECT_THROW(CheckLoadBody(bad), RequestError) << bad;
  }
}

}  // namespace
}  // namespace crema::test
