// Waiting requests are batched.
#include "server/batching/batcher.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "server/fake_model.h"
#include "server/request_error.h"

namespace crema::test {
namespace {

using namespace server;
using namespace std::chrono_literals;

InferRequest RequestOf(const std::vector<float>& first_values) {
  InferRequest request;
  InputTensor input;
  input.name = "x";
  input.shape = Shape{static_cast<int64_t>(first_values.size()), 4};
  for (const float value : first_values) {
    input.values.insert(input.values.end(), {value, 1, 1, 1});
  }
  request.inputs.push_back(std::move(input));
  return request;
}

std::future<InferOutcome> Submit(Batcher& batcher, InferRequest request) {
  const int64_t samples = request.inputs[0].shape[0];
  auto promise = std::make_shared<std::promise<InferOutcome>>();
  std::future<InferOutcome> future = promise->get_future();
  batcher.Submit(std::move(request), samples,
                 [promise](InferOutcome outcome) { promise->set_value(std::move(outcome)); });
  return future;
}

Cause CauseOf(const InferOutcome& outcome) { return outcome.failure->cause(); }

// A model that blocks in its first run, and the request that runs.
class HeldUp {
 public:
  explicit HeldUp(BatcherOptions options, bool batches = true) {
    FakeModelOptions fake;
    fake.gate = gate;
    fake.batches = batches;
    model = std::make_shared<const FakeModel>(fake);
    batcher = std::make_unique<Batcher>(model, options);
    gate->Close();
    first = Submit(*batcher, RequestOf({1}));
    gate->AwaitWaiting(1);
    model->Forget();
  }
  ~HeldUp() { gate->Open(); }

  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::shared_ptr<const FakeModel> model;
  std::unique_ptr<Batcher> batcher;
  std::future<InferOutcome> first;
};

TEST(Batcher, AnswersOneRequestWithItsValues) {
  Batcher batcher(std::make_shared<const FakeModel>(), {});
  const InferOutcome outcome = Submit(batcher, RequestOf({5, 7})).get();
  ASSERT_FALSE(outcome.failure);
  ASSERT_EQ(outcome.outputs.size(), 2U);
  EXPECT_EQ(outcome.outputs[0].shape, (Shape{2, 4}));
  EXPECT_EQ(outcome.outputs[0].values, (std::vector<float>{10, 2, 2, 2, 14, 2, 2, 2}));
  EXPECT_EQ(outcome.outputs[1].values, (std::vector<float>{8, 10}));
}

TEST(Batcher, WarmsAllPowersOfTwo) {
  const auto model = std::make_shared<const FakeModel>();
  const Batcher batcher(model, {.max_batch = 8});
  EXPECT_EQ(model->runs(), (std::vector<int64_t>{1, 2, 4, 8}));
}

TEST(Batcher, PutsTogetherWhatWaitsAndKeepsAnswersApart) {
  HeldUp held({.max_batch = 8});
  std::vector<std::future<InferOutcome>> answers;
  for (int i = 0; i < 8; ++i) {
    answers.push_back(Submit(*held.batcher, RequestOf({static_cast<float>(10 * i)})));
  }
  held.gate->Open();
  for (size_t i = 0; i < answers.size(); ++i) {
    const InferOutcome outcome = answers[i].get();
    ASSERT_FALSE(outcome.failure);
    EXPECT_EQ(outcome.outputs[0].values, (std::vector<float>{static_cast<float>(20 * i), 2, 2, 2}));
  }
  EXPECT_EQ(held.model->runs(), (std::vector<int64_t>{8}));
}

TEST(Batcher, CutsWhatWaitsIntoPowersOfTwo) {
  HeldUp held({.max_batch = 8});
  std::vector<std::future<InferOutcome>> answers;
  for (int i = 0; i < 7; ++i) answers.push_back(Submit(*held.batcher, RequestOf({1})));
  held.gate->Open();
  for (auto& answer : answers) EXPECT_FALSE(answer.get().failure);
  EXPECT_EQ(held.model->runs(), (std::vector<int64_t>{4, 2, 1}));
}

TEST(Batcher, LeavesRequestsOfAModelThatDoesNotBatchAlone) {
  HeldUp held({.max_batch = 8}, false);
  auto a = Submit(*held.batcher, RequestOf({1}));
  auto b = Submit(*held.batcher, RequestOf({2}));
  held.gate->Open();
  EXPECT_EQ(a.get().outputs[0].values[0], 2);
  EXPECT_EQ(b.get().outputs[0].values[0], 4);
  EXPECT_EQ(held.model->runs(), (std::vector<int64_t>{1, 1}));
}

TEST(Batcher, WaitsForMatesAsLongAsItMay) {
  const auto model = std::make_shared<const FakeModel>();
  Batcher batcher(model, {.max_batch = 2, .max_delay_us = 10000000});
  model->Forget();
  const auto start = std::chrono::steady_clock::now();
  auto a = Submit(batcher, RequestOf({1}));
  auto b = Submit(batcher, RequestOf({2}));
  EXPECT_FALSE(a.get().failure);
  EXPECT_FALSE(b.get().failure);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s) << "a full batch does not wait";
  EXPECT_EQ(model->runs(), (std::vector<int64_t>{2}));
}

TEST(Batcher, RunsAloneWithoutOtherRequests) {
  const auto model = std::make_shared<const FakeModel>();
  Batcher batcher(model, {.max_batch = 4, .max_delay_us = 20000});
  model->Forget();
  const InferOutcome outcome = Submit(batcher, RequestOf({1})).get();
  EXPECT_FALSE(outcome.failure);
  EXPECT_GE(outcome.queue_seconds, 0.02);
  EXPECT_EQ(model->runs(), (std::vector<int64_t>{1}));
}

TEST(Batcher, OneBadRequestDoesNotFailItsMates) {
  HeldUp held({.max_batch = 4});
  auto good = Submit(*held.batcher, RequestOf({3}));
  auto bad = Submit(*held.batcher, RequestOf({666}));
  auto broken = Submit(*held.batcher, RequestOf({667}));
  auto other = Submit(*held.batcher, RequestOf({4}));
  held.gate->Open();
  EXPECT_EQ(good.get().outputs[0].values[0], 6);
  EXPECT_EQ(CauseOf(bad.get()), Cause::kBadRequest);
  const InferOutcome internal = broken.get();
  EXPECT_EQ(CauseOf(internal), Cause::kInternal);
  EXPECT_EQ(internal.failure->message(), "internal error") << "no paths";
  EXPECT_EQ(internal.failure->detail(), "/secret/path broke");
  EXPECT_EQ(other.get().outputs[0].values[0], 8);
}

TEST(Batcher, AFullQueueRefusesAtOnce) {
  HeldUp held({.max_queue = 2});
  auto a = Submit(*held.batcher, RequestOf({1}));
  auto b = Submit(*held.batcher, RequestOf({2}));
  try {
    Submit(*held.batcher, RequestOf({3}));
    FAIL() << "the queue has no end";
  } catch (const RequestError& error) {
    EXPECT_EQ(error.cause(), Cause::kQueueFull);
  }
  held.gate->Open();
  EXPECT_FALSE(a.get().failure);
  EXPECT_FALSE(b.get().failure);
}

TEST(Batcher, TheTimeoutFiresWhileARequestWaits) {
  HeldUp held({.queue_timeout_us = 20000});
  auto waiting = Submit(*held.batcher, RequestOf({1}));
  InferRequest hasty = RequestOf({2});
  hasty.timeout_us = 1000;
  auto second = Submit(*held.batcher, std::move(hasty));
  // The model is still blocked.
  ASSERT_EQ(second.wait_for(10s), std::future_status::ready);
  ASSERT_EQ(waiting.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(CauseOf(second.get()), Cause::kQueueTimeout);
  EXPECT_EQ(CauseOf(waiting.get()), Cause::kQueueTimeout);
  EXPECT_EQ(held.batcher->waiting(), 0U);
  held.gate->Open();
  EXPECT_FALSE(held.first.get().failure) << "what runs is not cut off";
}

TEST(Batcher, CancelAnswersWhatWaits) {
  HeldUp held({});
  auto waiting = Submit(*held.batcher, RequestOf({1}));
  held.batcher->Cancel();
  EXPECT_EQ(CauseOf(waiting.get()), Cause::kUnavailable);
  EXPECT_THROW(Submit(*held.batcher, RequestOf({1})), RequestError);
}

TEST(Batcher, TheEndAnswersAll) {
  std::future<InferOutcome> answer;
  {
    HeldUp held({});
    answer = Submit(*held.batcher, RequestOf({4}));
    held.gate->Open();
  }
  EXPECT_EQ(answer.get().outputs[0].values[0], 8);
}

TEST(Batcher, GivesOnlyTheOutputsThatWereAskedFor) {
  Batcher batcher(std::make_shared<const FakeModel>(), {});
  InferRequest request = RequestOf({5});
  request.outputs = {{"sum", false, 0}};
  const InferOutcome outcome = Submit(batcher, std::move(request)).get();
  ASSERT_EQ(outcome.outputs.size(), 1U);
  EXPECT_EQ(outcome.outputs[0].name, "sum");
  EXPECT_EQ(outcome.outputs[0].values, (std::vector<float>{8}));
}

// Many threads, several instances: each gets its own answer.
TEST(Batcher, ManyThreadsGetTheirOwnAnswers) {
  Batcher batcher(std::make_shared<const FakeModel>(),
                  {.max_batch = 4, .max_delay_us = 50, .instances = 3});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const auto value = static_cast<float>(t * 1000 + i % 600);
        const InferOutcome outcome = Submit(batcher, RequestOf({value})).get();
        if (value == 666 || value == 667) continue;
        if (outcome.failure || outcome.outputs[0].values[0] != 2 * value) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Runs until it is cancelled, but for the samples that warm it.
class Endless final : public Executable {
 public:
  const ModelDescription& description() const override { return model_.description(); }
  std::unique_ptr<Executor> MakeExecutor() const override {
    return std::make_unique<EndlessExecutor>(model_.MakeExecutor());
  }

 private:
  class EndlessExecutor final : public Executor {
   public:
    explicit EndlessExecutor(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}
    void Run(std::span<const NamedTensor> inputs) override { inner_->Run(inputs); }
    void RunUnless(const std::function<bool()>& cancelled,
                   std::span<const NamedTensor> inputs) override {
      if (!cancelled) return Run(inputs);
      while (!cancelled()) std::this_thread::yield();
      Fail(ErrorCode::kCancelled, "cancelled");
    }
    ConstTensorView Output(std::string_view name) const override { return inner_->Output(name); }

   private:
    std::unique_ptr<Executor> inner_;
  };
  FakeModel model_;
};

TEST(Batcher, ARunningRequestEndsWithItsClientAndWithTheServer) {
  Batcher batcher(std::make_shared<const Endless>(), {});
  const auto left = std::make_shared<std::atomic<bool>>(false);
  InferRequest request = RequestOf({1});
  request.cancelled = left;
  auto first = Submit(batcher, std::move(request));
  *left = true;
  EXPECT_EQ(first.get().failure->cause(), Cause::kCancelled);
  auto second = Submit(batcher, RequestOf({1}));
  while (batcher.waiting() > 0) std::this_thread::yield();  // until it runs
  batcher.Cancel();
  EXPECT_EQ(second.get().failure->cause(), Cause::kUnavailable);
}

TEST(Batcher, AModelThatCannotBeWarmedIsNotMade) {
  class Broken final : public Executable {
   public:
    const ModelDescription& description() const override { return description_; }
    std::unique_ptr<Executor> MakeExecutor() const override {
      Fail(ErrorCode::kOutOfMemory, "no memory");
    }

   private:
    ModelDescription description_;
  };
  EXPECT_THROW(Batcher(std::make_shared<const Broken>(), {.instances = 2}), Error);
}

}  // namespace
}  // namespace crema::test
