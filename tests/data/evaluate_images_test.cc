#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <string>

#include "core/strings.h"
#include "data/image_files.h"
#include "runtime/evaluate.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

// Five images of one value each, two per batch: the mean is over samples, not over batches.
std::string FlatImages(const test::TempDir& temp) {
  std::string list;
  for (int value : {0, 10, 20, 30, 90}) {
    const std::string path =
        temp.Write(StrCat(value, ".png"), testing::Encode(testing::Flat(4, 5, value)));
    list += StrCat(path, " 0\n");
  }
  return temp.Write("list.txt", list);
}

TEST(Evaluate, ThePartialLastBatchOfImagesIsWeightedByItsSamples) {
  const test::TempDir temp;
  const NetFile net =
      ParseNet(StrCat("layer { name: 'd' type: 'ImageData' top: 'data' top: 'label'",
                      "  image_data_param { source: '", FlatImages(temp), "' batch_size: 2 } }",
                      "layer { name: 'm' type: 'Reduction' bottom: 'data' top: 'mean'",
                      "  reduction_param { operation: MEAN } }"),
               "net.prototxt");
  const Evaluation result = Evaluate(net, WeightsFiles{}, test::TestRegistry(), {});
  EXPECT_EQ(result.samples, 5);
  EXPECT_EQ(result.batches, 3);
  ASSERT_EQ(result.outputs.size(), 1U);
  EXPECT_DOUBLE_EQ(result.outputs[0].mean, 30);
}

}  // namespace
}  // namespace crema
#endif
