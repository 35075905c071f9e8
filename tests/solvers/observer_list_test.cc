#include <gtest/gtest.h>

#include "core/strings.h"
#include "solvers/training_observer.h"

namespace crema {
namespace {

// Records every event with the name of the observer.
class Listener final : public TrainingObserver {
 public:
  Listener(std::string name, std::vector<std::string>* heard) : name_(name), heard_(heard) {}

  void OnStart(const std::string& net, int64_t i) override { Note("start ", net, " ", i); }
  void OnIteration(const IterationReport& r) override { Note("iteration ", r.iteration); }
  void OnTestStart(int64_t i, size_t net) override { Note("test start ", i, " ", net); }
  void OnTest(const TestReport& r) override { Note("test ", r.iteration); }
  void OnSnapshot(const std::string& m, const std::string& s) override {
    Note("snapshot ", m, " ", s);
  }
  void OnBest(const std::string& m, const std::string& metric, double value) override {
    Note("best ", m, " ", metric, " ", value);
  }
  void OnFinalLoss(int64_t i, double loss) override { Note("final ", i, " ", loss); }
  void OnEnd(bool early) override { Note("end ", early ? "early" : "done"); }

 private:
  template <typename... Args>
  void Note(const Args&... args) {
    heard_->push_back(StrCat(name_, ": ", args...));
  }
  std::string name_;
  std::vector<std::string>* heard_;
};

TEST(ObserverList, PassesEveryEventToAllInTheirOrder) {
  std::vector<std::string> heard;
  Listener a("a", &heard);
  Listener b("b", &heard);
  Listener c("c", &heard);
  ObserverList list;
  EXPECT_TRUE(list.empty());
  list.OnEnd(false);  // without observers
  list.Add(a);
  list.Add(b);
  list.Add(c);
  list.OnStart("net", 1);
  list.OnIteration({.iteration = 2, .outputs = {}});
  list.OnTestStart(3, 4);
  list.OnTest({.iteration = 5, .outputs = {}});
  list.OnSnapshot("m", "s");
  list.OnBest("m", "test#0:accuracy", 0.5);
  list.OnFinalLoss(6, 0.25);
  list.OnEnd(true);
  std::vector<std::string> expected;
  for (const char* event :
       {"start net 1", "iteration 2", "test start 3 4", "test 5", "snapshot m s",
        "best m test#0:accuracy 0.5", "final 6 0.25", "end early"}) {
    for (const char* name : {"a", "b", "c"}) expected.push_back(StrCat(name, ": ", event));
  }
  EXPECT_EQ(heard, expected);
}

}  // namespace
}  // namespace crema
