// A certificate for tests of TLS.
#pragma once

#include <string>

namespace crema::test {

// Frees an object of OpenSSL.
template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* value) const { Free(value); }
};

// Writes a new key and a self-signed certificate for "localhost", valid for an hour, as PEM files.
void WriteCertificate(const std::string& cert_file, const std::string& key_file);

}  // namespace crema::test
