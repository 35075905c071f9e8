#include "format/seal.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;
using test::ProblemsOf;

std::string Body() {
  NetParameter net;
  net.set_name("net");
  LayerParameter* layer = net.add_layer();
  layer->set_name("ip");
  for (int i = 0; i < 10; ++i) layer->add_blobs()->add_data(static_cast<float>(i));
  return net.SerializeAsString();
}

bool IsRefused(const std::string& bytes) {
  const auto problems = ProblemsOf([&] { Unseal(bytes, "f"); });
  return problems.size() == 1 && problems[0].code == ErrorCode::kDataLoss;
}

TEST(Seal, SealedFileIsOneMessageWithTheTwoFields) {
  const std::string sealed = Seal(Body());
  NetParameter net;
  ASSERT_TRUE(net.ParseFromString(sealed));
  EXPECT_EQ(net.layer(0).blobs_size(), 10);
  EXPECT_EQ(net.seal_head().length(), Body().size());
  EXPECT_EQ(net.seal_head().crc32(), Crc32(Body()));
  EXPECT_EQ(net.seal_tail().SerializeAsString(), net.seal_head().SerializeAsString());
  EXPECT_EQ(sealed.size(), Body().size() + 2 * kSealBytes);
}

TEST(Seal, ChecksumIsTheUsualOne) { EXPECT_EQ(Crc32("123456789"), 0xCBF43926u); }

TEST(Seal, GivesTheBodyBack) {
  const std::string sealed = Seal(Body());
  EXPECT_EQ(Unseal(sealed, "f"), Body());
  EXPECT_EQ(Unseal(Seal(""), "f"), "");
}

TEST(Seal, FileOfCaffeComesBackWhole) { EXPECT_EQ(Unseal(Body(), "f"), Body()); }

TEST(Seal, EveryTruncationIsFound) {
  const std::string sealed = Seal(Body());
  for (size_t size = 1; size < sealed.size(); ++size) {
    EXPECT_TRUE(IsRefused(sealed.substr(0, size))) << size;
  }
  EXPECT_TRUE(Contains(ErrorOf([&] { Unseal(sealed.substr(0, 40), "f"); }),
                       "f: is truncated: it has 40 bytes of " + std::to_string(sealed.size())));
}

TEST(Seal, EveryFlippedBitIsFound) {
  const std::string sealed = Seal(Body());
  for (size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    std::string damaged = sealed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(IsRefused(damaged)) << bit;
  }
}

TEST(Seal, MissingStartAndAddedBytesAreFound) {
  const std::string sealed = Seal(Body());
  EXPECT_TRUE(IsRefused(sealed.substr(1)));
  EXPECT_TRUE(IsRefused(sealed.substr(kSealBytes)));
  EXPECT_TRUE(IsRefused(sealed + "x"));
  EXPECT_TRUE(IsRefused(sealed + sealed));
}

TEST(Seal, FileRewrittenByAnotherProgramIsTakenAsItsOwn) {
  // The program keeps the seals as unknown fields and writes them at the end.
  const SealParts seal = SealOf(Body());
  const std::string changed = "\x0A\x03new" + Body();
  EXPECT_EQ(Unseal(changed + seal.head + seal.tail, "f"), changed);
}

}  // namespace
}  // namespace crema
