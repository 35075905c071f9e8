// Requests truncated at each byte, or with flipped bits: refused or accepted without a crash.
#include <gtest/gtest.h>

#include "core/rng.h"
#include "server/fuzz_server.h"

namespace crema::test {
namespace {

using Target = std::string (*)(std::string_view);

void TurnOver(Target target, const std::string& whole, int times) {
  const RandomStream random(7, whole.size());
  for (int i = 0; i < times; ++i) {
    std::string bytes = whole;
    for (int k = 0; k < 2; ++k) {
      const auto draw = static_cast<uint64_t>(4 * i + 2 * k);
      const uint32_t at = random.Below(draw, static_cast<uint32_t>(bytes.size()));
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Below(draw + 1, 8)));
    }
    ASSERT_NO_THROW(target(bytes)) << bytes;
  }
}

TEST(ServerFuzz, GoodRequestsAreAccepted) {
  EXPECT_EQ(TryHttpHead(ServerCorpus("httphead")[0]), "");
  EXPECT_EQ(TryHttpBody(ServerCorpus("httpbody")[0]), "");
  EXPECT_EQ(TryMultipart(ServerCorpus("multipart")[0]), "");
  EXPECT_EQ(TryInfer(ServerCorpus("infer")[0]), "");
  EXPECT_EQ(TryInfer(ServerCorpus("infer")[1]), "");
#ifdef CREMA_HAVE_OPENCV
  EXPECT_EQ(TryInfer(ServerCorpus("infer")[2]), "") << "images";
#endif
}

TEST(ServerFuzz, BrokenFormsBreakNothing) {
  for (const std::string& whole : ServerCorpus("multipart")) {
    ASSERT_NO_THROW(TryMultipart(whole)) << whole;
    TurnOver(TryMultipart, whole, 2000);
    const size_t body = whole.find('\n') + 1;
    for (size_t cut = body; cut < whole.size(); ++cut) {
      EXPECT_NE(TryMultipart(whole.substr(0, cut)), "") << cut;
    }
  }
}

TEST(ServerFuzz, BrokenRequestsBreakNothing) {
  for (const auto& [name, target] : {std::pair{"httphead", Target(TryHttpHead)},
                                     {"httpbody", Target(TryHttpBody)},
                                     {"infer", Target(TryInfer)}}) {
    const std::vector<std::string> corpus = ServerCorpus(name);
    EXPECT_GT(corpus.size(), 100U);
    for (const std::string& whole : corpus) {
      ASSERT_NO_THROW(target(whole)) << whole;
      if (whole.size() > 2 && whole.size() < 1000) TurnOver(target, whole, 50);
    }
    for (size_t cut = 0; cut < corpus[0].size(); ++cut) {
      EXPECT_NE(target(corpus[0].substr(0, cut)), "") << cut;
    }
  }
}

}  // namespace
}  // namespace crema::test
