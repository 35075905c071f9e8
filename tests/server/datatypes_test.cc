// Inputs of other datatypes than FP32.
#include <gtest/gtest.h>

#include <cstring>

#include "core/half.h"
#include "core/strings.h"
#include "server/model/image_file.h"
#include "server/protocol/datatype.h"
#include "server/request_error.h"
#include "server/running_server.h"
#include "server/security/tokens.h"

namespace crema::test {
namespace {

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Asks for the answer `y` = 2 x in JSON, with x as binary data or in JSON.
SocketAnswer Infer(uint16_t port, const std::string& datatype, const std::string& shape,
                   const std::string& binary, const std::string& json = "") {
  const std::string data = json.empty()
                               ? StrCat(R"("parameters":{"binary_data_size":)", binary.size(), "}")
                               : StrCat(R"("data":)", json);
  const std::string head = StrCat(R"({"inputs":[{"name":"x","shape":)", shape, R"(,"datatype":")",
                                  datatype, R"(",)", data, R"(}],"outputs":[{"name":"y"}]})");
  return Post(port, "/v2/models/m/infer", head + binary,
              StrCat("Inference-Header-Content-Length: ", head.size(), "\r\n"));
}

bool Answers(const SocketAnswer& answer, const std::string& data) {
  return answer.status == 200 &&
         answer.body.find(StrCat(R"("datatype":"FP32","shape":[1,4],"data":)", data)) !=
             std::string::npos;
}

TEST(Datatypes, NumbersBecomeFp32) {
  const RunningServer running;
  const auto binary = [&](const std::string& type, const std::string& bytes) {
    return Infer(running.port(), type, "[1,4]", bytes);
  };
  EXPECT_TRUE(Answers(binary("UINT8", BytesOf<uint8_t>({0, 1, 128, 255})), "[0,2,256,510]"));
  EXPECT_TRUE(Answers(binary("INT32", BytesOf<int32_t>({-1, 0, 1, 1 << 24})), "[-2,0,2,33554432]"));
  EXPECT_TRUE(Answers(binary("INT64", BytesOf<int64_t>({-1, 0, 1, 1 << 24})), "[-2,0,2,33554432]"));
  EXPECT_TRUE(Answers(binary("INT8", BytesOf<int8_t>({-128, -1, 0, 127})), "[-256,-2,0,254]"));
  EXPECT_TRUE(Answers(binary("INT16", BytesOf<int16_t>({-32768, 0, 1, 2})), "[-65536,0,2,4]"));
  EXPECT_TRUE(Answers(binary("UINT16", BytesOf<uint16_t>({65535, 0, 1, 2})), "[131070,0,2,4]"));
  EXPECT_TRUE(
      Answers(binary("UINT32", BytesOf<uint32_t>({1U << 31, 0, 1, 2})), "[4294967296,0,2,4]"));
  EXPECT_TRUE(
      Answers(binary("UINT64", BytesOf<uint64_t>({1U << 24, 0, 1, 2})), "[33554432,0,2,4]"));
  EXPECT_TRUE(Answers(binary("FP64", BytesOf<double>({0.5, -0.25, 1, 2})), "[1,-0.5,2,4]"));
  EXPECT_TRUE(
      Answers(binary("BF16", BytesOf<uint16_t>({0x3F80, 0xC000, 0, 0x3F00})), "[2,-4,0,1]"));
  EXPECT_TRUE(Answers(binary("BOOL", BytesOf<uint8_t>({0, 1, 1, 0})), "[0,2,2,0]"));
  EXPECT_TRUE(Answers(
      binary("FP16", BytesOf<uint16_t>({FloatToHalf(0.5F), 0, FloatToHalf(-2), FloatToHalf(1024)})),
      "[1,0,-4,2048]"));
  EXPECT_TRUE(Answers(Infer(running.port(), "BOOL", "[1,4]", "", "[false,true,1,0]"), "[0,2,2,0]"));
  for (const char* type :
       {"UINT8", "UINT16", "UINT32", "UINT64", "INT16", "INT32", "INT64", "FP64"}) {
    const SocketAnswer json = Infer(running.port(), type, "[1,4]", "", "[0,1,128,255]");
    EXPECT_TRUE(Answers(json, "[0,2,256,510]")) << type << json.body;
  }
  for (const char* type : {"FP16", "BF16"}) {
    const SocketAnswer half = Infer(running.port(), type, "[1,4]", "", "[0,1,2,3]");
    EXPECT_EQ(half.status, 400);
    EXPECT_NE(half.body.find("no form in the JSON of the protocol: send it as binary data, or its "
                             "numbers as FP32"),
              std::string::npos)
        << half.body;
  }
}

// The limit that docs/serving.md states.
TEST(Datatypes, IntegersThatFp32DoesNotHoldAreErrorsWithPlaceAndValue) {
  const RunningServer running;
  const auto refuses = [](const SocketAnswer& answer, const std::string& text) {
    return answer.status == 400 &&
           answer.body.find(StrCat("element 2 of input 'x' is ", text, "; inputs become FP32")) !=
               std::string::npos;
  };
  const SocketAnswer binary = Infer(running.port(), "INT64", "[1,4]",
                                    BytesOf<int64_t>({1, int64_t{1} << 40, (1 << 24) + 1, 0}));
  EXPECT_TRUE(refuses(binary, "16777217")) << binary.body;
  const SocketAnswer most =
      Infer(running.port(), "UINT64", "[1,4]", BytesOf<uint64_t>({1, 0, ~uint64_t{0}, 0}));
  EXPECT_TRUE(refuses(most, "18446744073709551615")) << most.body;
  for (const char* number : {"16777217", "-9223372036854775807", "1.6777217e7"}) {
    const SocketAnswer json = Infer(running.port(), "INT64", "[1,4]", "",
                                    StrCat("[1,-9223372036854775808,", number, ",0]"));
    EXPECT_TRUE(refuses(json, number)) << json.body;
  }
  EXPECT_EQ(Infer(running.port(), "FP32", "[1,4]", "", "[1,0,16777217,0]").status, 200);
  EXPECT_EQ(Infer(running.port(), "INT64", "[1,4]", "", "[1,0,16777218,0]").status, 200);
}

std::string Picture(const std::string& pixels) { return "P5\n2 2\n255\n" + pixels; }

std::string Element(const std::string& bytes) {
  return BytesOf<uint32_t>({static_cast<uint32_t>(bytes.size())}) + bytes;
}

TEST(Datatypes, EncodedImagesArePreprocessed) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build has no OpenCV";
#endif
  FakeModelOptions fake;
  fake.picture = true;
  const RunningServer running(TestOptions(), fake);
  const std::string one = Picture("\x01\x02\x03\x04");
  const std::string two = Picture("\x05\x06\x07\x08");
  const std::string both = R"("shape":[2,1,2,2],"data":[2,4,6,8,10,12,14,16])";
  for (const char* shape : {"[2]", "[2,1]"}) {
    const SocketAnswer binary = Infer(running.port(), "BYTES", shape, Element(one) + Element(two));
    EXPECT_NE(binary.body.find(both), std::string::npos) << binary.body;
    const SocketAnswer json =
        Infer(running.port(), "BYTES", shape, "",
              StrCat("[\"", server::Base64(one), "\",\"", server::Base64(two), "\"]"));
    EXPECT_NE(json.body.find(both), std::string::npos) << json.body;
  }
  const SocketAnswer bad = Infer(running.port(), "BYTES", "[2]", Element(one) + Element("x"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_NE(bad.body.find("element 1 of input 'x' cannot be decoded as an image"),
            std::string::npos)
      << bad.body;
  EXPECT_EQ(Infer(running.port(), "BYTES", "[1,2]", Element(one) + Element(two)).status, 400);
  const RunningServer tensors;
  const SocketAnswer none = Infer(tensors.port(), "BYTES", "[1]", Element(one));
  EXPECT_EQ(none.status, 400);
  EXPECT_NE(none.body.find("takes no encoded images"), std::string::npos) << none.body;
}

// Returns a list of `count` empty elements, in JSON.
std::string EmptyTexts(int count) {
  std::string json = "[\"\"";
  for (int i = 1; i < count; ++i) json += ",\"\"";
  return json + "]";
}

TEST(Datatypes, ManyTinyElementsAreRefused) {
  const RunningServer running;
  const SocketAnswer json = Infer(running.port(), "BYTES", "[4097]", "", EmptyTexts(4097));
  EXPECT_EQ(json.status, 413) << json.body;
  EXPECT_NE(json.body.find("more than 4096 elements of BYTES"), std::string::npos) << json.body;
  const SocketAnswer binary =
      Infer(running.port(), "BYTES", "[4097]", std::string(size_t{4} * 4097, '\0'));
  EXPECT_EQ(binary.status, 413) << binary.body;
  EXPECT_EQ(Infer(running.port(), "BYTES", "[1]", "", EmptyTexts(4097)).status, 413);
}

TEST(Datatypes, MoreImagesThanTheModelTakesAreNotDecoded) {
  std::string bad;
  for (int i = 0; i < 17; ++i) bad += Element("x");
  FakeModelOptions fake = WithPictures();
  const RunningServer running(TestOptions(), fake);
  const SocketAnswer many = Infer(running.port(), "BYTES", "[17]", bad);
  EXPECT_EQ(many.status, 400);
  EXPECT_NE(many.body.find("may have 16 samples, this one has 17"), std::string::npos) << many.body;
  fake.batches = false;
  const RunningServer single(TestOptions(), fake);
  const SocketAnswer two = Infer(single.port(), "BYTES", "[2]", Element("x") + Element("x"));
  EXPECT_EQ(two.status, 400);
  EXPECT_NE(two.body.find("may have 1 samples, this one has 2"), std::string::npos) << two.body;
}

TEST(Datatypes, ThePixelsOfAllImagesAreLimited) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build has no OpenCV";
#endif
  server::ServerOptions options = TestOptions();
  options.http.limits.pixels = 8;
  const RunningServer running(options, WithPictures());
  const std::string one = Element(Picture("abcd"));
  EXPECT_EQ(Infer(running.port(), "BYTES", "[2]", one + one).status, 200);
  const SocketAnswer three = Infer(running.port(), "BYTES", "[3]", one + one + one);
  EXPECT_EQ(three.status, 413);
  EXPECT_NE(three.body.find("may have 8 pixels together"), std::string::npos) << three.body;
}

TEST(Datatypes, ElementsOfImagesAreCountedWithoutOverflow) {
  server::ModelDescription model = FakeModel(WithPictures()).description();
  model.inputs[0].shape = {-1, 3, 1 << 12, 1 << 12};
  server::InferRequest request;
  request.inputs.push_back({"x", Shape{4096}, {}, {}, std::vector<std::string>(4096)});
  try {
    server::DecodeImages(model, 4096, {}, &request);
    ADD_FAILURE() << "more elements than allowed are accepted";
  } catch (const server::RequestError& error) {
    EXPECT_EQ(error.cause(), server::Cause::kTooLarge) << error.message();
  }
}

TEST(Datatypes, ImagesOfAClientThatIsGoneAreNotDecoded) {
  const FakeModel model(WithPictures());
  server::InferRequest request;
  request.inputs.push_back({"x", Shape{1}, {}, {}, {"no image"}});
  request.cancelled = std::make_shared<const std::atomic<bool>>(true);
  try {
    server::DecodeImages(model.description(), 16, {}, &request);
    ADD_FAILURE() << "a request that was given up is decoded";
  } catch (const server::RequestError& error) {
    EXPECT_EQ(error.cause(), server::Cause::kCancelled) << error.message();
  }
}

TEST(Datatypes, Base64IsDecodedStrictly) {
  for (const std::string& bytes : {std::string(), std::string("a"), std::string("ab"),
                                   std::string("abc"), std::string("\0\xff\x80", 3)}) {
    EXPECT_EQ(server::FromBase64(server::Base64(bytes)), bytes);
  }
  for (const char* bad :
       {"a", "ab", "abc", "====", "a===", "ab=c", "abc ", " abc", "ab\nc", "ab_-"}) {
    EXPECT_EQ(server::FromBase64(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace crema::test
