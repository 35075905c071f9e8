#include "format/solver_state.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;
using test::ProblemsOf;
using test::TempDir;

// As Caffe writes it.
SolverState CaffesState() {
  SolverState state;
  state.set_iter(1000);
  state.set_learned_net("lenet_iter_1000.caffemodel");
  for (int blob = 0; blob < 12; ++blob) {
    BlobProto* history = state.add_history();
    history->mutable_shape()->add_dim(blob + 1);
    for (int i = 0; i <= blob; ++i) history->add_data(static_cast<float>(i) / 7);
  }
  state.set_current_step(2);
  return state;
}

SolverState OurState() {
  SolverState state = CaffesState();
  state.set_solver_type("SGD");
  state.set_seed(uint64_t{1} << 63);
  state.add_recent_losses(0.25f);
  state.set_smoothed_loss(0.125);
  state.set_weights_crc32(0xDEADBEEF);
  state.set_step(1001);
  state.set_minimum_loss(0.5f);
  state.set_iter_last_event(7);
  LayerState* layer = state.add_layer_state();
  layer->set_layer("data");
  layer->set_position(64000);
  return state;
}

TEST(SolverState, RoundTripOfAllFields) {
  const TempDir folder;
  WriteSolverState(OurState(), folder.File("s"));
  EXPECT_EQ(ReadSolverState(folder.File("s")).SerializeAsString(), OurState().SerializeAsString());
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(SolverState, CaffesIsRead) {
  const TempDir folder;
  const std::string path = folder.Write("s", CaffesState().SerializeAsString());
  EXPECT_EQ(ReadSolverState(path).history_size(), 12);
}

TEST(SolverState, CaffesWithoutItsLastTwoBytesIsRefused) {
  const TempDir folder;
  const std::string bytes = CaffesState().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string path = folder.Write("cut", bytes.substr(0, size));
    const auto problems = ProblemsOf([&] { ReadSolverState(path); });
    ASSERT_EQ(problems.size(), 1u) << size << " of " << bytes.size();
    EXPECT_EQ(problems[0].code, ErrorCode::kDataLoss);
  }
}

TEST(SolverState, OursCutOrAlteredIsRefused) {
  const TempDir folder;
  WriteSolverState(OurState(), folder.File("s"));
  std::string bytes = folder.Read("s");
  const std::string cut = folder.Write("cut", bytes.substr(0, bytes.size() - 2));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadSolverState(cut); }), "is truncated"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  const std::string altered = folder.Write("altered", bytes);
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadSolverState(altered); }), "checksum"));
}

TEST(SolverState, WrongFilesAreNamed) {
  const TempDir folder;
  NetParameter net;
  net.set_name("n");
  net.add_layer()->set_name("conv");
  net.mutable_layer(0)->add_blobs()->add_data(1);
  const std::string weights = folder.Write("w", net.SerializeAsString());
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadSolverState(weights); }), "is a weights file"));
  const std::string text = folder.Write("t", "base_lr: 0.1 # a solver { }");
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadSolverState(text); }), "is a solver as text"));
}

#ifdef CREMA_HAVE_HDF5

TEST(SolverStateHdf5, RoundTripOfAllFields) {
  const TempDir folder;
  for (const SolverState& state : {CaffesState(), OurState()}) {
    WriteSolverStateHdf5(state, folder.File("s"));
    EXPECT_EQ(ReadSolverState(folder.File("s")).SerializeAsString(), state.SerializeAsString());
  }
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(SolverStateHdf5, FileOfAnotherPurposeIsNamed) {
  const TempDir folder;
  WriteSolverStateHdf5(CaffesState(), folder.File("s"));
  const std::string bytes = folder.Read("s");
  const std::string cut = folder.Write("cut", bytes.substr(0, bytes.size() / 2));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadSolverState(cut); }), "is damaged or truncated"));
}

#endif

}  // namespace
}  // namespace crema
