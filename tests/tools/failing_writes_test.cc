// Commands when a call of the system that writes fails.
#include "support/failing_calls.h"
#if defined(CREMA_FAILING_CALLS) && defined(CREMA_HAVE_HDF5)
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "format/caffemodel.h"
#include "support/process.h"
#include "tools/convert_db.h"

namespace crema::test {
namespace {

class FailingWrites : public ConvertDb {
 protected:
  // Runs the command, which writes `output`, once for each call of these kinds that fails. Expects
  // an error and no output, each time.
  void ExpectNoOutput(const std::string& calls, const std::vector<std::string>& words,
                      const std::string& output) {
    FailingCalls failing(calls, EIO, temp_.path());
    std::vector<std::string> command = failing.Wrapper();
    command.insert(command.end(), words.begin(), words.end());
    const ProcessResult whole = RunProcess(command, temp_.path());
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    const int64_t all = failing.calls();
    ASSERT_GT(all, 0);
    for (int64_t at = 1; at <= all; ++at) {
      std::filesystem::remove_all(File(output));
      failing.Restart();
      failing.Fail(at, 1);
      const ProcessResult result = RunProcess(command, temp_.path());
      EXPECT_EQ(result.exit_code, 3) << calls << at << " of " << all << result.err;
      EXPECT_TRUE(Contains(result.err, "cannot be written")) << result.err;
      EXPECT_FALSE(std::filesystem::exists(File(output))) << calls << at << " of " << all;
    }
  }
};

// HDF5 writes a part of a file when it is closed.
TEST_F(FailingWrites, OfHdf5Sets) {
  WriteImages("db");
  ExpectNoOutput("w", {Bin("convert_db"), "--backend=hdf5", "db", "out"}, "out");
}

TEST_F(FailingWrites, OpeningTarShards) {
  WriteImages("db");
  ExpectNoOutput("o", {Bin("convert_db"), "--backend=tar", "db", "out"}, "out");
}

TEST_F(FailingWrites, OfFeatures) {
  WriteImages("db");
  const std::string net =
      "layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'db' batch_size: 2 } }";
  temp_.Write("net.prototxt", net);
  NetParameter weights;
  LayerParameter& layer = *weights.add_layer();
  layer.set_name("other");
  layer.add_blobs()->add_data(1);
  WriteCaffemodel(weights, File("net.caffemodel"));
  ExpectNoOutput("w",
                 {Bin("extract_features"), "--model=net.prototxt", "--weights=net.caffemodel",
                  "--blobs=data", "--outputs=y.h5"},
                 "y.h5");
}

}  // namespace
}  // namespace crema::test
#endif
