#include "format/caffemodel.h"

#include <gtest/gtest.h>

#include "core/tensor.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/file.h"
#include "format/seal.h"
#include "format/sniff.h"
#include "format/solver_state.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;
using test::ProblemsOf;
using test::TempDir;

void AddBlob(LayerParameter* layer, std::initializer_list<int64_t> dims, bool with_diff = false) {
  BlobProto* blob = layer->add_blobs();
  int64_t count = 1;
  for (int64_t dim : dims) {
    blob->mutable_shape()->add_dim(dim);
    count *= dim;
  }
  for (int64_t i = 0; i < count; ++i) {
    blob->add_data(static_cast<float>(i) / 3);
    if (with_diff) blob->add_diff(static_cast<float>(-i));
  }
}

NetParameter Example(bool with_diff = false) {
  NetParameter net;
  net.set_name("net");
  for (const char* name : {"conv1", "conv2", "relu"}) {
    LayerParameter* layer = net.add_layer();
    layer->set_name(name);
    if (layer->name() == "relu") continue;
    AddBlob(layer, {2, 3, 2, 2}, with_diff);
    AddBlob(layer, {2}, with_diff);
  }
  return net;
}

TEST(Caffemodel, RoundTrip) {
  const TempDir folder;
  WriteCaffemodel(Example(), folder.File("a.caffemodel"));
  EXPECT_EQ(ReadCaffemodel(folder.File("a.caffemodel")).SerializeAsString(),
            Example().SerializeAsString());
  EXPECT_EQ(folder.FileCount(), 1u);
  EXPECT_EQ(FileCrc32(folder.File("a.caffemodel")), Crc32(folder.Read("a.caffemodel")));
}

TEST(Caffemodel, SealsOfAnEarlierFileAreNotWrittenAgain) {
  const TempDir folder;
  NetParameter net = Example();
  net.mutable_seal_head()->set_length(1);
  net.mutable_seal_tail()->set_length(1);
  WriteCaffemodel(net, folder.File("a"));
  EXPECT_EQ(ReadCaffemodel(folder.File("a")).SerializeAsString(), Example().SerializeAsString());
}

TEST(Caffemodel, AnyTruncationOfOursIsRefused) {
  const TempDir folder;
  WriteCaffemodel(Example(), folder.File("a"));
  const std::string bytes = folder.Read("a");
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string path = folder.Write("cut", bytes.substr(0, size));
    const auto problems = ProblemsOf([&] { ReadCaffemodel(path); });
    ASSERT_EQ(problems.size(), 1u) << size;
    EXPECT_EQ(problems[0].code, ErrorCode::kDataLoss) << size;
    EXPECT_EQ(problems[0].where.file, path);
  }
}

TEST(Caffemodel, TruncationOfCaffesIsRefusedNamingTheLayer) {
  const TempDir folder;
  const std::string bytes = Example().SerializeAsString();
  const size_t second = bytes.find("conv2");
  const std::string in_second = folder.Write("cut", bytes.substr(0, second + 60));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadCaffemodel(in_second); }),
                       "is truncated within layer \"conv2\": it has"));
  const std::string before_name = folder.Write("cut", bytes.substr(0, second - 1));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadCaffemodel(before_name); }), "after layer \"conv1\""));
}

TEST(Caffemodel, ValuesMustBeAsManyAsTheShapeSays) {
  const TempDir folder;
  NetParameter net = Example();
  net.mutable_layer(1)->mutable_blobs(1)->add_data(1);
  const std::string path = folder.Write("a", net.SerializeAsString());
  EXPECT_EQ(ErrorOf([&] { ReadCaffemodel(path); }),
            path +
                ": layer \"conv2\": is damaged: blob 1: a blob of shape 2 has 3 values instead "
                "of 2");
}

TEST(Caffemodel, OldFormatIsUpgraded) {
  const TempDir folder;
  NetParameter net;
  net.add_input("data");
  V1LayerParameter* layer = net.add_layers();
  layer->set_name("ip");
  layer->set_type(V1LayerParameter::INNER_PRODUCT);
  BlobProto* blob = layer->add_blobs();
  blob->set_num(1);
  blob->set_channels(1);
  blob->set_height(1);
  blob->set_width(2);
  blob->add_data(1);
  blob->add_data(2);
  const NetParameter read = ReadCaffemodel(folder.Write("a", net.SerializeAsString()));
  ASSERT_EQ(read.layer_size(), 1);
  EXPECT_EQ(read.layer(0).type(), "InnerProduct");
  EXPECT_EQ(read.layer(0).blobs(0).data(1), 2);
}

// NVCaffe uses Caffe's field numbers of parameter blocks for element types, and stores values as
// bytes.
TEST(Caffemodel, ForksWithOtherFieldsAtOurNumbersAreRead) {
  const TempDir folder;
  const std::string forward_type = "\x88\x09\x01";  // field 145, a number
  const std::string blob("\x3A\x03\x0A\x01\x02\x50\x02\x62\x04\x00\x38\x00\xBC", 13);
  const std::string layer = std::string("\x0A\x01") + "a" + "\x3A\x0D" + blob + forward_type;
  const std::string net = std::string("\xA2\x06") + static_cast<char>(layer.size()) + layer;
  const NetParameter read = ReadCaffemodel(folder.Write("f", net));
  ASSERT_EQ(read.layer_size(), 1);
  EXPECT_FALSE(read.layer(0).has_parameter_param());
  Tensor values(Shape({2}), DType::kF32);
  CopyTo(read.layer(0).blobs(0), values.view());
  EXPECT_EQ(values.view().data<float>()[0], 0.5F);
  EXPECT_EQ(values.view().data<float>()[1], -1.0F);
}

TEST(Caffemodel, WrongFilesAreNamed) {
  const TempDir folder;
  const auto error = [&](const std::string& bytes) {
    return ErrorOf([&] { ReadCaffemodel(folder.Write("f", bytes)); });
  };
  EXPECT_TRUE(Contains(error(""), "is empty"));
  EXPECT_TRUE(Contains(error("<html><body>404</body></html>"), "is an HTML page"));
  EXPECT_TRUE(Contains(error("version https://git-lfs.github.com/spec/v1\n"), "git lfs pull"));
  EXPECT_TRUE(Contains(
      error("layer { name: \"a\" type: \"ReLU\" }"),
      "is a net as text (a prototxt), not a weights file (caffemodel): give it with --model"));
  EXPECT_TRUE(Contains(error("net: \"a\" base_lr: 0.1"), "is a solver as text (a prototxt)"));
  EXPECT_TRUE(Contains(error("nothing { known: 1 }"), "is a text file"));
  EXPECT_TRUE(Contains(error("GIF89a\x01"), "is an image"));
  EXPECT_TRUE(Contains(error("RIFF\x01\x02\x03\x04WEBPVP8"), "is an image"));
  EXPECT_TRUE(Contains(error("\x1F\x8B\x08 gzip"), "is a compressed file"));
  EXPECT_TRUE(Contains(error("PK\x03\x04 zip"), "is a compressed file"));
  EXPECT_TRUE(Contains(error("PK\x03\x04 archive/data.pkl"), "is a PyTorch file"));
  const std::string tensors = std::string("\x40\0\0\0\0\0\0\0", 8) + "{\"a\": {}}";
  EXPECT_TRUE(Contains(error(tensors),
                       "is a safetensors file, not a weights file (caffemodel): "
                       "fill a net from it with 'crema import --weights=FILE"));
  EXPECT_TRUE(Contains(error(std::string(kCremaMagic)), "is a model of deploy export, not a"));
  EXPECT_TRUE(Contains(error("\x93NUMPY\x01"), "is a NumPy array"));
  EXPECT_TRUE(Contains(error("a.prototxt" + std::string(247, '\0') + "ustar"), "a tar archive"));
  EXPECT_TRUE(Contains(error(std::string(100, '\x07')), "is not a weights file, or damaged"));
  SolverState state;
  state.set_iter(5);
  state.set_learned_net("a_iter_5.caffemodel");
  state.set_current_step(0);
  EXPECT_TRUE(
      Contains(error(state.SerializeAsString()), "its weights are in 'a_iter_5.caffemodel'"));
  EXPECT_TRUE(Contains(error(Example().layer(0).blobs(0).SerializeAsString()), "mean file"));
  NetParameter bare;
  bare.add_layer()->set_name("relu_of_a_net_without_any_weight_at_all");
  EXPECT_TRUE(Contains(error(bare.SerializeAsString()), "holds no weights"));
  EXPECT_EQ(ReadNetBinary(folder.File("f")).layer_size(), 1);
}

TEST(BlobProtoFile, ReadsOneArray) {
  const TempDir folder;
  const BlobProto mean = Example().layer(0).blobs(0);
  const std::string path = folder.Write("mean.binaryproto", mean.SerializeAsString());
  EXPECT_EQ(ReadBlobProtoFile(path).SerializeAsString(), mean.SerializeAsString());
  const std::string cut = folder.Write("cut", mean.SerializeAsString().substr(0, 50));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadBlobProtoFile(cut); }), "damaged or truncated"));
  const std::string net = folder.Write("net", Example().SerializeAsString());
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadBlobProtoFile(net); }), "is a weights file"));
}

#ifdef CREMA_HAVE_HDF5

TEST(CaffemodelHdf5, RoundTripOfNamesValuesAndGradients) {
  const TempDir folder;
  const std::string path = folder.File("a.caffemodel.h5");
  WriteCaffemodelHdf5(Example(true), path);
  EXPECT_EQ(folder.FileCount(), 1u);
  NetParameter expected = Example(true);
  expected.clear_name();
  EXPECT_EQ(ReadCaffemodel(path).SerializeAsString(), expected.SerializeAsString());
}

TEST(CaffemodelHdf5, OddShapesAndDoubles) {
  const TempDir folder;
  NetParameter net;
  LayerParameter* layer = net.add_layer();
  layer->set_name("a");
  AddBlob(layer, {});
  AddBlob(layer, {0, 3});
  BlobProto* wide = layer->add_blobs();
  wide->mutable_shape()->add_dim(1);
  wide->add_double_data(0.1);
  layer->mutable_blobs(0)->mutable_shape();
  WriteCaffemodelHdf5(net, folder.File("a"));
  EXPECT_EQ(ReadCaffemodel(folder.File("a")).SerializeAsString(), net.SerializeAsString());
}

TEST(CaffemodelHdf5, TwelveBlobsKeepTheirOrder) {
  const TempDir folder;
  NetParameter net;
  LayerParameter* layer = net.add_layer();
  layer->set_name("a");
  for (int i = 1; i <= 12; ++i) AddBlob(layer, {i});
  WriteCaffemodelHdf5(net, folder.File("a"));
  EXPECT_EQ(ReadCaffemodel(folder.File("a")).SerializeAsString(), net.SerializeAsString());
}

TEST(CaffemodelHdf5, SharedValuesAreWrittenByTheirOwnerOnly) {
  const TempDir folder;
  NetParameter net;
  for (const char* name : {"owner", "sharer"}) {
    LayerParameter* layer = net.add_layer();
    layer->set_name(name);
    layer->add_param()->set_name("w");
    AddBlob(layer, {2});
    AddBlob(layer, {3});
  }
  WriteCaffemodelHdf5(net, folder.File("a"));
  const NetParameter read = ReadCaffemodel(folder.File("a"));
  EXPECT_EQ(read.layer(0).blobs(0).data_size(), 2);
  EXPECT_FALSE(read.layer(1).blobs(0).has_shape());
  EXPECT_EQ(read.layer(1).blobs(1).data_size(), 3);
  WriteCaffemodelHdf5(read, folder.File("again"));
  EXPECT_EQ(ReadCaffemodel(folder.File("again")).SerializeAsString(), read.SerializeAsString());
}

TEST(CaffemodelHdf5, NamesThatHdf5CannotHoldAreRefused) {
  const TempDir folder;
  NetParameter net = Example();
  net.mutable_layer(0)->set_name("inception/conv");
  const auto problems = ProblemsOf([&] { WriteCaffemodelHdf5(net, folder.File("a")); });
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(Contains(problems[0].message, "write a caffemodel (snapshot_format: BINARYPROTO)"));
  net.mutable_layer(0)->set_name("conv2");
  EXPECT_TRUE(Contains(ErrorOf([&] { WriteCaffemodelHdf5(net, folder.File("a")); }), "two layers"));
  EXPECT_EQ(folder.FileCount(), 0u);
}

TEST(CaffemodelHdf5, ModelsAndStatesAreDistinguished) {
  const TempDir folder;
  SolverState state;
  state.set_iter(5);
  state.set_learned_net("a_iter_5.caffemodel.h5");
  state.set_current_step(0);
  WriteSolverStateHdf5(state, folder.File("s"));
  WriteCaffemodelHdf5(Example(), folder.File("m"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadCaffemodel(folder.File("s")); }),
                       "is a solver state, not a weights file: train takes it with --resume; its "
                       "weights are in 'a_iter_5.caffemodel.h5'"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadSolverState(folder.File("m")); }),
                       "is a weights file (caffemodel), not a solver state"));
}

TEST(CaffemodelHdf5, TruncatedFilesAreRefusedInSilence) {
  const TempDir folder;
  WriteCaffemodelHdf5(Example(), folder.File("a"));
  const std::string bytes = folder.Read("a");
  ::testing::internal::CaptureStderr();
  for (size_t size = 8; size < bytes.size(); size += 97) {
    const std::string path = folder.Write("cut", bytes.substr(0, size));
    const auto problems = ProblemsOf([&] { ReadCaffemodel(path); });
    ASSERT_EQ(problems.size(), 1u) << size;
    EXPECT_EQ(problems[0].code, ErrorCode::kDataLoss);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

#else

TEST(CaffemodelHdf5, IsRefusedInABuildWithoutIt) {
  const TempDir folder;
  const std::string path = folder.Write("a", "\x89HDF\r\n\x1A\n" + std::string(90, '\0'));
  const auto problems = ProblemsOf([&] { ReadCaffemodel(path); });
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code, ErrorCode::kUnsupported);
}

#endif

}  // namespace
}  // namespace crema
