// Folders of models: loading, replacing, refusing, unloading.
#include <atomic>
#include <thread>

#include "server/repository_fixture.h"

namespace crema::test {
namespace {

TEST_F(RepositoryTest, ServesTheNewestVersion) {
  Write("m", "1", "2");
  Write("m", "3", "5");
  const auto repository = Start();
  EXPECT_EQ(Ask(), 5);
  EXPECT_EQ(Ask(3), 5);
  EXPECT_EQ(Refusal(1), Cause::kNotFound);
  EXPECT_EQ(Refusal(0, "other"), Cause::kNotFound);
}

TEST_F(RepositoryTest, KeepsTheConfiguredNumberOfVersions) {
  for (const char* version : {"1", "2", "3"}) Write("m", version, version);
  RepositoryOptions options;
  options.keep_versions = 2;
  const auto repository = Start(options);
  EXPECT_EQ(table.ReadyVersions("m"), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(Ask(2), 2);
}

TEST_F(RepositoryTest, ANewVersionTakesOverAndTheOldOneGoes) {
  Write("m", "1", "2");
  const auto repository = Start();
  const std::weak_ptr<ModelVersion> old = table.Find("m", 1);
  Write("m", "2", "7");
  repository->Poll();
  EXPECT_EQ(Ask(), 7);
  table.Reap();
  EXPECT_TRUE(old.expired()) << "its memory is given back";
}

TEST_F(RepositoryTest, FilesThatAreReplacedAreLoadedAgain) {
  Write("m", "1", "2");
  const auto repository = Start();
  EXPECT_EQ(Ask(), 2);
  Write("m", "1", "9");
  repository->Poll();
  EXPECT_EQ(Ask(), 9);
}

TEST_F(RepositoryTest, ABadVersionLeavesTheOldOneServingAndShows) {
  Write("m", "1", "2");
  const auto repository = Start();
  Write("m", "2", "broken");
  repository->Poll();
  EXPECT_EQ(Ask(), 2);
  const std::vector<VersionStatus> rows = table.Status("m");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].state, VersionState::kReady);
  EXPECT_EQ(rows[1].state, VersionState::kUnavailable);
  EXPECT_EQ(rows[1].reason, "the file (a path) is truncated");
  const std::string text = metrics.Text();
  EXPECT_NE(text.find("crema_model_bad_versions{model=\"m\"} 1"), std::string::npos) << text;
  EXPECT_NE(text.find("crema_model_loads_total{model=\"m\",outcome=\"bad\"} 1"), std::string::npos);
  repository->Poll();
  EXPECT_NE(metrics.Text().find("outcome=\"bad\"} 1"), std::string::npos) << "not tried again";
  Write("m", "2", "4");
  repository->Poll();
  EXPECT_EQ(Ask(), 4);
}

TEST_F(RepositoryTest, ABadReplacementOfTheSameVersionLeavesItServing) {
  Write("m", "1", "2");
  const auto repository = Start();
  Write("m", "1", "broken");
  repository->Poll();
  EXPECT_EQ(Ask(), 2);
  EXPECT_EQ(table.Status("m")[0].state, VersionState::kReady);
  EXPECT_EQ(table.Status("m")[0].reason, "the file (a path) is truncated");
}

TEST_F(RepositoryTest, FilesThatMayStillBeCopiedAreLeftAlone) {
  Write("m", "1", "2");
  settles = true;
  RepositoryOptions options;
  options.settle = std::chrono::hours(1);
  options.first_wait = std::chrono::milliseconds(0);
  const auto repository = Start(options);
  EXPECT_EQ(Refusal(), Cause::kUnavailable);
  EXPECT_EQ(table.Status("m")[0].reason, "its files may still be being copied");
  EXPECT_EQ(log.Count("model m: version 1 is not loaded yet"), 1);
  repository->Poll();
  EXPECT_EQ(log.Count("model m: version 1 is not loaded yet"), 1) << "once";
  repository->Load("m");
  EXPECT_EQ(Ask(), 2) << "but for those that are asked for by name";
}

// A clock that was set back, or a file server whose clock is ahead.
TEST_F(RepositoryTest, FilesOfTheFutureAreServed) {
  Write("m", "1", "2");
  fs::last_write_time(folder.File("m/1/model.crema"),
                      fs::file_time_type::clock::now() + std::chrono::hours(1000));
  settles = true;
  RepositoryOptions options;
  options.settle = std::chrono::milliseconds(100);
  const auto repository = Start(options);
  EXPECT_EQ(Ask(), 2);
}

// A clock that is ahead of the times of files still being copied.
TEST_F(RepositoryTest, OldFilesAreLoadedWhenTheyStayTheSame) {
  settles = true;
  RepositoryOptions options;
  options.settle = std::chrono::milliseconds(1);
  const auto repository = Start(options);
  for (const char* factor : {"3", "44"}) {  // each of another size
    Write("m", "1", factor);
    fs::last_write_time(folder.File("m/1/model.crema"),
                        fs::file_time_type::clock::now() - std::chrono::hours(1000));
    repository->Poll();
    EXPECT_EQ(Refusal(), Cause::kUnavailable) << "the first look cannot know";
  }
  while (table.ReadyVersions("m").empty()) repository->Poll();
  EXPECT_EQ(Ask(), 44);
}

TEST_F(RepositoryTest, TheStartWaitsForFilesThatMayStillBeCopied) {
  Write("m", "1", "2");
  settles = true;
  RepositoryOptions options;
  options.settle = std::chrono::milliseconds(300);
  const auto repository = Start(options);
  EXPECT_EQ(Ask(), 2);
}

TEST_F(RepositoryTest, UnloadGivesTheModelBackUntilItIsLoadedAgain) {
  Write("m", "1", "2");
  const auto repository = Start();
  const std::weak_ptr<ModelVersion> loaded = table.Find("m", 1);
  repository->Unload("m");
  EXPECT_TRUE(loaded.expired());
  EXPECT_EQ(Refusal(), Cause::kUnavailable);
  repository->Poll();
  EXPECT_EQ(Refusal(), Cause::kUnavailable) << "the folder still has it";
  repository->Load("m");
  EXPECT_EQ(Ask(), 2);
  EXPECT_THROW(repository->Unload("other"), RequestError);
  EXPECT_THROW(repository->Load("other"), RequestError);
}

TEST_F(RepositoryTest, LoadSaysWhyItCannot) {
  Write("m", "1", "broken");
  const auto repository = Start();
  EXPECT_EQ(WhyNotLoaded(repository.get(), "m"),
            "model 'm' cannot be loaded; version 1: the file (a path) is truncated");
}

TEST_F(RepositoryTest, AModelThatIsRemovedIsForgotten) {
  Write("m", "1", "2");
  const auto repository = Start();
  fs::remove_all(folder.File("m"));
  repository->Poll();
  EXPECT_EQ(Refusal(), Cause::kNotFound);
  table.Reap();
  EXPECT_EQ(metrics.Text().find("model=\"m\""), std::string::npos) << "its series too";
}

TEST_F(RepositoryTest, LinksThatLeaveTheRepositoryAreRefused) {
  const TempDir outside;
  outside.Write("model.crema", "2");
  fs::create_directories(folder.File("m/1"));
  fs::create_symlink(outside.File("model.crema"), folder.File("m/1/model.crema"));
  fs::create_directories(outside.File("n/1"));
  outside.Write("n/1/model.crema", "2");
  fs::create_directory_symlink(outside.File("n"), folder.File("n"));
  fs::create_directories(folder.File("o"));
  fs::create_directory_symlink(outside.File("n/1"), folder.File("o/1"));
  const auto repository = Start();
  EXPECT_EQ(Refusal(), Cause::kUnavailable);
  EXPECT_EQ(table.Status("m")[0].reason, "model.crema is a link that leads out of the repository");
  EXPECT_EQ(Refusal(0, "n"), Cause::kNotFound);
  EXPECT_EQ(Refusal(0, "o"), Cause::kUnavailable);
}

TEST_F(RepositoryTest, LinksWithinTheRepositoryAreFollowed) {
  Write("m", "1", "2");
  fs::create_directories(folder.File("n/1"));
  fs::create_symlink("../../m/1/model.crema", folder.File("n/1/model.crema"));
  const auto repository = Start();
  EXPECT_EQ(Ask(0, "n"), 2);
}

TEST_F(RepositoryTest, OtherNamesArePassedOver) {
  for (const char* name : {"a b", ".hidden", "x%41"}) Write(name, "1", "2");
  for (const char* version : {"0", "01", "-1", "v1", "9223372036854775808"}) {
    Write("m", version, "2");
  }
  const auto repository = Start();
  EXPECT_TRUE(table.Status().empty());
}

TEST_F(RepositoryTest, NamesDoNotSplitLinesOfTheLog) {
  Write("a\nE1123 forged", "1", "2");
  Write("m\n", "1", "2");
  fs::create_directories(folder.File("n/1"));
  fs::create_symlink("../../m\n/1/model.crema", folder.File("n/1/model.crema"));
  const auto repository = Start();
  EXPECT_EQ(log.Count("\n"), 0);
  EXPECT_EQ(log.Count("a\\x0aE1123 forged is no name of a model"), 1);
  EXPECT_EQ(table.Status("n")[0].reason, "model.crema is a link to a name with control characters");
}

TEST_F(RepositoryTest, AMissingFolderIsAnError) {
  RepositoryOptions options;
  options.path = folder.File("missing");
  Repository repository(options, nullptr, table, log);
  EXPECT_THROW(repository.Start(), Error);
}

// Continuous requests during version changes: one of the versions answers each.
TEST_F(RepositoryTest, NoRequestFailsWhileVersionsAreSwapped) {
  Write("m", "1", "1");
  const auto repository = Start();
  std::atomic<bool> end{false};
  std::atomic<int> wrong{0};
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!end) {
        const float answer = Ask();
        if (answer < 1 || answer > 30) ++wrong;
        ++answered;
      }
    });
  }
  for (int version = 2; version <= 30; ++version) {
    Write("m", std::to_string(version), std::to_string(version));
    repository->Poll();
    table.Reap();
  }
  end = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(answered, 0);
  EXPECT_EQ(Ask(), 30);
}

}  // namespace
}  // namespace crema::test
