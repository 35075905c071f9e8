// `crema weights`, as a user runs it.
#include "runtime/weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/half.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "format/prototxt.h"
#include "format/safetensors.h"
#include "format/state_dict.h"
#include "support/error_text.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Contains;
using test::ProcessResult;
using test::TempDir;
using Values = std::vector<float>;

struct TestLayer {
  std::string name;
  std::vector<std::vector<int>> shapes;
  std::vector<Values> blobs;
};

class WeightsTool : public ::testing::Test {
 protected:
  void SetUp() override {
    Write("a.caffemodel", {{"conv", {{2, 1, 1, 2}, {2}}, {{1, 2, 3, 4}, {-5, 6}}},
                           {"ip", {{1, 2}}, {{0.5F, -0.25F}}}});
  }

  void Write(const std::string& name, const std::vector<TestLayer>& layers) const {
    NetParameter net;
    for (const TestLayer& layer : layers) {
      LayerParameter* added = net.add_layer();
      added->set_name(layer.name);
      for (size_t b = 0; b < layer.blobs.size(); ++b) {
        BlobProto* blob = added->add_blobs();
        for (const int size : layer.shapes[b]) blob->mutable_shape()->add_dim(size);
        blob->mutable_data()->Assign(layer.blobs[b].begin(), layer.blobs[b].end());
      }
    }
    WriteCaffemodel(net, temp_.File(name));
  }

  ProcessResult Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), test::Bin("weights"));
    return test::RunProcess(arguments, temp_.path());
  }
  // Returns the output.
  std::string RunWell(const std::vector<std::string>& arguments) const {
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 0) << Join(arguments, " ") << "\n" << result.err;
    return result.out;
  }
  // Expects an error and no new file.
  void ExpectRefusal(const std::vector<std::string>& arguments, const std::string& text,
                     int exit_code = 2) const {
    const size_t before = temp_.FileCount();
    const std::string kept = temp_.Read("a.caffemodel");
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << Join(arguments, " ") << "\n" << result.err;
    EXPECT_TRUE(Contains(result.err, text)) << text << "\n" << result.err;
    EXPECT_EQ(temp_.FileCount(), before);
    EXPECT_EQ(temp_.Read("a.caffemodel"), kept);
  }

  std::vector<std::string> Names(const std::string& file) const {
    std::vector<std::string> names;
    const NetParameter net = ReadCaffemodel(temp_.File(file));
    for (const LayerParameter& layer : net.layer()) {
      names.push_back(layer.name());
    }
    return names;
  }
  Values Blob(const std::string& file, const std::string& layer, int blob) const {
    const NetParameter net = ReadCaffemodel(temp_.File(file));
    for (const LayerParameter& one : net.layer()) {
      if (one.name() != layer) continue;
      Tensor values(ShapeOf(one.blobs(blob)), DType::kF32);
      CopyTo(one.blobs(blob), values.view());
      return test::ValuesOf(std::as_const(values).view());
    }
    return {};
  }

  TempDir temp_;
};

TEST_F(WeightsTool, ListsEachBlob) {
  EXPECT_EQ(RunWell({"list", "a.caffemodel"}),
            "layer  blob  shape    type    min  max   mean\n"
            "conv   0     2x1x1x2  f32       1    4    2.5\n"
            "conv   1     2        f32      -5    6    0.5\n"
            "ip     0     1x2      f32   -0.25  0.5  0.125\n"
            "2 layers, 3 blobs, 8 values\n");
}

TEST_F(WeightsTool, ListCountsWhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Write("nan.caffemodel", {{"x", {{3}, {1}}, {{1, nan, 3}, {nan}}}});
  const std::string out = RunWell({"list", "nan.caffemodel"});
  EXPECT_TRUE(Contains(out, "1    3     2  1 not finite\n")) << out;
  EXPECT_TRUE(Contains(out, "-    -     -  1 not finite\n")) << out;
}

std::vector<uint32_t> BitsOf(const Values& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

std::vector<std::string> Formats() {
#ifdef CREMA_HAVE_HDF5
  return {"caffemodel", "h5", "safetensors"};
#else
  return {"caffemodel", "safetensors"};
#endif
}

TEST_F(WeightsTool, EachConversionKeepsEachBit) {
  using Limits = std::numeric_limits<float>;
  const Values odd = {0,
                      -0.0F,
                      1.0F / 3,
                      Limits::denorm_min(),
                      -Limits::min() / 3,
                      Limits::max(),
                      -Limits::infinity(),
                      std::bit_cast<float>(0x7FC01234U)};
  Write("odd.caffemodel", {{"conv1.a b", {{2, 1, 4}, {8}}, {odd, Values(8, 2)}},
                           {"ip", {{8}, {}}, {odd, {1.0F / 7}}}});
  for (const std::string& from : Formats()) {
    const std::string first = "first." + from;
    EXPECT_EQ(RunWell({"convert", "odd.caffemodel", "-o", first}), StrCat("wrote ", first, "\n"));
    for (const std::string& to : Formats()) {
      const std::string second = StrCat("from_", from, ".", to);
      RunWell({"convert", first, "-o", second});
      EXPECT_EQ(RunWell({"diff", "odd.caffemodel", second}), "equal: 4 blobs\n");
      const std::string back = StrCat(from, "_", to, ".caffemodel");
      RunWell({"convert", second, "-o", back});
      EXPECT_EQ(BitsOf(Blob(back, "conv1.a b", 0)), BitsOf(odd)) << from << " " << to;
      EXPECT_EQ(Blob(back, "conv1.a b", 1), Values(8, 2)) << from << " " << to;
      EXPECT_EQ(BitsOf(Blob(back, "ip", 0)), BitsOf(odd)) << from << " " << to;
      EXPECT_EQ(BitsOf(Blob(back, "ip", 1)), BitsOf({1.0F / 7})) << from << " " << to;
    }
  }
  const auto dict = OpenSafetensors(temp_.File("first.safetensors"));
  ASSERT_EQ(dict->entries().size(), 4U);
  EXPECT_EQ(dict->entries()[1].name, "conv1.a b.1");
}

TEST_F(WeightsTool, HalvesTakeHalfTheSpaceAndComeBackEqual) {
  Values all;  // numbers that f16 holds
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    if (!std::isnan(value)) all.push_back(value);
  }
  Write("all.caffemodel", {{"x", {{static_cast<int>(all.size())}}, {all}}});
  for (const std::string kind : {"caffemodel", "safetensors"}) {
    const std::string half = "half." + kind;
    RunWell({"convert", "all.caffemodel", "--type=f16", "-o", half});
    EXPECT_LT(temp_.Read(half).size(), 2 * all.size() + 500);
    const std::string list = RunWell({"list", half});
    EXPECT_TRUE(Contains(list, "63490  f16   -65504  65504")) << list;
    RunWell({"convert", half, "-o", kind + "_back.caffemodel"});
    EXPECT_EQ(BitsOf(Blob(kind + "_back.caffemodel", "x", 0)), BitsOf(all));
    const std::string again = "again." + kind;
    RunWell({"convert", kind + "_back.caffemodel", "--type=f16", "-o", again});
    EXPECT_EQ(temp_.Read(again), temp_.Read(half));
  }
}

TEST_F(WeightsTool, HalvesRoundToTheNearestAndRefuseWhatIsBeyondThem) {
  Write("third.caffemodel", {{"x", {{1}}, {{1.0F / 3}}}});
  RunWell({"convert", "third.caffemodel", "--type=f16", "-o", "t.caffemodel"});
  EXPECT_EQ(Blob("t.caffemodel", "x", 0), (Values{1365.0F / 4096}));
  Write("big.caffemodel", {{"x", {{1}}, {{70000}}}});
  ExpectRefusal({"convert", "big.caffemodel", "--type=f16", "-o", "x.caffemodel"},
                "layer 'x', blob 0 holds 70000, but f16 ends at 65504");
}

TEST_F(WeightsTool, DoublesStayDoubles) {
  NetParameter net;
  net.add_layer()->set_name("x");
  net.mutable_layer(0)->add_blobs()->add_double_data(1e-300);
  net.mutable_layer(0)->mutable_blobs(0)->mutable_shape()->add_dim(1);
  WriteCaffemodel(net, temp_.File("double.caffemodel"));
  RunWell({"rename", "double.caffemodel", "x=y", "-o", "out.caffemodel"});
  EXPECT_EQ(ReadCaffemodel(temp_.File("out.caffemodel")).layer(0).blobs(0).double_data(0), 1e-300);
  EXPECT_TRUE(Contains(RunWell({"list", "out.caffemodel"}), "f64   1e-300"));
  RunWell({"convert", "double.caffemodel", "-o", "out.safetensors"});
  const std::string bytes = temp_.Read("out.safetensors");
  double last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - sizeof(last), sizeof(last));
  EXPECT_EQ(last, 1e-300);
}

TEST_F(WeightsTool, SharedWeightsAreReadFromTheModelFileForEachLayer) {
  temp_.Write("shared.prototxt",
              "input: 'x' input_shape { dim: 1 dim: 3 }\n"
              "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' param { name: 'w' }\n"
              "  inner_product_param { num_output: 3 bias_term: false } }\n"
              "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' param { name: 'w' }\n"
              "  inner_product_param { num_output: 3 } }\n");
  const Values w = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Write("shared.caffemodel", {{"a", {{3, 3}}, {w}}, {"b", {{3, 3}, {3}}, {w, {0.5F, 0, -1}}}});
  const ProcessResult exported =
      test::RunProcess({test::Bin("deploy"), "export", "--threads=1", "--model=shared.prototxt",
                        "--weights=shared.caffemodel", "-o", "m.crema"},
                       temp_.path());
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_EQ(RunWell({"diff", "shared.caffemodel", "m.crema"}), "equal: 3 blobs\n");
  RunWell({"convert", "m.crema", "-o", "back.caffemodel"});
  EXPECT_EQ(Blob("back.caffemodel", "b", 0), w);
  EXPECT_EQ(Blob("back.caffemodel", "b", 1), (Values{0.5F, 0, -1}));
#ifdef CREMA_HAVE_HDF5
  RunWell({"convert", "m.crema", "-o", "all.h5"});
  EXPECT_EQ(RunWell({"diff", "shared.caffemodel", "all.h5"}), "equal: 3 blobs\n");
#endif
  ExpectRefusal({"convert", "a.caffemodel", "-o", "x.crema"}, "deploy export writes .crema files");
  const std::string bytes = temp_.Read("m.crema");
  temp_.Write("cut.crema", bytes.substr(0, bytes.size() - 64));
  ExpectRefusal({"list", "cut.crema"}, "cut.crema: is truncated", 3);
}

#ifdef CREMA_HAVE_HDF5
// Training writes a shared blob once.
TEST_F(WeightsTool, ABlobThatAnotherLayerOwnsStaysWithoutValues) {
  NetParameter net;
  for (const char* name : {"a", "b"}) {
    LayerParameter* layer = net.add_layer();
    layer->set_name(name);
    layer->add_param()->set_name("w");
    for (const float value : {7.0F, 8.0F}) {
      BlobProto* blob = layer->add_blobs();
      blob->mutable_shape()->add_dim(1);
      blob->add_data(value);
    }
  }
  WriteCaffemodelHdf5(net, temp_.File("run.h5"));
  EXPECT_TRUE(Contains(RunWell({"list", "run.h5"}), "b      0     of another layer\n"));
  ExpectRefusal({"convert", "run.h5", "-o", "out.caffemodel"}, "blob 0 is of another layer");
  for (const std::string to : {"h5", "safetensors"}) {
    RunWell({"convert", "run.h5", "-o", "out." + to});
    EXPECT_EQ(RunWell({"diff", "run.h5", "out." + to}), "equal: 4 blobs\n");
    EXPECT_TRUE(Contains(RunWell({"list", "out." + to}), "b      0     of another layer\n")) << to;
  }
}
#endif

TEST_F(WeightsTool, AFullDiskLeavesTheOldFile) {
  Write("large.caffemodel", {{"x", {{100000}}, {Values(100000, 0.5F)}}});
  for (const std::string& format : Formats()) {
    const std::string out = "out." + format;
    RunWell({"convert", "a.caffemodel", "-o", out});
    const std::string old = temp_.Read(out);
    const size_t before = temp_.FileCount();
    // A limit of the size of files: writes beyond it fail.
    const ProcessResult result =
        test::RunProcess({"/bin/sh", "-c", "ulimit -f 100; exec \"$@\"", "sh", test::Bin("weights"),
                          "convert", "large.caffemodel", "-o", out},
                         temp_.path());
    EXPECT_EQ(result.exit_code, 3) << format << result.err;
    EXPECT_TRUE(Contains(result.err, out + ": cannot be written")) << result.err;
    EXPECT_TRUE(temp_.Read(out) == old) << format;
    EXPECT_EQ(temp_.FileCount(), before) << format;
  }
}

TEST_F(WeightsTool, ConvertRefusesOtherFiles) {
  ExpectRefusal({"convert", "a.caffemodel", "-o", "a.caffemodel"}, "which is read");
  ExpectRefusal({"convert", "a.caffemodel", "-o", "x.pth"}, ".pth are not");
  ExpectRefusal({"convert", "a.caffemodel", "-o", "none/x.h5"}, "none", 3);
  ExpectRefusal({"convert", "a.caffemodel", "--type=f32"}, "-o is required");
  ExpectRefusal({"convert", "a.caffemodel", "-o", "x.caffemodel", "--type=f8"}, "not f32 or f16");
  ExpectRefusal({"convert", "b.caffemodel", "-o", "x.caffemodel"},
                "b.caffemodel: there is no such file (did you mean 'a.caffemodel'?)");
  temp_.Write("net.prototxt", "layer { name: 'x' type: 'ReLU' }\n");
  ExpectRefusal({"list", "net.prototxt"},
                "net.prototxt: is a net as text (a prototxt), not a weights file", 3);
  ExpectRefusal({"list", "."}, "is a folder");
#ifdef CREMA_HAVE_HDF5
  ExpectRefusal({"convert", "a.caffemodel", "-o", "x.h5", "--type=f16"}, "in HDF5 are f32");
#endif
  const Values two = {1, 2};
  const std::vector<NamedArrayView> torch = {
      {"conv1.weight", ConstTensorView(two.data(), Shape{2}, DType::kF32)}};
  WriteSafetensors(temp_.File("torch.safetensors"), torch);
  ExpectRefusal({"convert", "torch.safetensors", "-o", "x.caffemodel"}, "import --weights=");
  temp_.Write("cut.caffemodel", temp_.Read("a.caffemodel").substr(0, 60));
  ExpectRefusal({"list", "cut.caffemodel"}, "cut.caffemodel", 3);
  std::filesystem::create_hard_link(temp_.File("a.caffemodel"), temp_.File("link.caffemodel"));
  ExpectRefusal({"convert", "a.caffemodel", "-o", "link.caffemodel"}, "which is read");
}

TEST_F(WeightsTool, RenamesLayersAlsoInACircle) {
  RunWell({"rename", "a.caffemodel", "conv=ip", "ip=conv", "-o", "b.caffemodel"});
  EXPECT_EQ(Names("b.caffemodel"), (std::vector<std::string>{"ip", "conv"}));
  EXPECT_EQ(Blob("b.caffemodel", "conv", 0), (Values{0.5F, -0.25F}));
}

TEST_F(WeightsTool, RenameRefusesWhatDoesNotFit) {
  ExpectRefusal({"rename", "a.caffemodel", "conv=ip", "-o", "b"}, "would be called 'ip'");
  ExpectRefusal({"rename", "a.caffemodel", "cnv=x", "-o", "b"}, "(did you mean 'conv'?)");
  ExpectRefusal({"rename", "a.caffemodel", "conv=x", "conv=y", "-o", "b"}, "renamed twice");
  ExpectRefusal({"rename", "a.caffemodel", "conv", "-o", "b"}, "'conv' is not OLD=NEW");
  ExpectRefusal({"rename", "a.caffemodel", "conv=", "-o", "b"}, "'conv=' is not OLD=NEW");
  ExpectRefusal({"rename", "a.caffemodel", "-o", "b"}, "IN OLD=NEW [OLD=NEW...]");
}

TEST_F(WeightsTool, CopiesLayersFromOneFileIntoAnother) {
  Write("b.caffemodel",
        {{"conv", {{2, 1, 1, 2}, {2}}, {{9, 9, 9, 9}, {9, 9}}}, {"ip2", {{1}}, {{8}}}});
  EXPECT_EQ(RunWell({"copy", "a.caffemodel", "b.caffemodel", "-o", "all.caffemodel"}),
            "copied conv\nwrote all.caffemodel\n")
      << "what both have";
  EXPECT_EQ(Names("all.caffemodel"), (std::vector<std::string>{"conv", "ip2"}));
  EXPECT_EQ(Blob("all.caffemodel", "conv", 1), (Values{-5, 6}));
  EXPECT_EQ(Blob("all.caffemodel", "ip2", 0), (Values{8}));
  RunWell({"copy", "a.caffemodel", "b.caffemodel", "ip=new", "-o", "more.caffemodel"});
  EXPECT_EQ(Names("more.caffemodel"), (std::vector<std::string>{"conv", "ip2", "new"}));
  EXPECT_EQ(Blob("more.caffemodel", "conv", 1), (Values{9, 9}));
  EXPECT_EQ(Blob("more.caffemodel", "new", 0), (Values{0.5F, -0.25F}));
}

TEST_F(WeightsTool, CopyRefusesWhatDoesNotFit) {
  Write("b.caffemodel", {{"conv", {{2, 1, 1, 1}}, {{9, 9}}}, {"x", {{1}}, {{8}}}});
  Write("c.caffemodel", {{"y", {{1}}, {{8}}}});
  ExpectRefusal({"copy", "a.caffemodel", "b.caffemodel", "-o", "o"},
                "blob 0 is 2x1x1x2 in a.caffemodel and 2x1x1x1 in b.caffemodel");
  ExpectRefusal({"copy", "a.caffemodel", "b.caffemodel", "-o", "o"}, "blob 1 is 2 in a.caffemodel");
  ExpectRefusal({"copy", "a.caffemodel", "c.caffemodel", "-o", "o"}, "no layer in common");
  ExpectRefusal({"copy", "a.caffemodel", "c.caffemodel", "cov", "-o", "o"}, "did you mean 'conv'");
  ExpectRefusal({"copy", "a.caffemodel", "c.caffemodel", "conv=z", "ip=z", "-o", "o"},
                "two layers would be called 'z'");
  ExpectRefusal({"copy", "a.caffemodel", "c.caffemodel", "conv", "-o", "c.caffemodel"},
                "which is read");
  ExpectRefusal({"copy", "a.caffemodel", "-o", "o"}, "FROM INTO");
}

TEST_F(WeightsTool, AveragesFiles) {
  Write("b.caffemodel",
        {{"ip", {{1, 2}}, {{1.5F, 0.25F}}}, {"conv", {{2, 1, 1, 2}, {2}}, {{1, 2, 3, 7}, {5, 0}}}});
  Write("c.caffemodel",
        {{"conv", {{2, 1, 1, 2}, {2}}, {{1, 2, 3, 1}, {3, 0}}}, {"ip", {{1, 2}}, {{1, 0}}}});
  RunWell({"average", "a.caffemodel", "b.caffemodel", "c.caffemodel", "-o", "m.caffemodel"});
  EXPECT_EQ(Blob("m.caffemodel", "conv", 0), (Values{1, 2, 3, 4}));
  EXPECT_EQ(Blob("m.caffemodel", "conv", 1), (Values{1, 2}));
  EXPECT_EQ(Blob("m.caffemodel", "ip", 0), (Values{1, 0}));
}

TEST_F(WeightsTool, AverageNamesAllDifferences) {
  Write("b.caffemodel", {{"conv", {{2, 1, 1, 2}, {1}}, {{1, 2, 3, 7}, {5}}}, {"x", {{1}}, {{1}}}});
  const ProcessResult result = Run({"average", "a.caffemodel", "b.caffemodel", "-o", "m"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(Contains(result.err, "blob 1 is 2 in a.caffemodel and 1 in b.caffemodel"));
  EXPECT_TRUE(Contains(result.err, "is not in b.caffemodel")) << result.err;
  EXPECT_TRUE(Contains(result.err, "is not in a.caffemodel")) << result.err;
  ExpectRefusal({"average", "a.caffemodel", "-o", "m"}, "FILE FILE [FILE...]");
  ExpectRefusal({"average", "b.caffemodel", "a.caffemodel", "-o", "a.caffemodel"}, "which is read");
}

TEST_F(WeightsTool, DiffShowsTheLargestDifferences) {
  Write("b.caffemodel", {{"conv", {{2, 1, 1, 2}, {2}}, {{1, 2, 3, 5}, {-5, 6.5F}}},
                         {"ip", {{2, 1}}, {{0.5F, -0.25F}}},
                         {"x", {{1}}, {{1}}}});
  const ProcessResult result = Run({"diff", "a.caffemodel", "b.caffemodel"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out,
            "layer  blob  shape                    absolute   relative  numbers\n"
            "conv   0     2x1x1x2                         1        0.2        1\n"
            "conv   1     2                             0.5  0.0769231        1\n"
            "ip     0     1x2 and 2x1\n"
            "x            only in the second file\n"
            "4 differences, in 3 common blobs\n");
  Write("c.caffemodel", {{"conv", {{2, 1, 1, 2}, {2}}, {{1, 2, 3, 5}, {-5, 6.5F}}},
                         {"ip", {{1, 2}}, {{0.5F, -0.25F}}}});
  EXPECT_EQ(Run({"diff", "a.caffemodel", "c.caffemodel", "--atol=0.6"}).exit_code, 1);
  EXPECT_EQ(Run({"diff", "a.caffemodel", "c.caffemodel", "--atol=1"}).exit_code, 0);
  EXPECT_EQ(Run({"diff", "a.caffemodel", "c.caffemodel", "--rtol=0.21"}).exit_code, 0);
  EXPECT_EQ(Run({"diff", "a.caffemodel", "a.caffemodel"}).exit_code, 0);
  ExpectRefusal({"diff", "a.caffemodel", "a.caffemodel", "--atol=-1"}, "0 or more");
  ExpectRefusal({"diff", "a.caffemodel"}, "expected weights diff FILE FILE, got 1 argument");
}

TEST_F(WeightsTool, DiffTakesNoNumbersAsEqualToThemselvesOnly) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  Write("x.caffemodel", {{"x", {{2}}, {{nan, infinity}}}});
  Write("y.caffemodel", {{"x", {{2}}, {{1, infinity}}}});
  Write("z.caffemodel", {{"x", {{2}}, {{nan, 1}}}});
  EXPECT_EQ(Run({"diff", "x.caffemodel", "x.caffemodel"}).exit_code, 0);
  for (const char* other : {"y.caffemodel", "z.caffemodel"}) {
    const ProcessResult result = Run({"diff", "x.caffemodel", other, "--atol=1e30", "--rtol=9"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(Contains(result.out, "inf       inf        1\n")) << result.out;
  }
}

TEST_F(WeightsTool, ActionsAreNamed) {
  ExpectRefusal({}, "average|convert|copy|diff|fold|list|rename");
  ExpectRefusal({"lst", "a.caffemodel"}, "(did you mean 'list'?)");
  ExpectRefusal({"list"}, "got 0 arguments");
}

class WeightsFold : public WeightsTool {
 protected:
  static constexpr const char* kInput =
      "name: 'folding'\n"
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 dim: 6 dim: 6 "
      "} } }\n";

  static std::string Convolution(const std::string& name, const std::string& bottom,
                                 const std::string& rest) {
    return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                  name, "' convolution_param { kernel_size: 3 pad: 1 ", rest, " } }\n");
  }
  // Leaves BatchNorm with three blobs.
  static std::string Norm(const std::string& name, const std::string& bottom,
                          const std::string& top, const std::string& rest = "") {
    return StrCat("layer { name: '", name, "' type: 'BatchNorm' bottom: '", bottom, "' top: '", top,
                  "' ", rest, " }\n");
  }
  static std::string Scale(const std::string& name, const std::string& blob,
                           const std::string& param = "bias_term: true") {
    return StrCat("layer { name: '", name, "' type: 'Scale' bottom: '", blob, "' top: '", blob,
                  "' scale_param { ", param, " } }\n");
  }

  // Writes a net and weights for it: drawn from -1..1, but for statistics and factors (0.5..1.5).
  void WriteNet(const std::string& text) const {
    temp_.Write("net.prototxt", text);
    const auto plan = test::PlanText(text, TEST);
    const std::shared_ptr<Weights> weights = Weights::MakeToLoad(*plan, 1);
    weights->FillRest(*plan);
    NetParameter net = weights->Export(*plan);
    uint64_t element = 0;
    for (LayerParameter& layer : *net.mutable_layer()) {
      const RandomStream random(1, 7);
      for (BlobProto& blob : *layer.mutable_blobs()) {
        for (float& value : *blob.mutable_data()) {
          const auto drawn = static_cast<float>(random.Uniform(element++));
          value = layer.type() == "BatchNorm" ? 0.5F + drawn : 2 * drawn - 1;
        }
      }
    }
    WriteCaffemodel(net, temp_.File("net.caffemodel"));
  }

  ProcessResult Fold() const {
    return Run({"fold", "net.caffemodel", "--model=net.prototxt", "-o", "folded.caffemodel",
                "--net_output=folded.prototxt"});
  }
  void ExpectSameResults() const {
    const ProcessResult result =
        test::RunProcess({test::Bin("deploy"), "verify", "--threads=1", "--model=net.prototxt",
                          "--weights=net.caffemodel", "--against=folded.prototxt",
                          "--against_weights=folded.caffemodel", "--rtol=1e-4", "--atol=1e-4"},
                         temp_.path());
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  std::vector<std::string> Types(const std::string& net) const {
    std::vector<std::string> types;
    const NetFile file = ReadNet(temp_.File(net));
    for (const LayerParameter& layer : file.net.layer()) {
      types.push_back(layer.type());
    }
    return types;
  }
};

TEST_F(WeightsFold, InPlaceNormAndScaleGoIntoTheConvolution) {
  WriteNet(StrCat(kInput, Convolution("c1", "x", "num_output: 6 bias_term: false"),
                  Norm("n1", "c1", "c1"), Scale("s1", "c1"),
                  "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }\n",
                  Convolution("c2", "c1", "num_output: 3")));
  const ProcessResult result = Fold();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "n1 and s1 went into c1\n")) << result.out;
  EXPECT_EQ(Types("folded.prototxt"),
            (std::vector<std::string>{"Input", "Convolution", "ReLU", "Convolution"}));
  EXPECT_EQ(Blob("folded.caffemodel", "c1", 1).size(), 6U) << "the bias that it had not";
  EXPECT_EQ(Blob("folded.caffemodel", "c2", 0), Blob("net.caffemodel", "c2", 0));
  EXPECT_TRUE(Blob("folded.caffemodel", "n1", 0).empty());
  ExpectSameResults();
}

TEST_F(WeightsFold, OtherLayersAndBlobsOfTheirOwn) {
  WriteNet(StrCat(kInput, Convolution("c1", "x", "num_output: 4 group: 2"), Norm("n1", "c1", "b1"),
                  Scale("s1", "b1", ""), Convolution("c2", "b1", "num_output: 5"),
                  Norm("n2", "c2", "c2", "batch_norm_param { eps: 0.01 use_global_stats: true }"),
                  "layer { name: 'dw' type: 'ConvolutionDepthwise' bottom: 'c2' top: 'dw' "
                  "convolution_param { num_output: 5 kernel_size: 3 } }\n",
                  Norm("n3", "dw", "dw"), Scale("s3", "dw"),
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'dw' top: 'ip' "
                  "inner_product_param { num_output: 7 bias_term: false } }\n",
                  Norm("n4", "ip", "ip"), Scale("s4", "ip")));
  const ProcessResult result = Fold();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* line : {"n1 and s1 went into c1\n", "n2 went into c2\n",
                           "n3 and s3 went into dw\n", "n4 and s4 went into ip\n"}) {
    EXPECT_TRUE(Contains(result.out, line)) << line << result.out;
  }
  EXPECT_EQ(Types("folded.prototxt"),
            (std::vector<std::string>{"Input", "Convolution", "Convolution", "ConvolutionDepthwise",
                                      "InnerProduct"}));
  ExpectSameResults();
}

TEST_F(WeightsFold, WhatCannotBeFoldedStaysWithTheReason) {
  WriteNet(StrCat(
      kInput, Convolution("c1", "x", "num_output: 4"), Norm("n1", "c1", "b1"), Scale("s1", "b1"),
      "layer { name: 'sum' type: 'Eltwise' bottom: 'c1' bottom: 'b1' top: 'sum' }\n",
      Norm("n2", "sum", "n2"), Convolution("c3", "n2", "num_output: 4"),
      Norm("n3", "c3", "c3", "batch_norm_param { use_global_stats: false }"),
      Convolution("c4", "c3", "num_output: 4"), Norm("n4", "c4", "c4"), Norm("n5", "x", "n5")));
  const ProcessResult result = Fold();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* line :
       {"n1 stays: other layers read 'c1', too\n", "n2 stays: 'sum' is of type Eltwise\n",
        "n3 stays: use_global_stats is false", "n4 went into c4\n",
        "n5 stays: 'x' is of type Input\n"}) {
    EXPECT_TRUE(Contains(result.out, line)) << line << result.out;
  }
  ExpectSameResults();
}

TEST_F(WeightsFold, ATrainingNetIsTakenInItsTestPhase) {
  WriteNet(StrCat(
      kInput, Convolution("c1", "x", "num_output: 4"),
      Norm("n1", "c1", "c1", "include { phase: TEST } batch_norm_param { use_global_stats: true }"),
      Norm("n1", "c1", "c1",
           "include { phase: TRAIN } batch_norm_param { use_global_stats: false }")));
  const ProcessResult result = Fold();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Types("folded.prototxt"), (std::vector<std::string>{"Input", "Convolution"}));
  ExpectSameResults();
}

TEST_F(WeightsFold, RefusesWhatDoesNotFit) {
  WriteNet(StrCat(kInput, Convolution("c1", "x", "num_output: 4"), Norm("n1", "c1", "c1")));
  const std::vector<std::string> well = {"fold", "net.caffemodel", "--model=net.prototxt",
                                         "-o",   "o.caffemodel",   "--net_output=o.prototxt"};
  auto with = [&](size_t index, const std::string& word) {
    std::vector<std::string> words = well;
    words[index] = word;
    return words;
  };
  ExpectRefusal(with(1, "a.caffemodel"), "has no layer 'n1' with blobs");
  ExpectRefusal(with(2, "--model=none.prototxt"), "none.prototxt");
  ExpectRefusal(with(5, "--net_output=net.prototxt"), "which is read");
  ExpectRefusal(with(5, "--net_output=o.caffemodel"), "has the extension of weights");
  ExpectRefusal(with(4, "net.caffemodel"), "which is read");
  ExpectRefusal({"fold", "net.caffemodel", "-o", "x"}, "--model is required");
  Write("other.caffemodel", {{"c1", {{4, 4, 3, 3}, {4}}, {Values(144, 1), Values(4, 1)}},
                             {"n1", {{3}, {3}, {1}}, {Values(3, 1), Values(3, 1), {1}}}});
  ExpectRefusal(with(1, "other.caffemodel"),
                "blob 0 has 144 values for 4 outputs, and the BatchNorm after it 3 channels");
  temp_.Write("plain.prototxt", StrCat(kInput, Convolution("c1", "x", "num_output: 4")));
  ExpectRefusal(with(2, "--model=plain.prototxt"), "no BatchNorm can be folded");
}

}  // namespace
}  // namespace crema
