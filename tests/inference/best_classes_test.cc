#include <gtest/gtest.h>

#include <cmath>

#include "inference/classifier.h"

namespace crema {
namespace {

std::vector<int> IndicesOf(const std::vector<Prediction>& predictions) {
  std::vector<int> indices;
  for (const Prediction& prediction : predictions) indices.push_back(prediction.index);
  return indices;
}

TEST(BestFirst, OrdersScoresAndKeepsNanLast) {
  const std::vector<float> scores = {0.5F, std::nanf(""), 0.7F, 0.5F, std::nanf("")};
  EXPECT_EQ(IndicesOf(BestFirst(scores)), (std::vector<int>{2, 0, 3, 1, 4}));
  EXPECT_EQ(BestFirst(scores)[0].score, 0.7F);
}

TEST(BestFirst, GivesAsManyAsAreAskedForAndThere) {
  const std::vector<float> scores = {1, 3, 2};
  EXPECT_EQ(IndicesOf(BestFirst(scores, 2)), (std::vector<int>{1, 2}));
  EXPECT_EQ(BestFirst(scores, 9).size(), 3U);
  EXPECT_TRUE(BestFirst(scores, 0).empty());
  EXPECT_TRUE(BestFirst({}, 2).empty());
}

}  // namespace
}  // namespace crema
