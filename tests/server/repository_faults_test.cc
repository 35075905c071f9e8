// Faults of model folders, and recovery from them.
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "server/repository_fixture.h"

namespace crema::test {
namespace {

// The series are removed with their last user, not with the first.
TEST_F(RepositoryTest, AModelThatComesBackWhileItIsStillUsedKeepsItsSeries) {
  Write("m", "1", "2");
  const auto repository = Start();
  std::shared_ptr<ModelVersion> held = table.Find("m", 1);
  fs::rename(folder.File("m"), folder.File(".away"));
  repository->Poll();
  EXPECT_NE(metrics.Text().find("crema_model_version{model=\"m\"} 0"), std::string::npos);
  fs::rename(folder.File(".away"), folder.File("m"));
  repository->Poll();
  held.reset();
  EXPECT_EQ(table.Reap(), 0U);
  EXPECT_EQ(Ask(), 2);
  EXPECT_NE(metrics.Text().find("crema_inferences_total{model=\"m\"} 1"), std::string::npos)
      << metrics.Text();
}

// While it exists, no further file can be opened.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST_F(RepositoryTest, AFolderThatCannotBeListedChangesNothing) {
  Write("m", "1", "2");
  const auto repository = Start();
  {
    const NoDescriptors none;
    repository->Poll();
    repository->Poll();
  }
  EXPECT_EQ(Ask(), 2);
  EXPECT_EQ(log.Count("cannot be listed"), 1) << "told once";
  Write("m", "2", "3");
  repository->Poll();
  EXPECT_EQ(Ask(), 3);
}

TEST_F(RepositoryTest, FoldersWithoutPermissionChangeNothing) {
  if (geteuid() == 0) GTEST_SKIP() << "everything is permitted to root";
  Write("m", "1", "2");
  Write("n", "1", "3");
  const auto repository = Start();
  for (const char* closed : {"m", "m/1"}) {
    fs::permissions(folder.File(closed), fs::perms::none);
    Write("n", "1", "4");
    repository->Poll();
    EXPECT_EQ(Ask(), 2) << closed;
    EXPECT_EQ(Ask(0, "n"), 4) << "others go on";
    fs::permissions(folder.File(closed), fs::perms::owner_all);
    Write("n", "1", "3");
    repository->Poll();
    EXPECT_EQ(Ask(0, "n"), 3);
  }
}

TEST_F(RepositoryTest, LoadSaysThatTheNewestVersionIsBroken) {
  Write("m", "1", "2");
  Write("m", "2", "broken");
  const auto repository = Start();
  EXPECT_EQ(WhyNotLoaded(repository.get(), "m"),
            "model 'm' cannot be loaded; version 2: the file (a path) is truncated; version 1 "
            "answers");
  EXPECT_EQ(Ask(), 2);
}

TEST_F(RepositoryTest, AnUnloadedModelIsNoBadOneAndGoesWithItsFolder) {
  Write("m", "1", "2");
  const auto repository = Start();
  repository->Unload("m");
  EXPECT_NE(metrics.Text().find("crema_model_bad_versions{model=\"m\"} 0"), std::string::npos);
  fs::rename(folder.File("m"), folder.File(".away"));
  repository->Poll();
  EXPECT_TRUE(table.Status().empty());
  EXPECT_EQ(metrics.Text().find("model=\"m\""), std::string::npos);
  fs::rename(folder.File(".away"), folder.File("m"));
  repository->Poll();
  EXPECT_EQ(Refusal(), Cause::kUnavailable) << "it stays unloaded";
  ASSERT_EQ(table.Status().size(), 1U);
  EXPECT_EQ(table.Status()[0].reason, "unloaded");
}

TEST_F(RepositoryTest, AFolderWithoutAModelShowsWhy) {
  fs::create_directories(folder.File("m/1"));
  const auto repository = Start();
  ASSERT_EQ(table.Status("m").size(), 1U);
  EXPECT_EQ(table.Status("m")[0].reason,
            "neither model.crema nor model.onnx, model.prototxt with model.caffemodel, nor "
            "cascade.txt is "
            "there");
}

TEST_F(RepositoryTest, PassingFailuresAreTriedAgain) {
  Write("m", "1", "no memory");
  RepositoryOptions options;
  options.first_retry = std::chrono::milliseconds(20);
  const auto repository = Start(options);
  EXPECT_EQ(Refusal(), Cause::kUnavailable);
  EXPECT_EQ(table.Status("m")[0].reason, "out of memory");
  memory = true;
  repository->Poll();
  EXPECT_EQ(Refusal(), Cause::kUnavailable) << "not at once";
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  repository->Poll();
  EXPECT_EQ(Ask(), 1);
}

}  // namespace
}  // namespace crema::test
