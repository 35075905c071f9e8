// A trained model in Python.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "inference/classifier.h"
#include "inference/detector.h"
#include "inference/model.h"
#include "inference/segmenter.h"
#include "python_layer.h"

namespace crema::python {

// Objects that wait for the next call. Thread safety: any number of threads.
template <typename T>
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Calls `use` with an object that no other thread has; `make` returns one if none waits.
  template <typename Make, typename Use>
  void With(Make&& make, Use&& use) {
    std::shared_ptr<T> one = Take();
    if (one == nullptr) one = make();
    const RunningNet running([&] { return one; });
    use(*one);  // one that has thrown is not used again
    const std::lock_guard lock(ForkSafeMutex());
    waiting_.push_back(std::move(one));
  }

 private:
  std::shared_ptr<T> Take() {
    const std::lock_guard lock(ForkSafeMutex());
    if (waiting_.empty()) return nullptr;
    std::shared_ptr<T> one = std::move(waiting_.back());
    waiting_.pop_back();
    return one;
  }

  std::vector<std::shared_ptr<T>> waiting_;  // under ForkSafeMutex()
};

// The Classifier, Detector or Segmenter of the last call, with its workers. `Argument` is that of
// its constructor. Thread safety: any number of threads.
template <typename Task, typename Argument>
class TaskOfModel {
 public:
  struct Ready {
    Ready(const std::shared_ptr<const Model>& model, const Argument& of)
        : argument(of), task(model, of) {}
    Argument argument;
    Task task;
    Pool<typename Task::Worker> workers;
  };

  std::shared_ptr<Ready> For(const std::shared_ptr<const Model>& model, const Argument& argument) {
    if (std::shared_ptr<Ready> last = Last(); last != nullptr && last->argument == argument) {
      return last;
    }
    auto made = std::make_shared<Ready>(model, argument);
    std::shared_ptr<Ready> before = made;  // destroyed without the lock
    const std::lock_guard lock(ForkSafeMutex());
    last_.swap(before);
    return made;
  }

 private:
  std::shared_ptr<Ready> Last() const {
    const std::lock_guard lock(ForkSafeMutex());
    return last_;
  }

  std::shared_ptr<Ready> last_;  // under ForkSafeMutex()
};

// Thread safety: any number of threads.
struct PyModel {
  std::shared_ptr<const Model> model;
  Preprocessing preprocessing;
  std::vector<std::string> labels;
  std::map<std::string, std::string> types;  // of inputs and outputs of ONNX that are no floats
  Pool<ModelRunner> runners;
  TaskOfModel<Classifier, std::string> classifier;  // by output
  TaskOfModel<Detector, double> detector;           // by confidence
  TaskOfModel<Segmenter, std::string> segmenter;    // by output
};
using ModelPtr = std::shared_ptr<PyModel>;

// Throws kInvalidArgument; 0 threads are all processors.
ModelOptions OptionsOf(int threads);

// Adds classify, detect and segment.
void BindImageTasks(nb::class_<PyModel>& model);

}  // namespace crema::python
