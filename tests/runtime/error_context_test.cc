// Errors about a sample contain its name in the data set.
#include "runtime/error_context.h"

#include <gtest/gtest.h>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/lmdb.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;

// Labels 0, 1, 2, ... under the keys "k0", "k1", ...
std::string WriteSet(const TempDir& temp, int records) {
  const std::string path = temp.File("set");
  LmdbWriter writer(path);
  for (int i = 0; i < records; ++i) {
    Datum datum;
    datum.set_channels(1);
    datum.set_height(1);
    datum.set_width(2);
    datum.set_label(i);
    datum.set_data("ab");
    writer.Put(StrCat("k", i), datum.SerializeAsString());
  }
  writer.Close();
  return path;
}

std::string ForwardError(const std::string& text) {
  const auto plan = test::PlanText(text);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  try {
    session.Forward();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void ExpectContains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

class ErrorContext : public ::testing::Test {
 protected:
  std::string Data(int records, int batch) const {
    return StrCat(
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '",
        WriteSet(temp_, records), "' batch_size: ", batch, " } } ");
  }
  TempDir temp_;
};

constexpr char kScores[] =
    "layer { name: 'fc8' type: 'InnerProduct' bottom: 'data' top: 'fc8' "
    "inner_product_param { num_output: 3 } } ";

TEST_F(ErrorContext, LabelsAreNamedByTheirKey) {
  ExpectContains(ForwardError(Data(4, 4) + kScores +
                              "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc8' "
                              "bottom: 'label' top: 'loss' }"),
                 "layer \"loss\": label 3 at sample 'k3' but \"fc8\" has 3 outputs (labels 0..2; "
                 "does your set start at 1?)");
}

TEST_F(ErrorContext, LabelsComeThroughSplitsAndOtherLayers) {
  ExpectContains(
      ForwardError(Data(4, 4) + kScores +
                   "layer { name: 'more' type: 'Power' bottom: 'label' top: 'more' "
                   "power_param { shift: 5 } } "
                   "layer { name: 'other' type: 'Silence' bottom: 'label' } "
                   "layer { name: 'loss' type: 'HingeLoss' bottom: 'fc8' "
                   "bottom: 'more' top: 'loss' }"),
      "label 5 at sample 'k0' but \"fc8\" has 3 outputs (labels 0..2; correct the label, or use "
      "more outputs (num_output))");
}

TEST_F(ErrorContext, IndicesAreNamedToo) {
  ExpectContains(
      ForwardError(Data(4, 4) + "layer { name: 'ids' type: 'Embed' bottom: 'label' top: 'ids' "
                                "embed_param { input_dim: 2 num_output: 1 } } "
                                "layer { name: 's' type: 'Silence' bottom: 'data' }"),
      "index 2 at element 2 of \"label\" (sample 'k2') is outside 0..1");
}

TEST_F(ErrorContext, AnotherSourceOfAsManySamplesHasTheName) {
  ExpectContains(
      ForwardError(Data(4, 4) + kScores +
                   "layer { name: 'target' type: 'DummyData' top: 't' dummy_data_param { "
                   "shape { dim: 4 } data_filler { type: 'constant' value: 3 } } } "
                   "layer { name: 's' type: 'Silence' bottom: 'label' } "
                   "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc8' bottom: 't' }"),
      "label 3 at sample 'k0' but");
}

TEST_F(ErrorContext, WithoutANameTheIndexIsGiven) {
  const std::string dummy =
      "layer { name: 'd' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { "
      "shape { dim: 4 dim: 2 } shape { dim: 4 } data_filler { type: 'constant' } "
      "data_filler { type: 'constant' value: 3 } } } ";
  ExpectContains(ForwardError(dummy + kScores +
                              "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc8' "
                              "bottom: 'label' }"),
                 "label 3 at sample 0 of the batch but");
  // Rows that are not the samples of the batch have no name either.
  ExpectContains(ForwardError(Data(4, 4) +
                              "layer { name: 'flat' type: 'Reshape' bottom: 'data' top: 'flat' "
                              "reshape_param { shape { dim: 8 dim: 1 } } } "
                              "layer { name: 'two' type: 'Concat' bottom: 'label' bottom: 'label' "
                              "top: 'two' concat_param { axis: 0 } } "
                              "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'flat' "
                              "bottom: 'two' }"),
                 "label 1 at sample 1 of the batch but \"flat\" has 1 outputs");
}

}  // namespace
}  // namespace crema
