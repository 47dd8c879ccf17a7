#include "base/certificate.h"

#include <algorithm>
#include <cctype>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#include "base/secret.h"

namespace paceline {
namespace {

constexpr std::string_view kPeers = "peers:";
constexpr std::size_t kLongestName = 100;

std::string printable(std::string_view text) {
  std::string name(text.substr(0, kLongestName));
  for (char& letter : name) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return name;
}

std::string text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)), static_cast<std::size_t>(ASN1_STRING_length(text))};
}

// Those in subjectAltName that are DNS or URI.
std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> names;
  auto* const all = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* const one = sk_GENERAL_NAME_value(all, i);
    if (one->type == GEN_DNS) names.push_back(text_of(one->d.dNSName));
    if (one->type == GEN_URI) names.push_back(text_of(one->d.uniformResourceIdentifier));
  }
  GENERAL_NAMES_free(all);
  return names;
}

// Whether a line outside of the blocks is meant to name peers, in whatever way it is written.
bool is_about_peers(std::string_view line) {
  std::string letters;
  for (const char letter : line) {
    if (std::isalpha(static_cast<unsigned char>(letter)) == 0 && !letters.empty()) break;
    if (std::isalpha(static_cast<unsigned char>(letter)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return letters == "peers" || letters == "peer";
}

// One that is overlooked would admit everybody. `from`: behind the line that counts.
bool has_stray_peers(std::string_view pem, std::size_t from) {
  bool inside = false;
  while (from < pem.size()) {
    const std::size_t end = std::min(pem.find('\n', from), pem.size());
    const std::string_view line = pem.substr(from, end - from);
    if (line.starts_with("-----BEGIN ")) inside = true;
    if (!inside && is_about_peers(line)) return true;
    if (line.starts_with("-----END ")) inside = false;
    from = end + 1;
  }
  return false;
}

// "*.gpu.example" is "n7.gpu.example", and neither "gpu.example" nor "a.n7.gpu.example".
bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.starts_with("*.")) return pattern == name;
  const std::size_t dot = name.find('.');
  return dot != std::string_view::npos && dot > 0 && name.substr(dot) == pattern.substr(1);
}

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  std::string word;
  for (const char letter : fmt::format("{},", list)) {
    if (letter != ',' && letter != ' ' && letter != '\t' && letter != '\r')
      word += letter;
    else if (!word.empty())
      words.push_back(std::exchange(word, {}));
  }
  return words;
}

struct Freed {
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};

}  // namespace

std::string display_name(X509* certificate) {
  if (const auto names = names_of(certificate); !names.empty()) return printable(names.front());
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return at < 0 ? "nobody" : printable(text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))));
}

Certificate::Certificate() : authority_(X509_STORE_new()) { PACELINE_CHECK(authority_ != nullptr, "OpenSSL has no memory"); }

Certificate::~Certificate() {
  X509_free(own_);
  EVP_PKEY_free(private_key_);
  for (X509* const one : between_) X509_free(one);
  X509_STORE_free(authority_);
  wipe(std::as_writable_bytes(std::span(pem_)));
}

Result<std::shared_ptr<const Certificate>> Certificate::from(std::string_view pem) {
  const std::shared_ptr<Certificate> made(new Certificate);
  Status good = made->read(pem);
  if (good.ok()) good = made->check();
  if (!good.ok()) return good.because({.code = kNoCertificate, .subject = {}});
  return std::shared_ptr<const Certificate>(made);
}

Status Certificate::read(std::string_view pem) {
  pem_ = pem;
  const bool limited = pem.starts_with(kPeers);
  if (has_stray_peers(pem, limited ? pem.find('\n') : 0))
    return error(ErrorKind::kBadRequest,
                 "it has a line about peers that does not count; one line, the first, begins with 'peers:'");
  if (limited) {
    peers_ = words_of(pem.substr(kPeers.size(), pem.find('\n') - kPeers.size()));
    if (peers_.empty()) return error(ErrorKind::kBadRequest, "its line of peers names nobody; leave the line out to admit all");
  }
  const std::unique_ptr<BIO, Freed> text(BIO_new_mem_buf(pem_.data(), static_cast<int>(pem_.size())));
  while (X509* const one = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) {
    const std::unique_ptr<X509, Freed> held(one);
    if (own_ == nullptr) {
      own_ = one;
      X509_up_ref(one);
    } else if (X509_self_signed(one, 0) == 1) {
      X509_STORE_add_cert(authority_, one);
      ++authorities_;
    } else {
      between_.push_back(one);
      X509_up_ref(one);
    }
  }
  ERR_clear_error();
  const std::unique_ptr<BIO, Freed> again(BIO_new_mem_buf(pem_.data(), static_cast<int>(pem_.size())));
  constexpr auto no_password = [](char*, int, int, void*) { return -1; };
  private_key_ = PEM_read_bio_PrivateKey(again.get(), nullptr, no_password, nullptr);
  ERR_clear_error();
  if (own_ == nullptr) return error(ErrorKind::kBadRequest, "it has no certificate");
  name_ = display_name(own_);
  return {};
}

Status Certificate::check() const {
  if (private_key_ == nullptr)
    return error(ErrorKind::kBadRequest, "it has no private key that can be read without a password, behind the certificate of {}",
                 name_);
  if (X509_check_private_key(own_, private_key_) != 1)
    return error(ErrorKind::kBadRequest, "its private key is not that of its first certificate, of {}", name_);
  if (authorities_ == 0) return error(ErrorKind::kBadRequest, "it has no certificate of the authority behind that of {}", name_);
  for (const int purpose : {X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER}) {
    const std::unique_ptr<X509_STORE_CTX, Freed> context(X509_STORE_CTX_new());
    STACK_OF(X509)* const chain = sk_X509_new_null();
    for (X509* const one : between_) sk_X509_push(chain, one);
    X509_STORE_CTX_init(context.get(), authority_, own_, chain);
    X509_STORE_CTX_set_purpose(context.get(), purpose);
    const bool good = X509_verify_cert(context.get()) == 1;
    const int why = X509_STORE_CTX_get_error(context.get());
    sk_X509_free(chain);
    ERR_clear_error();
    if (!good)
      return error(ErrorKind::kBadRequest, "its certificate of {} does not hold: {}", name_, X509_verify_cert_error_string(why));
  }
  return {};
}

bool Certificate::admits(X509* peer) const {
  const auto names = names_of(peer);
  return peers_.empty() || std::ranges::any_of(names, [&](const std::string& name) {
           return std::ranges::any_of(peers_, [&](const std::string& pattern) { return matches(pattern, name); });
         });
}

}  // namespace paceline
