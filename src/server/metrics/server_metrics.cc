#include "server/metrics/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "core/folder.h"

namespace crema::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

const Histogram::BucketBoundaries& TimeBuckets() {
  static const Histogram::BucketBoundaries buckets = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                      0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                                                      1,      2.5,     5,      10,    30};
  return buckets;
}

const Histogram::BucketBoundaries& BatchBuckets() {
  static const Histogram::BucketBoundaries buckets = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  return buckets;
}

int64_t OpenDescriptors() {
  std::error_code ignored;
  return static_cast<int64_t>(NamesIn("/proc/self/fd", ignored).size());
}

Family<Counter>& CounterFamily(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
Family<Gauge>& GaugeFamily(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
Family<Histogram>& HistogramFamily(prometheus::Registry& registry, const char* name,
                                   const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

// Thread safety: `mutex` guards `users`; the families synchronize themselves.
struct ModelFamilies {
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  Family<Counter>& successes =
      CounterFamily(*registry, "crema_inferences_total", "Requests that a model answered.");
  Family<Counter>& failures = CounterFamily(*registry, "crema_inference_failures_total",
                                            "Requests that a model did not answer, by cause.");
  Family<Histogram>& queue =
      HistogramFamily(*registry, "crema_queue_seconds", "Time in the queue.");
  Family<Histogram>& compute =
      HistogramFamily(*registry, "crema_compute_seconds", "Time of the run with its batch.");
  Family<Histogram>& total =
      HistogramFamily(*registry, "crema_request_seconds", "Time from request to answer.");
  Family<Histogram>& batch =
      HistogramFamily(*registry, "crema_batch_samples", "Samples that ran as one.");
  Family<Gauge>& version =
      GaugeFamily(*registry, "crema_model_version", "Version that answers by default, 0: none.");
  Family<Gauge>& bad =
      GaugeFamily(*registry, "crema_model_bad_versions", "Versions that could not be loaded.");
  Family<Counter>& loads =
      CounterFamily(*registry, "crema_model_loads_total", "Loads of versions, by outcome.");
  std::mutex mutex;
  // Number of objects that share the series of a model: the family returns the same series for
  // equal labels, and a reloaded model shares them with the version that is still answering.
  std::map<std::string, int> users;
};

class PrometheusModel final : public ModelMetrics {
 public:
  PrometheusModel(std::shared_ptr<ModelFamilies> families, std::string model)
      : families_(std::move(families)), model_(std::move(model)) {
    const std::lock_guard lock(families_->mutex);
    const prometheus::Labels labels = {{"model", model_}};
    successes_ = &families_->successes.Add(labels);
    queue_ = &families_->queue.Add(labels, TimeBuckets());
    compute_ = &families_->compute.Add(labels, TimeBuckets());
    total_ = &families_->total.Add(labels, TimeBuckets());
    batch_ = &families_->batch.Add(labels, BatchBuckets());
    version_ = &families_->version.Add(labels);
    bad_ = &families_->bad.Add(labels);
    good_loads_ = &families_->loads.Add({{"model", model_}, {"outcome", "good"}});
    bad_loads_ = &families_->loads.Add({{"model", model_}, {"outcome", "bad"}});
    for (int i = 0; i < kCauses; ++i) {
      const std::string cause(Label(static_cast<Cause>(i)));
      failures_[static_cast<size_t>(i)] =
          &families_->failures.Add({{"model", model_}, {"cause", cause}});
    }
    ++families_->users[model_];
  }
  // Removes the series with the last user.
  ~PrometheusModel() override {
    const std::lock_guard lock(families_->mutex);
    const auto users = families_->users.find(model_);
    if (--users->second > 0) return;
    families_->users.erase(users);
    families_->successes.Remove(successes_);
    for (Counter* failure : failures_) families_->failures.Remove(failure);
    families_->queue.Remove(queue_);
    families_->compute.Remove(compute_);
    families_->total.Remove(total_);
    families_->batch.Remove(batch_);
    families_->version.Remove(version_);
    families_->bad.Remove(bad_);
    families_->loads.Remove(good_loads_);
    families_->loads.Remove(bad_loads_);
  }
  PrometheusModel(const PrometheusModel&) = delete;
  PrometheusModel& operator=(const PrometheusModel&) = delete;

  void Succeeded(double queue, double compute, double total) override {
    successes_->Increment();
    queue_->Observe(queue);
    compute_->Observe(compute);
    total_->Observe(total);
  }
  void Failed(Cause cause) override { failures_[static_cast<size_t>(cause)]->Increment(); }
  void Ran(int64_t samples) override { batch_->Observe(static_cast<double>(samples)); }
  void SetVersion(int64_t version) override { version_->Set(static_cast<double>(version)); }
  void LoadEnded(bool good) override { (good ? good_loads_ : bad_loads_)->Increment(); }
  void SetBadVersions(int64_t count) override { bad_->Set(static_cast<double>(count)); }

 private:
  const std::shared_ptr<ModelFamilies> families_;
  const std::string model_;
  Counter* successes_ = nullptr;
  std::array<Counter*, kCauses> failures_{};
  Histogram* queue_ = nullptr;
  Histogram* compute_ = nullptr;
  Histogram* total_ = nullptr;
  Histogram* batch_ = nullptr;
  Gauge* version_ = nullptr;
  Gauge* bad_ = nullptr;
  Counter* good_loads_ = nullptr;
  Counter* bad_loads_ = nullptr;
};

}  // namespace

class ServerMetrics::Series {
 public:
  std::shared_ptr<ModelFamilies> models = std::make_shared<ModelFamilies>();
  std::shared_ptr<prometheus::Registry> registry = models->registry;
  Family<Counter>& answers =
      CounterFamily(*registry, "crema_answers_total", "Answers by protocol and status.");
  Family<Counter>& refusals =
      CounterFamily(*registry, "crema_refusals_total", "Requests that were not answered with 200.");
  Gauge& in_flight =
      GaugeFamily(*registry, "crema_requests_in_flight", "Requests being answered.").Add({});
  Gauge& connections =
      GaugeFamily(*registry, "crema_http_connections", "Open HTTP connections.").Add({});
  Gauge& ready = GaugeFamily(*registry, "crema_ready", "1 where requests are welcome.").Add({});
  Gauge& resident =
      GaugeFamily(*registry, "process_resident_memory_bytes", "Resident memory.").Add({});
  Gauge& descriptors = GaugeFamily(*registry, "process_open_fds", "Open descriptors.").Add({});
  Gauge& start =
      GaugeFamily(*registry, "process_start_time_seconds", "Start, in Unix time.").Add({});
  Gauge* gpu = nullptr;
  std::function<int64_t()> gpu_used;
  std::atomic<bool> watches_gpu{false};  // the two members above are set
};

ServerMetrics::ServerMetrics() : series_(std::make_unique<Series>()) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  series_->start.Set(std::chrono::duration<double>(now).count());
}

ServerMetrics::~ServerMetrics() = default;

std::shared_ptr<ModelMetrics> ServerMetrics::ForModel(const std::string& model) {
  return std::make_shared<PrometheusModel>(series_->models, model);
}

void ServerMetrics::Answered(std::string_view protocol, int status) {
  series_->answers.Add({{"protocol", std::string(protocol)}, {"status", std::to_string(status)}})
      .Increment();
}

void ServerMetrics::Refused(Cause cause) {
  series_->refusals.Add({{"cause", std::string(Label(cause))}}).Increment();
}

void ServerMetrics::AddInFlight(int change) { series_->in_flight.Increment(change); }

void ServerMetrics::AddConnections(int change) { series_->connections.Increment(change); }

void ServerMetrics::SetReady(bool ready) { series_->ready.Set(ready ? 1 : 0); }

void ServerMetrics::WatchGpu(std::function<int64_t()> used) {
  series_->gpu_used = std::move(used);
  series_->gpu = &GaugeFamily(*series_->registry, "crema_gpu_memory_used_bytes",
                              "Memory of the GPU that is in use, by whomever.")
                      .Add({});
  series_->watches_gpu = true;
}

std::string ServerMetrics::Text() {
  if (series_->watches_gpu) series_->gpu->Set(static_cast<double>(series_->gpu_used()));
  series_->resident.Set(static_cast<double>(ResidentBytes()));
  series_->descriptors.Set(static_cast<double>(OpenDescriptors()));
  return prometheus::TextSerializer().Serialize(series_->registry->Collect());
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace crema::server
