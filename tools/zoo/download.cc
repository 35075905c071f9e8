#include "zoo/download.h"

#include "core/error.h"
#include "core/strings.h"

#ifdef CREMA_HAVE_CURL
#include <curl/curl.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>
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

struct Transfer {
  CURLcode code = CURLE_OK;
  long status = 0;
  std::string reason;
};

// Gets the bytes from `begin` on.
Transfer Get(const std::string& url, uint64_t begin, Sink sink) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                 curl_easy_cleanup);
  if (!curl) Fail(ErrorCode::kOutOfMemory, "libcurl cannot start");
  char reason[CURL_ERROR_SIZE] = "";
  const auto set = [&](auto option, auto value) { curl_easy_setopt(curl.get(), option, value); };
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
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);  // bytes a second, for this time:
  set(CURLOPT_LOW_SPEED_TIME, 60L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "crema");
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
  const Transfer transfer = Get(url, 0, [&](std::string_view bytes) {
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

void DownloadFile(const std::string& url, const std::string& path, uint64_t bytes) {
  std::error_code error;
  uint64_t begin = std::filesystem::file_size(path, error);
  if (error || begin > bytes) begin = 0;
  if (begin == bytes) return;
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(
      std::fopen(path.c_str(), begin > 0 ? "ab" : "wb"), std::fclose);
  if (!file) Fail(ErrorCode::kIoFailure, "cannot be written", {.file = path});
  uint64_t arrived = begin;
  const Transfer transfer = Get(url, begin, [&](std::string_view part) {
    arrived += part.size();
    return arrived <= bytes && std::fwrite(part.data(), 1, part.size(), file.get()) == part.size();
  });
  const bool written = std::fflush(file.get()) == 0;
  if (transfer.code == CURLE_RANGE_ERROR && begin > 0) {  // the server sends whole files only
    std::filesystem::remove(path, error);
    return DownloadFile(url, path, bytes);
  }
  if (arrived > bytes) {
    Fail(ErrorCode::kDataLoss, StrCat(url, ": more than the ", bytes, " bytes of the manifest"));
  }
  if (!written || transfer.code == CURLE_WRITE_ERROR) {
    Fail(ErrorCode::kIoFailure, "cannot be written; is the disk full?", {.file = path});
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
void DownloadFile(const std::string& /*url*/, const std::string& /*path*/, uint64_t /*bytes*/) {
  FailWithoutCurl();
}

#endif

}  // namespace crema::tools
