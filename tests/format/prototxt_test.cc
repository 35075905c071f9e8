// Reads net and solver files, and describes wrong files.
#include "format/prototxt.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "format/sniff.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;
using test::ProblemsOf;
using test::TempDir;

std::string NetError(const std::string& text) {
  return ErrorOf([&] { ParseNet(text, "n.prototxt"); });
}

std::string SolverError(const std::string& text) {
  return ErrorOf([&] { ParseSolver(text, "s.prototxt"); });
}

TEST(NetFile, ThrowsAllProblemsAtOnce) {
  const auto problems =
      ProblemsOf([] { ParseNet("nam: 1\nlayer { typ: 2 }\nlayer { tops: 3 }", "n"); });
  ASSERT_EQ(problems.size(), 3u);
  for (const Problem& problem : problems) EXPECT_EQ(problem.code, ErrorCode::kInvalidArgument);
}

TEST(NetFile, VeryManyProblemsAreCounted) {
  std::string text = "layer { }\n";
  for (int i = 0; i < 250; ++i) text += "foo_bar_baz: 1\n";
  const auto problems = ProblemsOf([&] { ParseNet(text, "n"); });
  ASSERT_EQ(problems.size(), 101u);
  EXPECT_EQ(problems.back().message, "and 150 more problems");
}

TEST(NetFile, MissingFileNamesASimilarOne) {
  const TempDir folder;
  folder.Write("train_val.prototxt", "name: 'n'");
  const auto problems = ProblemsOf([&] { ReadNet(folder.File("train_vall.prototxt")); });
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code, ErrorCode::kNotFound);
  EXPECT_TRUE(Contains(problems[0].message, "(did you mean '" + folder.File("train_val.prototxt")));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadNet(folder.File("no/net.prototxt")); }),
                       "the folder '" + folder.File("no") + "' does not exist"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadNet(folder.path()); }), "is a folder"));
}

TEST(NetFile, WrongKindsOfFileAreNamed) {
  EXPECT_TRUE(Contains(NetError(""), "is empty; expected a net"));
  EXPECT_TRUE(Contains(NetError(" \n\t\n"), "is empty"));
  EXPECT_TRUE(Contains(NetError("# only\n# comments"), "nothing but comments"));
  EXPECT_TRUE(Contains(NetError("\n<!DOCTYPE html>\n<html></html>"), "is an HTML page"));
  EXPECT_TRUE(Contains(NetError("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
                       "git lfs pull"));
  EXPECT_TRUE(Contains(NetError("\x89HDF\r\n\x1A\n" + std::string(9, '\0')), "is an HDF5 file"));
  EXPECT_TRUE(Contains(NetError("\x1F\x8B\x08" + std::string(9, '\0')), "unpack it first"));
  EXPECT_TRUE(Contains(NetError("\xFF\xFEn\x01"), "UTF-16"));
  EXPECT_TRUE(Contains(NetError(std::string(kCremaMagic)),
                       "is a model of deploy export, not a net: deploy and serve take it"));
  EXPECT_TRUE(Contains(NetError(std::string("\x01\0\x02", 3)), "binary file of another kind"));
}

TEST(NetFile, BinaryWeightsGivenAsText) {
  NetParameter net;
  LayerParameter* layer = net.add_layer();
  layer->set_name("ip");
  layer->add_blobs()->add_data(1);
  EXPECT_TRUE(Contains(NetError(net.SerializeAsString()), "is a binary weights file (caffemodel)"));
}

TEST(NetFile, SolverGivenAsNetAndNetGivenAsSolver) {
  const std::string solver = "net: \"a.prototxt\"\nbase_lr: 0.1\nlr_polici: \"fixed\"\n";
  EXPECT_TRUE(Contains(NetError(solver), "is a solver file, not a net"));
  EXPECT_TRUE(Contains(NetError(solver), "'a.prototxt'"));
  EXPECT_TRUE(Contains(SolverError("name: \"n\"\nlayer { name: \"a\" typ: 1 }\n"),
                       "is a net, not a solver"));
  EXPECT_TRUE(Contains(SolverError(solver),
                       "3:1: unknown field 'lr_polici' (did you mean "
                       "'lr_policy'?)"));
}

TEST(NetFile, IsUpgraded) {
  const NetFile file = ParseNet("layers { name: 'r' type: RELU bottom: 'x' top: 'y' }", "n");
  EXPECT_EQ(file.net.layers_size(), 0);
  EXPECT_EQ(file.net.layer(0).type(), "ReLU");
}

TEST(SolverFile, OldTypeBecomesNew) {
  const SolverFile file = ParseSolver("base_lr: 1\nsolver_type: ADAGRAD", "s");
  EXPECT_EQ(file.solver.type(), "AdaGrad");
  EXPECT_FALSE(file.solver.has_solver_type());
  EXPECT_EQ(file.source.Locate("type").line, 2);
  EXPECT_EQ(SolverError("type: 'SGD'\nsolver_type: SGD"),
            "s.prototxt:2:1: 'solver_type' and 'type' are both set; remove the old 'solver_type'");
}

TEST(SolverFile, SnapshotPrefixComesFromTheFileOrTheFolder) {
  const TempDir folder;
  const std::string plain = folder.Write("lenet_solver.prototxt", "base_lr: 1");
  EXPECT_EQ(ReadSolver(plain).solver.snapshot_prefix(), folder.File("lenet_solver"));
  const std::string empty = folder.Write("c.prototxt", "snapshot_prefix: \"\"");
  EXPECT_EQ(ReadSolver(empty).solver.snapshot_prefix(), folder.File("c"));
  const std::string in_folder =
      folder.Write("a.prototxt", "snapshot_prefix: \"" + folder.path() + "\"");
  EXPECT_EQ(ReadSolver(in_folder).solver.snapshot_prefix(), folder.path() + "/a");
  const std::string given = folder.Write("b.prototxt", "snapshot_prefix: \"x/y\"");
  EXPECT_EQ(ReadSolver(given).solver.snapshot_prefix(), "x/y");
  EXPECT_FALSE(ParseSolver("base_lr: 1", "s").solver.has_snapshot_prefix());
}

TEST(SolverFile, NetsInsideStayAsTheyAre) {
  const SolverFile file = ParseSolver("net_param { layers { type: RELU } }", "s");
  EXPECT_EQ(file.solver.net_param().layers_size(), 1);
}

}  // namespace
}  // namespace crema
