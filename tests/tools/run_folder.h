// A folder with a small run (nets, solver, data sets), to be damaged by tests of commands.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/lmdb.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema::test {

// Four classes of 1x6x6 images; image n is of class n % 4 and has the key "0000000n".
class RunFolder : public ::testing::Test {
 protected:
  static constexpr int kClasses = 4;

  void SetUp() override {
    WriteLmdb("train_lmdb", 32);
    WriteLmdb("test_lmdb", 16);
    temp_.Write("net.prototxt", R"(name: "small"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { scale: 0.00390625 }
  data_param { source: "train_lmdb" batch_size: 8 backend: LMDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
  transform_param { scale: 0.00390625 }
  data_param { source: "test_lmdb" batch_size: 8 backend: LMDB } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
)");
    temp_.Write("solver.prototxt", R"(net: "net.prototxt"
base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005
max_iter: 8 random_seed: 1 solver_mode: CPU
test_iter: 2 test_interval: 4
snapshot: 4 snapshot_prefix: "snap" snapshot_format: BINARYPROTO
)");
  }

  static std::string Key(int n) { return StrCat("0000000", n).substr(StrCat(n).size() - 1); }

  static Datum Image(int label) {
    Datum datum;
    datum.set_channels(1);
    datum.set_height(6);
    datum.set_width(6);
    datum.set_label(label);
    datum.set_data(std::string(36, static_cast<char>(20 * label)));
    return datum;
  }

  // Replaces the set; record `odd` holds `bytes`, if given.
  void WriteLmdb(const std::string& name, int count, int odd = -1, const std::string& bytes = "") {
    std::filesystem::remove_all(temp_.File(name));
    LmdbWriter writer(temp_.File(name));
    for (int i = 0; i < count; ++i) {
      writer.Put(Key(i), i == odd ? bytes : Image(i % kClasses).SerializeAsString());
    }
    writer.Close();
  }

  // Replaces text in one of the files.
  void Edit(const std::string& name, const std::string& from, const std::string& to) {
    std::string text = temp_.Read(name);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    temp_.Write(name, text.replace(at, from.size(), to));
  }

  // Both nets read `source`, the text of a layer's type and parameters, instead of the LMDBs.
  void ReplaceData(const std::string& source) {
    std::string text = temp_.Read("net.prototxt");
    const size_t begin = text.find("layer { name: \"data\"");
    const size_t end = text.find("layer { name: \"ip1\"");
    text.replace(begin, end - begin,
                 StrCat("layer { name: \"data\" top: \"data\" top: \"label\" ", source, " }\n"));
    temp_.Write("net.prototxt", text);
  }

  ProcessResult Run(const std::string& command, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {Bin(command), "--threads=1"});
    return RunProcess(flags, temp_.path());
  }

  TempDir temp_;
};

}  // namespace crema::test
