// A folder of fake models, and a repository that polls it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "format/file.h"
#include "server/fake_model.h"
#include "server/repository/repository.h"
#include "server/request_error.h"
#include "support/temp_dir.h"

namespace crema::test {

using server::Cause;
using server::Executable;
using server::InferAnswer;
using server::InferRequest;
using server::InputTensor;
using server::ModelTable;
using server::ModelVersion;
using server::Repository;
using server::RepositoryOptions;
using server::RequestError;
using server::ServerMetrics;
using server::VersionFiles;
using server::VersionState;
using server::VersionStatus;
namespace fs = std::filesystem;

class CountingLog final : public LogSink {
 public:
  void Write(Severity, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(text);
  }
  int64_t Count(std::string_view part) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::count_if(
        lines_, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

class RepositoryTest : public testing::Test {
 protected:
  void Write(const std::string& model, const std::string& version, const std::string& text) {
    fs::create_directories(folder.File(model + "/" + version));
    // Writes next to the target and renames, as users should.
    fs::rename(folder.Write(model + "/" + version + "/.new", text),
               folder.File(model + "/" + version + "/model.crema"));
  }
  // "model.crema" holds the factor of a fake model; "broken" cannot be loaded.
  std::shared_ptr<const Executable> LoadFake(const VersionFiles& files) const {
    const std::string text = ReadFile(files.crema);
    if (text == "broken") Fail(ErrorCode::kDataLoss, "the file /srv/secret is truncated");
    FakeModelOptions options;
    if (text == "no memory") {
      if (!memory) throw std::bad_alloc();
      options.factor = 1;
    } else {
      options.factor = std::stof(text);
    }
    return std::make_shared<const FakeModel>(options);
  }
  std::unique_ptr<Repository> Start(RepositoryOptions options = {}) {
    options.path = folder.path();
    options.poll = std::chrono::milliseconds(0);
    if (!settles) options.settle = std::chrono::milliseconds(0);
    auto repository = std::make_unique<Repository>(
        options, [this](const std::string&, const VersionFiles& files) { return LoadFake(files); },
        table, log);
    repository->Start();
    return repository;
  }
  float Ask(int64_t version = 0, const std::string& model = "m") {
    InferRequest request;
    InputTensor x;
    x.name = "x";
    x.shape = Shape{1, 4};
    x.values = {1, 0, 0, 0};
    request.inputs.push_back(std::move(x));
    std::promise<InferAnswer> answer;
    table.Find(model, version)->Infer(std::move(request), [&](InferAnswer given) {
      answer.set_value(std::move(given));
    });
    return answer.get_future().get().reply.outputs[0].values[0];
  }
  static std::string WhyNotLoaded(Repository* repository, const std::string& model) {
    try {
      repository->Load(model);
    } catch (const RequestError& error) {
      return error.message();
    }
    return "loaded";
  }
  Cause Refusal(int64_t version = 0, const std::string& model = "m") {
    try {
      table.Find(model, version);
    } catch (const RequestError& error) {
      return error.cause();
    }
    return Cause::kInternal;
  }

  TempDir folder;
  ServerMetrics metrics;
  ModelTable table{metrics};
  CountingLog log;
  bool settles = false;
  bool memory = false;
};

}  // namespace crema::test
