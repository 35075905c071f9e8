#include "zoo/download.h"

#include "core/error.h"
#include "core/strings.h"

#ifdef CREMA_HAVE_CURL
#include <curl/curl.h>

#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#endif

namespace crema::tools {

bool IsUrl(const std::string& place) {
  return place.starts_with("http://") || place.starts_with("https://");
}

#ifdef CREMA_HAVE_CURL
namespace {

using Sink = std::function<bool(std::string_view)>;  // false: the body is too long or lost

size_t Receive(char* bytes, size_t size, size_t count, void* sink) {
  const size_t all = size * count;
  return (*static_cast<Sink*>(sink))({bytes, all}) ? all : 0;
}

// A transfer that is slower for a minute has failed.
constexpr long kFileSpeed = 1000;  // bytes a second
constexpr long kTextSpeed = 100000;

struct Transfer {
  CURLcode code = CURLE_OK;
  long status = 0;
  std::string reason;
};

// Gets the bytes from `begin` on.
Transfer Get(const std::string& url, uint64_t begin, long speed, Sink sink) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                 curl_easy_cleanup);
  if (!curl) Fail(ErrorCode::kOutOfMemory, "libcurl cannot start");
  char reason[CURL_ERROR_SIZE] = "";
  bool is_set = true;
  const auto set = [&](auto option, auto value) {
    is_set = is_set && curl_easy_setopt(curl.get(), option, value) == CURLE_OK;
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(reason));
  set(CURLOPT_WRITEFUNCTION, Receive);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&sink));
  set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(begin));
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, url.starts_with("https") ? "https" : "http,https");
  set(CURLOPT_CONNECTTIMEOUT, 30L);
  set(CURLOPT_LOW_SPEED_LIMIT, speed);
  set(CURLOPT_LOW_SPEED_TIME, 60L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "crema");
  if (!is_set) Fail(ErrorCode::kUnsupported, "libcurl is older than 7.85");
  Transfer transfer;
  transfer.code = curl_easy_perform(curl.get());
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &transfer.status);
  transfer.reason = reason[0] == '\0' ? curl_easy_strerror(transfer.code) : reason;
  return transfer;
}

[[noreturn]] void FailTransfer(const std::string& url, const Transfer& transfer) {
  constexpr long kMissing = 404;
  if (transfer.status == kMissing)
    Fail(ErrorCode::kNotFound, StrCat(url, ": there is no such file"));
  Fail(ErrorCode::kIoFailure, StrCat(url, ": ", transfer.reason));
}

}  // namespace

std::string DownloadText(const std::string& url, size_t most_bytes) {
  std::string text;
  const Transfer transfer = Get(url, 0, kTextSpeed, [&](std::string_view bytes) {
    if (text.size() + bytes.size() > most_bytes) return false;
    text += bytes;
    return true;
  });
  if (transfer.code == CURLE_WRITE_ERROR) {
    Fail(ErrorCode::kIoFailure, StrCat(url, ": more than ", most_bytes, " bytes"));
  }
  if (transfer.code != CURLE_OK) FailTransfer(url, transfer);
  return text;
}

void DownloadFile(const std::string& url, uint64_t bytes, PartFile* file) {
  if (file->size() > bytes) file->Clear();
  if (file->size() == bytes) return;
  bool is_longer = false;
  std::exception_ptr failure;
  const auto write = [&](std::string_view part) {
    is_longer = file->size() + part.size() > bytes;
    if (is_longer) return false;
    try {
      file->Append(part);
      return true;
    } catch (const Error&) {
      failure = std::current_exception();
      return false;
    }
  };
  Transfer transfer = Get(url, file->size(), kFileSpeed, write);
  if (transfer.code == CURLE_RANGE_ERROR && file->size() > 0) {  // it sends whole files only
    file->Clear();
    transfer = Get(url, 0, kFileSpeed, write);
  }
  if (failure) std::rethrow_exception(failure);
  if (is_longer) {
    file->Remove();
    Fail(ErrorCode::kDataLoss, StrCat(url, ": more than the ", bytes, " bytes of the manifest"));
  }
  if (transfer.code != CURLE_OK) FailTransfer(url, transfer);
}

#else

namespace {
[[noreturn]] void FailWithoutCurl() {
  Fail(ErrorCode::kUnsupported,
       "this build has no libcurl: it reads zoos in folders only (install libcurl4-openssl-dev, "
       "and build again)");
}
}  // namespace

std::string DownloadText(const std::string& /*url*/, size_t /*most_bytes*/) { FailWithoutCurl(); }
void DownloadFile(const std::string& /*url*/, uint64_t /*bytes*/, PartFile* /*file*/) {
  FailWithoutCurl();
}

#endif

}  // namespace crema::tools
