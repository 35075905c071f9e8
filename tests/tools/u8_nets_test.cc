// The commands on a net whose data layer outputs bytes.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/image.h"
#include "data/records/lmdb.h"
#include "format/caffemodel.h"
#include "support/net.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {
namespace {

constexpr int kSide = 40;

Image Ramp(int first) {
  Image image{.channels = 3, .height = kSide, .width = kSide, .pixels = {}};
  for (int i = 0; i < 3 * kSide * kSide; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(first + i % 200));
  }
  return image;
}

class U8Nets : public ::testing::Test {
 protected:
  U8Nets() {
    WriteSet(temp_.File("db"), std::vector<Datum>{RawDatum(Ramp(0), 1), RawDatum(Ramp(50), 0)});
  }
  std::string Net(const std::string& name, const std::string& transform,
                  const std::string& pipeline, const std::string& pixels,
                  const std::string& source = "db") const {
    const std::string text = StrCat(
        "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '",
        temp_.File(source), "' batch_size: 2 } transform_param { crop_size: 32 mirror: true ",
        transform, " } ", pipeline, " }\n", pixels,
        "layer { name: 'ip' type: 'InnerProduct' bottom: '", pixels.empty() ? "data" : "x",
        "' top: 'ip' inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } "
        "}\nlayer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: "
        "'loss' }\n");
    return temp_.Write(name, text);
  }
  std::string Floats() const { return Net("floats.prototxt", "mean_value: 100", "", ""); }
  std::string Bytes(const std::string& source = "db") const {
    return Net("bytes.prototxt", "", "pipeline_param { output: U8 }",
               "layer { name: 'x' type: 'PixelsToFloat' bottom: 'data' top: 'x' transform_param { "
               "mean_value: 100 } }\n",
               source);
  }
  // A caffemodel for the net.
  std::string Weigh(const std::string& net) const {
    const auto plan = PlanText(temp_.Read(net), TEST);
    WriteCaffemodel(Weights::Make(*plan, 1)->Export(*plan), temp_.File("m.caffemodel"));
    return temp_.File("m.caffemodel");
  }
  TempDir temp_;
};

TEST_F(U8Nets, ShowBatchDrawsTheSamePicture) {
  for (const auto& [net, sheet] :
       {std::pair{Floats(), "floats.png"}, std::pair{Bytes(), "bytes.png"}}) {
    const ProcessResult result = RunTool("show_batch", {"--model=" + net, "-o", temp_.File(sheet)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(Contains(result.out, "label 1")) << result.out;
    if (net == Bytes()) {
      EXPECT_TRUE(Contains(result.out, "data is 2x32x32x3 bytes, from ")) << result.out;
    }
  }
  EXPECT_FALSE(temp_.Read("bytes.png").empty());
  EXPECT_EQ(temp_.Read("bytes.png"), temp_.Read("floats.png"));
}

TEST_F(U8Nets, FeaturesOfBytesAreNumbers) {
  const std::string net = Bytes();
  const std::string weights = Weigh("bytes.prototxt");
  std::vector<std::string> outputs = {"data.npy", "data_lmdb"};
#ifdef CREMA_HAVE_HDF5
  outputs.push_back("data.h5");
#endif
  for (const std::string& output : outputs) {
    const ProcessResult result =
        RunTool("extract_features", {"--model=" + net, "--weights=" + weights, "--blobs=data",
                                     "--outputs=" + temp_.File(output)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  const auto plan = PlanText(temp_.Read("bytes.prototxt"), TEST);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
  session.Forward();
  const auto bytes = session.Data("data").span<uint8_t>();
  const std::string npy = temp_.Read("data.npy");
  EXPECT_TRUE(Contains(npy, "'<f4', 'fortran_order': False, 'shape': (2, 32, 32, 3,)"));
  ASSERT_EQ(npy.size(), 256 + bytes.size() * sizeof(float));
  LmdbReader reader(temp_.File("data_lmdb"));
  Datum datum;
  ASSERT_TRUE(datum.ParseFromString(std::string(reader.Next().value)));
  ASSERT_EQ(datum.float_data_size(), 32 * 32 * 3);
  for (const int i : {0, 1, 2, 500, 3071}) {
    float value = 0;
    std::memcpy(&value, npy.data() + 256 + static_cast<size_t>(i) * sizeof(float), sizeof(float));
    EXPECT_EQ(value, static_cast<float>(bytes[static_cast<size_t>(i)]));
    EXPECT_EQ(datum.float_data(i), value);
  }
#ifdef CREMA_HAVE_HDF5
  temp_.Write("list.txt", temp_.File("data.h5") + "\n");
  const auto read =
      PlanText("layer { name: 'h' type: 'HDF5Data' top: 'data' hdf5_data_param { source: '" +
                   temp_.File("list.txt") + "' batch_size: 2 } }",
               TEST);
  Session again(read, Weights::Make(*read, 1), ExecContext(1));
  again.Forward();
  const auto floats = again.Data("data").span<float>();
  EXPECT_TRUE(std::equal(floats.begin(), floats.end(), bytes.begin(), bytes.end()));
#endif
}

TEST_F(U8Nets, LooksAndMeasuresWithoutTheData) {
  const std::string net = Bytes("no/such/set");
  const ProcessResult summary = RunTool("summary", {"--model=" + net, "--json"});
  ASSERT_EQ(summary.exit_code, 0) << summary.err;
  EXPECT_TRUE(Contains(summary.out, "\"outputs\": [[2, 32, 32, 3], [2]]")) << summary.out;
  // Bytes, and the labels.
  EXPECT_TRUE(Contains(summary.out, StrCat("\"bytes\": ", 2 * 32 * 32 * 3 + 8, "}")))
      << summary.out;
  EXPECT_EQ(RunTool("profile", {"--model=" + net, "--iterations=1", "--warmup=0",
                                "--peak_gflops=10", "--peak_gbs=10"})
                .exit_code,
            0);
  const ProcessResult draw = RunTool("draw", {"--model=" + net, "-o", temp_.File("net.dot")});
  EXPECT_EQ(draw.exit_code, 0) << draw.err;
  EXPECT_TRUE(Contains(temp_.Read("net.dot"), "2x32x32x3 u8")) << temp_.Read("net.dot");
}

TEST_F(U8Nets, EvaluationIsThatOfTheFloatPath) {
  const std::string floats = Floats();
  const std::string weights = Weigh("floats.prototxt");
  const ProcessResult expected = RunTool("evaluate", {"--model=" + floats, "--weights=" + weights});
  const ProcessResult result = RunTool("evaluate", {"--model=" + Bytes(), "--weights=" + weights});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, expected.out);
}

}  // namespace
}  // namespace crema::test
#endif
