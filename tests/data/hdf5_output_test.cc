#ifdef CREMA_HAVE_HDF5
#include <gtest/gtest.h>
#include <hdf5.h>

#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/hdf5/hdf5_appender.h"
#include "data/hdf5/hdf5_file.h"
#include "format/hdf5_file.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::ExpectError;

std::string OutputNet(const std::string& file, const std::string& data_shape) {
  return StrCat("layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { ",
                data_shape,
                " } shape { dim: 2 } } } layer { name: 'out' type: 'HDF5Output' "
                "bottom: 'data' bottom: 'label' hdf5_output_param { file_name: '",
                file, "' } }");
}

std::unique_ptr<Session> Build(const std::string& text, DType dtype = DType::kF32) {
  const auto plan = test::PlanText(text, TRAIN, {.dtype = dtype});
  return std::make_unique<Session>(plan, Weights::Make(*plan, 1), ExecContext(1));
}

std::vector<double> ReadAll(const std::string& path, const std::string& dataset, Shape expected) {
  const Hdf5File file(path);
  EXPECT_EQ(file.ShapeOf(dataset), expected);
  std::vector<double> values(static_cast<size_t>(expected.count()));
  file.Read(dataset, DType::kF64, values.data());
  return values;
}

TEST(HDF5OutputLayer, EachForwardAddsItsRows) {
  TempDir temp;
  const std::string path = temp.Write("out.h5", "what was here before");
  auto session = Build(OutputNet(path, "dim: 2 dim: 3"));
  EXPECT_EQ(temp.Read("out.h5"), "what was here before");
  for (int pass = 0; pass < 3; ++pass) {
    const TensorView data = session->MutableData("data");
    for (int i = 0; i < 6; ++i) data.data<float>()[i] = static_cast<float>(10 * pass + i);
    session->MutableData("label").data<float>()[0] = static_cast<float>(pass);
    session->MutableData("label").data<float>()[1] = -1;
    session->Forward();
  }
  session.reset();
  const std::vector<double> data = ReadAll(path, "data", {6, 3, 1, 1});
  EXPECT_EQ(data[0], 0);
  EXPECT_EQ(data[8], 12);
  EXPECT_EQ(data[17], 25);
  EXPECT_EQ(ReadAll(path, "label", {6, 1, 1, 1}), (std::vector<double>{0, -1, 1, -1, 2, -1}));
}

TEST(HDF5OutputLayer, DoublesFiveAxesAndEmptyRows) {
  TempDir temp;
  const std::string path = temp.File("out.h5");
  auto session = Build(OutputNet(path, "dim: 2 dim: 1 dim: 2 dim: 1 dim: 2"), DType::kF64);
  session->MutableData("data").data<double>()[7] = 0.1;
  session->Forward();
  session.reset();
  EXPECT_EQ(ReadAll(path, "data", {2, 1, 2, 1, 2})[7], 0.1);
  const std::string empty = temp.File("empty.h5");
  Build(OutputNet(empty, "dim: 2 dim: 0"))->Forward();
  EXPECT_EQ(Hdf5File(empty).ShapeOf("data"), (Shape{2, 0, 1, 1}));
}

TEST(HDF5OutputLayer, AFileThatCannotBeWrittenIsAnError) {
  TempDir temp;
  auto session = Build(OutputNet(temp.File("no/such/folder.h5"), "dim: 2"));
  ExpectError(ErrorCode::kIoFailure, "folder.h5", [&] { session->Forward(); });
  ExpectError(ErrorCode::kIoFailure, "layer \"out\"", [&] { session->Forward(); });
  auto onto_folder = Build(OutputNet(temp.path(), "dim: 2"));
  ExpectError(ErrorCode::kIoFailure, temp.path(), [&] { onto_folder->Forward(); });
}

TEST(Hdf5Appender, NoTimesAreStored) {
  TempDir temp;
  const std::vector<float> values(6);
  const auto write = [&](const std::string& name) {
    Hdf5Appender(temp.File(name)).Append("x", {values.data(), Shape{2, 3}, DType::kF32});
    return temp.Read(name);
  };
  EXPECT_EQ(write("a.h5"), write("b.h5"));
  const Hdf5Session session;
  const Hdf5Id file(H5Fopen(temp.File("a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  H5G_stat_t about = {};
  ASSERT_GE(H5Gget_objinfo(file.get(), "x", false, &about), 0);
  EXPECT_EQ(about.mtime, 0);
}

TEST(Hdf5Appender, RowsOfAnotherShapeAreRefused) {
  TempDir temp;
  Hdf5Appender file(temp.File("out.h5"));
  const std::vector<float> values(6);
  file.Append("x", {values.data(), Shape{2, 3}, DType::kF32});
  ExpectError(ErrorCode::kInvalidArgument, "a row of 'x' is 2, but in", [&] {
    file.Append("x", {values.data(), Shape{3, 2}, DType::kF32});
  });
}

}  // namespace
}  // namespace crema
#endif
