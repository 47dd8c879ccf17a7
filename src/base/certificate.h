// Who a process is where a site has an authority of its own: a certificate with its private key, what leads from it to the
// authority, and whose certificates count. One file (PEM, RFC 7468), treated as a job's key is:
//
//   peers: trainer.example, *.gpu.example    optional; one line, before all else
//   -----BEGIN CERTIFICATE-----              the process's own, first
//   -----BEGIN PRIVATE KEY-----              of it
//   -----BEGIN CERTIFICATE-----              the authority's (which has signed itself), and those between
//
// `peers` are names that one of a peer's subjectAltName (DNS or URI) has to be, letter by letter; "*." stands for one label.
// Without the line everybody whom the authority has signed is a member; one that is meant to be it and would not count is refused.
//
// Threads: any. OpenSSL holds the private key in plain memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

struct evp_pkey_st;
struct x509_st;
struct x509_store_st;

namespace paceline {

inline constexpr const char* kNoCertificate = "certificate";  // the code of what Certificate::from refuses

class Certificate {
 public:
  // Checks what can be checked here: that key and certificate belong together, that the authority has signed it, that it has not
  // expired and that it is for both sides of a connection. Errors: kBadRequest.
  static Result<std::shared_ptr<const Certificate>> from(std::string_view pem);
  ~Certificate();
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;

  const std::string& pem() const { return pem_; }    // as it was read
  const std::string& name() const { return name_; }  // its first name, for messages
  x509_st* own() const { return own_; }
  evp_pkey_st* private_key() const { return private_key_; }
  const std::vector<x509_st*>& between() const { return between_; }
  x509_store_st* authority() const { return authority_; }
  // Whether a certificate that the authority has signed is of a peer.
  bool admits(x509_st* peer) const;

 private:
  Certificate();
  Status read(std::string_view pem);
  Status check() const;

  std::string pem_, name_;
  std::vector<std::string> peers_;
  x509_st* own_ = nullptr;
  evp_pkey_st* private_key_ = nullptr;
  std::vector<x509_st*> between_;
  x509_store_st* authority_;
  int authorities_ = 0;
};

// How messages call whose it is: by its first name, or the common name where it has none. Fit for a line of a log.
std::string display_name(x509_st* certificate);

}  // namespace paceline
