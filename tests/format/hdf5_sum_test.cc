// Checksums of HDF5 files, and byte equality of files with equal contents.
#ifdef CREMA_HAVE_HDF5
#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/hdf5_file.h"
#include "format/solver_state.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;
using test::ProblemsOf;
using test::TempDir;

void Fill(BlobProto* blob, int count, bool with_diff) {
  blob->mutable_shape()->add_dim(count);
  for (int i = 0; i < count; ++i) {
    blob->add_data(static_cast<float>(i) / 7 + 1);
    if (with_diff) blob->add_diff(static_cast<float>(i) / 3);
  }
}

// Two layers that share values, gradients, doubles, nothing, and a layer without blobs.
NetParameter Model() {
  NetParameter net;
  for (const char* name : {"z_owner", "sharer"}) {
    LayerParameter* layer = net.add_layer();
    layer->set_name(name);
    layer->add_param()->set_name("w");
    Fill(layer->add_blobs(), 60, true);
    Fill(layer->add_blobs(), 3, true);
  }
  BlobProto* wide = net.mutable_layer(0)->add_blobs();
  wide->mutable_shape()->add_dim(1);
  wide->add_double_data(0.1);
  net.mutable_layer(0)->add_blobs()->mutable_shape()->add_dim(0);
  net.add_layer()->set_name("relu");
  return net;
}

SolverState State() {
  SolverState state;
  state.set_iter(1000);
  state.set_learned_net("lenet_iter_1000.caffemodel.h5");
  state.set_current_step(2);
  state.set_solver_type("SGD");
  state.set_minimum_loss(0.3F);
  state.set_iter_last_event(7);
  for (int blob = 0; blob < 4; ++blob) Fill(state.add_history(), 1 + 20 * blob, false);
  return state;
}

struct StateKind {
  std::function<void(const std::string& path)> write;
  std::function<std::string(const std::string& path)> read;
};

std::vector<StateKind> Kinds() {
  const auto model = [](const std::string& path) {
    return ReadCaffemodel(path).SerializeAsString();
  };
  const auto state = [](const std::string& path) {
    return ReadSolverState(path).SerializeAsString();
  };
  return {{[](const std::string& path) { WriteCaffemodelHdf5(Model(), path); }, model},
          {[](const std::string& path) { WriteSolverStateHdf5(State(), path); }, state}};
}

// Changes a file as h5py would.
void ChangeFile(const std::string& path, const std::function<void(hid_t)>& action) {
  const Hdf5Session session;
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  action(file);
  H5Fclose(file);
}

void SetFirst(hid_t file, const char* dataset, double value) {
  const hid_t set = H5Dopen2(file, dataset, H5P_DEFAULT);
  const hid_t all = H5Dget_space(set);
  const hsize_t zero = 0;
  const hsize_t one = 1;
  H5Sselect_hyperslab(all, H5S_SELECT_SET, &zero, nullptr, &one, nullptr);
  const hid_t memory = H5Screate_simple(1, &one, nullptr);
  EXPECT_GE(H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, all, H5P_DEFAULT, &value), 0);
  H5Sclose(memory);
  H5Sclose(all);
  H5Dclose(set);
}

TEST(Hdf5Sum, NoFlippedBitChangesWhatIsReadWithoutAnError) {
  constexpr size_t kStep = 31;
  const TempDir folder;
  for (const StateKind& kind : Kinds()) {
    kind.write(folder.File("a"));
    const std::string expected = kind.read(folder.File("a"));
    const std::string bytes = folder.Read("a");
    int refused = 0;
    for (size_t at = 0; at < bytes.size(); at += kStep) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      const std::string path = folder.Write("damaged", damaged);
      std::string read;
      const auto problems = ProblemsOf([&] { read = kind.read(path); });
      if (problems.empty()) {
        EXPECT_EQ(read, expected) << "byte " << at << " of " << bytes.size();
        continue;
      }
      ++refused;
      EXPECT_EQ(problems[0].where.file, path) << "byte " << at;
    }
    EXPECT_GT(refused, 50);
  }
}

TEST(Hdf5Sum, EachChangedNumberOfAStateIsFound) {
  const TempDir folder;
  const std::string path = folder.File("s");
  for (const char* name :
       {"iter", "current_step", "minimum_loss", "iter_last_event", "history/0", "history/3"}) {
    WriteSolverStateHdf5(State(), path);
    ChangeFile(path, [&](hid_t file) { SetFirst(file, name, 77); });
    EXPECT_TRUE(Contains(ErrorOf([&] { ReadSolverState(path); }),
                         path + ": its checksum does not fit: the file is damaged"))
        << name;
  }
}

TEST(Hdf5Sum, WeightsGradientsAndNamesOfAModelAreCovered) {
  const TempDir folder;
  const std::string path = folder.File("m");
  const auto error_after = [&](const std::function<void(hid_t)>& action) {
    WriteCaffemodelHdf5(Model(), path);
    ChangeFile(path, action);
    return ErrorOf([&] { ReadCaffemodel(path); });
  };
  for (const char* name : {"data/z_owner/0", "diff/z_owner/1", "diff/sharer/0"}) {
    const std::string error = error_after([&](hid_t file) { SetFirst(file, name, 77); });
    EXPECT_TRUE(Contains(error, "its checksum does not fit")) << name << ": " << error;
  }
  for (const char* name : {"data/relu", "data/sharer/1", "diff/z_owner"}) {
    const std::string error = error_after([&](hid_t file) { H5Ldelete(file, name, H5P_DEFAULT); });
    EXPECT_TRUE(Contains(error, "its checksum does not fit")) << name << ": " << error;
  }
}

// Written by Caffe, or intentionally edited with another program.
TEST(Hdf5Sum, FilesWithoutItLoad) {
  const TempDir folder;
  for (const StateKind& kind : Kinds()) {
    kind.write(folder.File("a"));
    const std::string expected = kind.read(folder.File("a"));
    ChangeFile(folder.File("a"), [](hid_t file) { EXPECT_GE(H5Adelete(file, kHdf5SumName), 0); });
    EXPECT_EQ(kind.read(folder.File("a")), expected);
  }
}

herr_t ExpectNoTime(hid_t group, const char* name, const H5L_info_t*, void*) {
  H5G_stat_t about = {};
  EXPECT_GE(H5Gget_objinfo(group, name, false, &about), 0);
  EXPECT_EQ(about.mtime, 0) << name;
  if (about.type != H5G_GROUP) return 0;
  const hid_t opened = H5Gopen2(group, name, H5P_DEFAULT);
  H5Literate(opened, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, ExpectNoTime, nullptr);
  H5Gclose(opened);
  return 0;
}

TEST(Hdf5Sum, EqualContentsMakeEqualFilesWithoutTimes) {
  const TempDir folder;
  for (const StateKind& kind : Kinds()) {
    kind.write(folder.File("a"));
    kind.write(folder.File("b"));
    EXPECT_EQ(folder.Read("a"), folder.Read("b"));
    ChangeFile(folder.File("a"), [](hid_t file) {
      H5Literate(file, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, ExpectNoTime, nullptr);
    });
  }
}

}  // namespace
}  // namespace crema
#endif
