// A certificate for tests of TLS.
#pragma once

#include <string>

namespace crema::test {

// Writes a new key and a self-signed certificate for "localhost", valid for an hour, as PEM files.
void WriteCertificate(const std::string& cert_file, const std::string& key_file);

}  // namespace crema::test
