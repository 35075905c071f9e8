// The HTTP interface of the service: maps routes to answers.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/line_writer.h"
#include "server/http/image_tasks.h"
#include "server/http/message.h"
#include "server/http/routes.h"
#include "server/service.h"
#include "server/work_pool.h"

namespace crema::server {

enum class AccessLog { kNone, kText, kJson };

struct ApiOptions {
  AccessLog access_log = AccessLog::kNone;
  int work_threads = 2;
};

// Thread safety: any number of threads.
class HttpApi final : public HttpHandler {
 public:
  // Writes the access log to the file descriptor `log`, which must outlive this.
  HttpApi(Service& service, const ApiOptions& options, int log);

  // Finishes deferred work and refuses new.
  void Stop();
  // Waits until the access log is written, at most for `most`.
  void FlushLog(std::chrono::milliseconds most) { log_.Flush(most); }

  size_t Admit(const HttpHead& head) override;
  void Handle(HttpRequest request, HttpRespond respond) override;
  HttpResponse Explain(const RequestError& error) override;
  void Log(const HttpLogEntry& entry) override;
  void ConnectionsChanged(int change) override { service_.metrics.AddConnections(change); }
  void ReportFailure(const std::exception_ptr& failure) noexcept override;

 private:
  void Answer(const HttpRequest& request, const RouteMatch& match, const HttpRespond& respond);
  HttpResponse AnswerNow(const HttpRequest& request, const RouteMatch& match);
  HttpResponse AnswerModel(const RouteMatch& match);
  void LoadOrUnload(const HttpRequest& request, const RouteMatch& match,
                    const HttpRespond& respond);
  void Infer(const HttpRequest& request, const RouteMatch& match, const HttpRespond& respond);
  void StartInfer(const HttpRequest& request, const RouteMatch& match, const HttpRespond& respond);
  void Run(ModelVersion& model, InferRequest infer, const HttpRespond& respond);
  void AnswerImage(const HttpRequest& request, ImageTask task, const HttpRespond& respond);
  void WriteImageAnswer(const ImageAnswer& image, const InferAnswer& answer,
                        const HttpRespond& respond);
  // Returns `work` whose exception becomes the answer.
  std::function<void()> Guarded(const HttpRespond& respond, std::function<void()> work);
  // Runs guarded work on a thread of `pool`.
  void Aside(WorkPool& pool, const HttpRespond& respond, std::function<void()> work);

  Service& service_;
  const ApiOptions options_;
  LineWriter log_;
  WorkPool pool_;     // last: its work uses the other members
  WorkPool changes_;  // separate, since loading is slow and must not delay pictures
};

// GET /: returns a page for interactive use, without external resources, and with a policy that
// forbids them. It lists the models, sends an image that is dropped on it to the task of the chosen
// one, and shows the answer.
HttpResponse PageResponse();

}  // namespace crema::server
