// Files of tokens: who may read them, and what happens when they change.
#include "server/secret.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "server/repository_fixture.h"
#include "server/running_server.h"

namespace crema::test {
namespace {

using server::TokenSet;

constexpr const char* kOld = "the-token-of-yesterday";
constexpr const char* kNew = "the-token-of-tomorrow";

TEST(Secrets, AFileThatEverybodyReadsOrWritesIsRefused) {
  const TempDir folder;
  const std::string file = WriteSecret(folder, "t", kOld);
  EXPECT_FALSE(TokenSet::FromFile(file).empty());
  using fs::perms;
  for (const perms good : {perms::group_read, perms::group_all}) {
    fs::permissions(file, perms::owner_read | good);
    EXPECT_FALSE(TokenSet::FromFile(file).empty());
  }
  for (const perms bad : {perms::others_read, perms::others_write}) {
    fs::permissions(file, perms::owner_read | bad);
    try {
      TokenSet::FromFile(file);
      FAIL() << "it is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("chmod 600"), std::string::npos) << error.what();
    }
  }
}

// Like a volume of Kubernetes: a link is redirected to other files.
TEST(Secrets, TokensAreReadAgain) {
  const TempDir folder;
  fs::create_directory(folder.File("1"));
  fs::create_directory(folder.File("2"));
  fs::create_directory(folder.File("3"));
  WriteSecret(folder, "1/t", kOld);
  WriteSecret(folder, "2/t", kNew);
  WriteSecret(folder, "3/t", "short");
  const auto lead_to = [&](const char* where) {
    fs::create_directory_symlink(where, folder.File("next"));
    fs::rename(folder.File("next"), folder.File("now"));
  };
  lead_to("1");
  CountingLog log;
  server::ServerOptions options = TestOptions();
  options.file_poll = std::chrono::milliseconds(5);
  options.inference_token_file = folder.File("now/t");
  options.inference_tokens = TokenSet::FromFile(options.inference_token_file);
  server::Server server(options, log);
  server.ServeModel("m", std::make_shared<const FakeModel>(), {});
  const auto status = [&](const char* token) {
    return Get(server.http_port(), "/v2/models/m", StrCat("Authorization: Bearer ", token, "\r\n"))
        .status;
  };
  const auto await = [&](const std::string& part) {
    while (log.Count(part) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  EXPECT_EQ(status(kOld), 200);
  EXPECT_EQ(status(kNew), 401);
  lead_to("2");
  await("read again");
  EXPECT_EQ(status(kOld), 401);
  EXPECT_EQ(status(kNew), 200);
  lead_to("3");
  await("the version read before stays in use");
  EXPECT_EQ(status(kNew), 200);
  EXPECT_EQ(log.Count("short"), 0) << "no token is in the log";
}

}  // namespace
}  // namespace crema::test
