// HTTP over TLS, with a generated certificate.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <thread>

#include "server/certificate.h"
#include "server/repository_fixture.h"
#include "server/running_server.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX, SSL_CTX_free>>;
using TlsSession = std::unique_ptr<SSL, Freer<SSL, SSL_free>>;

std::string FingerprintOf(SSL* session) {
  X509* const certificate = SSL_get1_peer_certificate(session);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  X509_digest(certificate, EVP_sha256(), digest, &size);
  X509_free(certificate);
  return {reinterpret_cast<const char*>(digest), size};
}

// Returns the answer over TLS up to `version`, with `ciphers` for 1.2; empty if the handshake
// fails. `fingerprint` receives that of the certificate.
std::string AskOverTls(uint16_t port, const std::string& bytes, int version,
                       const char* ciphers = "ALL", std::string* fingerprint = nullptr) {
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const Context context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context.get(), version);
    SSL_CTX_set_security_level(context.get(), 0);
    SSL_CTX_set_cipher_list(context.get(), ciphers);
    const TlsSession session(SSL_new(context.get()));
    SSL_set_fd(session.get(), connection);
    if (SSL_connect(session.get()) == 1) {
      if (fingerprint != nullptr) *fingerprint = FingerprintOf(session.get());
      SSL_write(session.get(), bytes.data(), static_cast<int>(bytes.size()));
      char buffer[4096];
      for (int n = 0; (n = SSL_read(session.get(), buffer, sizeof(buffer))) > 0;) {
        answer.append(buffer, static_cast<size_t>(n));
      }
    }
  }
  ::close(connection);
  return answer;
}

TEST(Tls, IsSpokenByNewVersionsOnly) {
  const TempDir folder;
  server::ServerOptions options = TestOptions();
  options.http.tls_cert = folder.File("cert.pem");
  options.http.tls_key = folder.File("key.pem");
  WriteCertificate(options.http.tls_cert, options.http.tls_key);
  const RunningServer running(options);
  const std::string request =
      "GET /v2/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
    const std::string answer = AskOverTls(running.port(), request, version);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("{\"ready\":true}")) << answer;
  }
  EXPECT_EQ(AskOverTls(running.port(), request, TLS1_1_VERSION), "");
  // Plain text is not a handshake.
  EXPECT_EQ(Ask(running.port(), request).status, 0);
  EXPECT_NE(AskOverTls(running.port(), request, TLS1_3_VERSION), "");
}

constexpr const char* kHealth =
    "GET /v2/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

TEST(Tls, OfVersion12HasForwardSecrecy) {
  const TempDir folder;
  server::ServerOptions options = TestOptions();
  options.http.tls_cert = folder.File("cert.pem");
  options.http.tls_key = folder.File("key.pem");
  WriteCertificate(options.http.tls_cert, options.http.tls_key);
  const RunningServer running(options);
  for (const char* good : {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"}) {
    EXPECT_NE(AskOverTls(running.port(), kHealth, TLS1_2_VERSION, good), "") << good;
  }
  for (const char* bad : {"ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES128-SHA256", "AES128-SHA"}) {
    EXPECT_EQ(AskOverTls(running.port(), kHealth, TLS1_2_VERSION, bad), "") << bad;
  }
}

TEST(Tls, CertificatesAreReadAgain) {
  const TempDir folder;
  CountingLog log;
  server::ServerOptions options = TestOptions();
  options.file_poll = std::chrono::milliseconds(5);
  options.http.tls_cert = folder.File("cert.pem");
  options.http.tls_key = folder.File("key.pem");
  WriteCertificate(options.http.tls_cert, options.http.tls_key);
  server::Server server(options, log);
  server.ServeModel("m", std::make_shared<const FakeModel>(), {});
  const auto fingerprint = [&] {
    std::string text;
    AskOverTls(server.http_port(), kHealth, TLS1_3_VERSION, "ALL", &text);
    return text;
  };
  const auto await = [&](const std::string& part) {
    while (log.Count(part) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const std::string first = fingerprint();
  WriteCertificate(options.http.tls_cert, options.http.tls_key);
  await("read again");
  std::string second;
  while ((second = fingerprint()) == first) {
  }
  EXPECT_EQ(second.size(), first.size());
  folder.Write("cert.pem", "nonsense");
  await("the version read before stays in use");
  EXPECT_EQ(fingerprint(), second);
}

TEST(Tls, AKeyThatEverybodyReadsIsRefused) {
  const TempDir folder;
  server::ServerOptions options = TestOptions();
  options.http.tls_cert = folder.File("cert.pem");
  options.http.tls_key = folder.File("key.pem");
  WriteCertificate(options.http.tls_cert, options.http.tls_key);
  std::filesystem::permissions(options.http.tls_key, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  try {
    const RunningServer running(options);
    FAIL() << "it runs";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("(mode 0604), and it holds a secret: chmod 600 it"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace crema::test
