// HTTP over TLS, with a certificate made on the spot.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "server/certificate.h"
#include "server/running_server.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* value) const { Free(value); }
};
using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX, SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freer<SSL, SSL_free>>;

// What is answered over TLS of at most `version`; empty where the handshake fails.
std::string AskOverTls(uint16_t port, const std::string& bytes, int version) {
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
    const Session session(SSL_new(context.get()));
    SSL_set_fd(session.get(), connection);
    if (SSL_connect(session.get()) == 1) {
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
  // Plain text is no handshake.
  EXPECT_EQ(Ask(running.port(), request).status, 0);
  EXPECT_NE(AskOverTls(running.port(), request, TLS1_3_VERSION), "");
}

}  // namespace
}  // namespace crema::test
