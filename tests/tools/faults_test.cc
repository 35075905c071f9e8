// Faults of a run are reported with a remedy: one planted fault per test.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "core/tensor.h"
#include "crema.pb.h"
#include "data/hdf5/hdf5_appender.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "format/solver_state.h"
#include "tools/run_folder.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ProcessResult;

class Faults : public test::RunFolder {
 protected:
  // Expects that train exits with this code and reports all of `expected`.
  void ExpectFault(int code, const std::vector<std::string>& expected,
                   std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), "--solver=solver.prototxt");
    const ProcessResult result = Run("train", std::move(flags));
    EXPECT_EQ(result.exit_code, code) << result.err;
    const size_t at = result.err.find("error: ");
    ASSERT_NE(at, std::string::npos) << result.err;
    const std::string error = result.err.substr(at);
    for (const std::string& text : expected) {
      EXPECT_NE(error.find(text), std::string::npos) << text << "\n---\n" << error;
    }
    EXPECT_EQ(result.err.find("*** "), std::string::npos) << "a stack trace: " << result.err;
  }

  // A list of six images of 6x6, of the classes 0 to 3; the labels of the last are given.
  void WriteImages(const std::string& last_label) {
    std::string list;
    for (int i = 0; i < 6; ++i) {
      temp_.Write(StrCat("image ", i, ".pgm"), "P5 6 6 255\n" + std::string(36, char('a' + i)));
      list += StrCat("image ", i, ".pgm ", i == 5 ? last_label : std::to_string(i % 4), "\n");
    }
    temp_.Write("list.txt", list);
    ReplaceData(
        "type: \"ImageData\"\n  image_data_param { source: \"list.txt\" batch_size: 6 "
        "is_color: false }");
  }

  void WriteRows(float odd) {
    Tensor data(Shape{20, 3}, DType::kF32);
    Tensor labels(Shape{20}, DType::kF32);
    for (int i = 0; i < 60; ++i) data.view().data<float>()[i] = static_cast<float>(i % 5);
    for (int i = 0; i < 20; ++i) labels.view().data<float>()[i] = static_cast<float>(i % 4);
    data.view().data<float>()[3 * 13 + 1] = odd;
    Hdf5Appender file(temp_.File("rows.h5"));
    file.Append("data", std::as_const(data).view());
    file.Append("label", std::as_const(labels).view());
    temp_.Write("rows.txt", "rows.h5\n");
    ReplaceData("type: \"HDF5Data\" hdf5_data_param { source: \"rows.txt\" batch_size: 5 }");
  }
};

TEST_F(Faults, NoneInTheRunItself) {
  const ProcessResult result = Run("train", {"--solver=solver.prototxt"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(Faults, MissingNetFile) {
  fs::remove(temp_.File("net.prototxt"));
  ExpectFault(2, {"solver.prototxt:1:1: net \"net.prototxt\"", "there is no such file"});
}

TEST_F(Faults, MisspeltLayerType) {
  Edit("net.prototxt", "name: \"ip2\" type: \"InnerProduct\"",
       "name: \"ip2\" type: \"InerProduct\"");
  ExpectFault(2, {"net.prototxt:11:21: layer \"ip2\": ", "unknown layer type 'InerProduct'",
                  "did you mean 'InnerProduct'?"});
}

TEST_F(Faults, MisspeltFieldOfALayer) {
  Edit("net.prototxt", "num_output: 4", "num_outputs: 4");
  ExpectFault(2, {"net.prototxt:12:25: layer \"ip2\": unknown field 'num_outputs' (did you mean "
                  "'num_output'?)"});
}

TEST_F(Faults, MisspeltFieldOfTheSolver) {
  Edit("solver.prototxt", "momentum: 0.9", "momentun: 0.9");
  ExpectFault(2, {"solver.prototxt:2:33: ", "unknown field 'momentun' (did you mean 'momentum'?)"});
}

TEST_F(Faults, BottomThatNobodyMakes) {
  Edit("net.prototxt", "bottom: \"ip1\" top: \"ip2\"", "bottom: \"ip3\" top: \"ip2\"");
  ExpectFault(2, {"net.prototxt:11:42: layer \"ip2\": ", "'ip3'", "did you mean"});
}

TEST_F(Faults, BottomOfTheWrongShape) {
  Edit("net.prototxt", "\"SoftmaxWithLoss\" bottom: \"ip2\"",
       "\"SoftmaxWithLoss\" bottom: \"data\"");
  ExpectFault(2, {"net.prototxt:13:46: layer \"loss\": ", "8x1x6x6", "the labels have shape 8",
                  "'data' is 8x1x6x6 (from layer \"data\", line 2)"});
}

TEST_F(Faults, LabelOfARecordOutsideTheClasses) {
  WriteLmdb("train_lmdb", 32, 13, Image(4).SerializeAsString());
  ExpectFault(3, {"layer \"loss\": label 4 at sample '00000013' but \"ip2\" has 4 outputs (labels "
                  "0..3; does your set start at 1?)"});
}

TEST_F(Faults, LabelOfTheTestSetOutsideTheClasses) {
  WriteLmdb("test_lmdb", 16, 9, Image(94).SerializeAsString());
  ExpectFault(3, {"label 94 at sample '00000009' but \"ip2\" has 4 outputs (labels 0..3; correct "
                  "the label, or use more outputs (num_output))"});
}

#ifdef CREMA_HAVE_OPENCV
TEST_F(Faults, LabelOfAnImageOutsideTheClasses) {
  WriteImages("4");
  ExpectFault(3, {"label 4 at sample 'image 5.pgm' but \"ip2\" has 4 outputs (labels 0..3; does "
                  "your set start at 1?)"});
}

TEST_F(Faults, LabelOfAListThatIsNoNumber) {
  WriteImages("cat");
  ExpectFault(3, {"list.txt:6", "the label 'cat'"});
}

TEST_F(Faults, DamagedImage) {
  WriteImages("1");
  temp_.Write("image 3.pgm", "P5 6 6 255\nshort");
  ExpectFault(3, {"layer \"data\": 'image 3.pgm' (line 4 of 'list.txt')", "cannot be decoded"});
}

TEST_F(Faults, ImageThatIsNotThere) {
  WriteImages("1");
  fs::remove(temp_.File("image 3.pgm"));
  ExpectFault(2, {"image 3.pgm", "there is no such file", "(line 4 of 'list.txt')"});
}

TEST_F(Faults, FieldsThatContradictEachOther) {
  WriteImages("1");
  Edit("net.prototxt", "is_color: false", "new_height: 6 new_width: 6 short_side: 5");
  ExpectFault(2, {"net.prototxt:3:", "short_side and new_height, new_width exclude each other"});
}
#endif

TEST_F(Faults, NotANumberAsLearningRate) {
  Edit("solver.prototxt", "base_lr: 0.1", "base_lr: nan");
  ExpectFault(2, {"solver.prototxt:2:1: base_lr is nan"});
}

TEST_F(Faults, MissingLearningRate) {
  Edit("solver.prototxt", "base_lr: 0.1", "");
  ExpectFault(2, {"solver.prototxt", "base_lr"});
}

TEST_F(Faults, UnknownPolicy) {
  Edit("solver.prototxt", "\"fixed\"", "\"fixd\"");
  ExpectFault(2, {"solver.prototxt:2:14: ", "unknown lr_policy 'fixd'", "did you mean 'fixed'?"});
}

TEST_F(Faults, MissingStepsize) {
  Edit("solver.prototxt", "\"fixed\"", "\"step\" gamma: 0.1");
  ExpectFault(2, {"solver.prototxt", "stepsize"});
}

TEST_F(Faults, NegativeMomentum) {
  Edit("solver.prototxt", "momentum: 0.9", "momentum: -0.9");
  ExpectFault(2, {"solver.prototxt:2:33: momentum is -0.9"});
}

TEST_F(Faults, UnknownSolverType) {
  Edit("solver.prototxt", "max_iter: 8", "max_iter: 8 type: \"SDG\"");
  ExpectFault(2, {"solver.prototxt:3:13: unknown solver type 'SDG' (did you mean 'SGD'?)"});
}

TEST_F(Faults, TestsWithoutAnInterval) {
  Edit("solver.prototxt", "test_interval: 4", "");
  ExpectFault(2, {"solver.prototxt:4:1: test_iter is set, but test_interval is not"});
}

TEST_F(Faults, TwoNetsToTrain) {
  Edit("solver.prototxt", "max_iter: 8", "max_iter: 8 train_net: \"net.prototxt\"");
  ExpectFault(2, {"solver.prototxt", "several nets to train", "train_net"});
}

TEST_F(Faults, NoBatchSize) {
  Edit("net.prototxt", "batch_size: 8", "batch_size: 0");
  ExpectFault(2, {"net.prototxt:4:37: layer \"data\": data_param.batch_size must be 1 or more"});
}

TEST_F(Faults, MissingSource) {
  fs::remove_all(temp_.File("train_lmdb"));
  ExpectFault(2, {"net.prototxt:4:16: layer \"data\": ", "train_lmdb"});
}

TEST_F(Faults, EmptyDataSet) {
  WriteLmdb("train_lmdb", 0);
  ExpectFault(
      3, {"net.prototxt:4:16: layer \"data\": ", "the data set 'train_lmdb' holds no records"});
}

TEST_F(Faults, DamagedRecord) {
  WriteLmdb("train_lmdb", 32, 13, "this is no Datum, but it is something else");
  ExpectFault(3, {"layer \"data\": record \"00000013\" of 'train_lmdb' is not a Datum"});
}

TEST_F(Faults, RecordOfAnotherSize) {
  Datum datum = Image(1);
  datum.set_height(3);
  datum.set_width(12);
  WriteLmdb("train_lmdb", 32, 13, datum.SerializeAsString());
  ExpectFault(3, {"layer \"data\": record \"00000013\" of 'train_lmdb'", "1x3x12", "1x6x6"});
}

TEST_F(Faults, MeanFileOfAnotherSize) {
  const Tensor values(Shape{1, 1, 5, 5}, DType::kF32);
  BlobProto mean;
  CopyFrom(values.view(), &mean);
  temp_.Write("mean.binaryproto", mean.SerializeAsString());
  Edit("net.prototxt", "scale: 0.00390625", "mean_file: \"mean.binaryproto\"");
  ExpectFault(2, {"net.prototxt:3:21: layer \"data\": ", "mean", "5x5", "6x6"});
}

TEST_F(Faults, DataThatAreNotANumber) {
  WriteRows(std::numeric_limits<float>::quiet_NaN());
  ExpectFault(5,
              {"layer \"data\": training diverged: the loss is nan in iteration 2 (learning rate "
               "0.1). The data are at fault: \"data\" holds nan in 1 of 15 values, in sample "
               "'rows.h5 row 13'; mend"});
}

TEST_F(Faults, LearningRateThatIsTooHigh) {
  Edit("solver.prototxt", "base_lr: 0.1", "base_lr: 1e25");
  Edit("solver.prototxt", "snapshot: 4", "snapshot: 1");
  ExpectFault(5, {"training diverged: the loss is ", " in iteration 1 (learning rate 1e+25)",
                  "The weights are at fault", "lower base_lr",
                  "The batch has the samples '00000008' to '00000015'",
                  "The last snapshot with finite weights is snap_iter_1.caffemodel"});
  EXPECT_NO_THROW(ReadCaffemodel(temp_.File("snap_iter_1.caffemodel")));
}

TEST_F(Faults, WeightsOfAnotherShape) {
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt"}).exit_code, 0);
  Edit("net.prototxt", "num_output: 16", "num_output: 12");
  ExpectFault(2,
              {"snap_iter_8.caffemodel",
               "layer \"ip1\": blob 0 (weight) is 16x36 in the file, but "
               "12x36 in the net",
               "layer \"ip2\""},
              {"--weights=snap_iter_8.caffemodel"});
}

TEST_F(Faults, DamagedWeights) {
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt"}).exit_code, 0);
  std::string bytes = temp_.Read("snap_iter_8.caffemodel");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  temp_.Write("broken.caffemodel", bytes);
  ExpectFault(3, {"broken.caffemodel: ", "damaged"}, {"--weights=broken.caffemodel"});
}

TEST_F(Faults, SnapshotOfAnotherSolverType) {
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt"}).exit_code, 0);
  SolverState state = ReadSolverState(temp_.File("snap_iter_4.solverstate"));
  state.set_solver_type("Adam");
  WriteSolverState(state, temp_.File("adam.solverstate"));
  ExpectFault(2, {"adam.solverstate: this state is of a Adam solver, but the solver file says SGD"},
              {"--snapshot=adam.solverstate"});
}

TEST_F(Faults, FolderThatCannotBeWrittenTo) {
  Edit("solver.prototxt", "\"snap\"", "\"/proc/snap\"");
  ExpectFault(3, {"snapshots cannot be written with snapshot_prefix \"/proc/snap\""});
}

TEST_F(Faults, SeveralAtOnceAreAllReported) {
  Edit("solver.prototxt", "base_lr: 0.1 lr_policy: \"fixed\"", "base_lr: inf lr_policy: \"nope\"");
  Edit("solver.prototxt", "max_iter: 8", "max_iter: -8");
  ExpectFault(2, {"base_lr is inf", "unknown lr_policy 'nope'", "max_iter is -8"});
}

}  // namespace
}  // namespace crema
