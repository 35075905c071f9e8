// Runs convert_db on small data sets. Needs HDF5.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/hdf5/hdf5_appender.h"
#include "data/layer_runner.h"
#include "data/records/hdf5_records.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema {

void RegisterData(Registry&);
void RegisterHDF5Data(Registry&);

namespace test {

class ConvertDb : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return temp_.File(name); }

  ProcessResult Run(const std::string& from, const std::string& to,
                    std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {File(from), File(to)});
    return RunTool("convert_db", flags);
  }
  void Convert(const std::string& from, const std::string& to,
               const std::vector<std::string>& flags = {}) {
    const ProcessResult result = Run(from, to, flags);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  // Expects this exit code, these words in the message, and no output.
  void ExpectFailure(const std::string& from, const std::vector<std::string>& flags, int exit_code,
                     const std::vector<std::string>& words) {
    const ProcessResult result = Run(from, "failed", flags);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    for (const std::string& word : words) EXPECT_TRUE(Contains(result.err, word)) << result.err;
    EXPECT_FALSE(std::filesystem::exists(File("failed"))) << result.err;
    EXPECT_FALSE(std::filesystem::exists(File("failed.unfinished")));
  }

  void WriteKeyed(const std::string& name, const Records& records) {
    const auto writer = CreateRecords(File(name), DataParameter::LMDB);
    for (const auto& [key, value] : records) writer->Put(key, value);
    writer->Close();
  }
  // Seven images of one size, raw.
  void WriteImages(const std::string& name, int channels = 3) {
    std::vector<Datum> datums;
    for (int i = 0; i < 7; ++i) datums.push_back(RawDatum(Pattern(4, 6, channels, 20 * i), i));
    WriteSet(File(name), datums);
  }
  void WriteHdf5(const std::string& name, const Shape& shape, const std::vector<float>& data,
                 const std::vector<double>& labels, int64_t labels_a_row = 1) {
    Hdf5Appender file(File(name));
    file.Append("data", {data.data(), shape, DType::kF32});
    if (labels.empty()) return;
    const Shape label_shape{static_cast<int64_t>(labels.size()) / labels_a_row, labels_a_row};
    file.Append("label", {labels.data(), label_shape, DType::kF64});
  }

  // Returns data and labels of a few batches of the layer that reads such sets.
  std::vector<std::vector<float>> Batches(const std::string& name) {
    Registry registry;
    RegisterData(registry);
    RegisterHDF5Data(registry);
    const bool hdf5 = LooksLikeHdf5Records(File(name));
    const std::string source = File(name) + (hdf5 ? "/list.txt" : "");
    testing::LayerRunner layer(
        registry, StrCat("name: 'd' type: '", hdf5 ? "HDF5Data" : "Data",
                         "' top: 'data' top: 'label' ", hdf5 ? "hdf5_data_param" : "data_param",
                         " { source: '", source, "' batch_size: 3 }"));
    std::vector<std::vector<float>> values(2);
    for (int n = 0; n < 5; ++n) {
      layer.Forward();
      for (size_t i = 0; i < 2; ++i) {
        const auto span = layer.outputs[i].view().span<float>();
        values[i].insert(values[i].end(), span.begin(), span.end());
      }
    }
    return values;
  }

  TempDir temp_;
};

}  // namespace test
}  // namespace crema
