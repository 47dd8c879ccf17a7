#include "base/certificate.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Signed by itself, so that it is its own authority: what needs another one is tried by tests/python/test_certificates.py.
struct Signed {
  explicit Signed(const char* alternative_names) : key(EVP_EC_gen("P-256")), certificate(X509_new()) {
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("common"), -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    if (*alternative_names != 0) {
      X509_EXTENSION* const names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, alternative_names);
      X509_add_ext(certificate, names, -1);
      X509_EXTENSION_free(names);
    }
    X509_sign(certificate, key, EVP_sha256());
  }
  ~Signed() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  Signed(const Signed&) = delete;
  Signed& operator=(const Signed&) = delete;

  // As a file has it: the certificate, its key, and itself as the authority.
  std::string pem() const {
    BIO* const out = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(out, certificate);
    PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
    PEM_write_bio_X509(out, certificate);
    char* text = nullptr;
    const long bytes = BIO_get_mem_data(out, &text);
    std::string pem(text, static_cast<std::size_t>(bytes));
    BIO_free(out);
    return pem;
  }

  EVP_PKEY* key;
  X509* certificate;
};

TEST(Certificate, MessagesCallItByItsFirstNameOrElseTheCommonOne) {
  EXPECT_EQ(display_name(Signed("IP:10.0.0.1,URI:spiffe://site/b,DNS:a.example").certificate), "spiffe://site/b");
  EXPECT_EQ(display_name(Signed("").certificate), "common");
}

TEST(Certificate, APeerHasOneOfTheNamesAndAStarIsOneLabel) {
  const auto admits = [](const std::string& peers, const char* names) {
    const auto own = Certificate::from(peers + Signed("DNS:own.example").pem());
    EXPECT_TRUE(own.ok()) << own.status().message();
    return own.ok() && (*own)->admits(Signed(names).certificate);
  };
  EXPECT_TRUE(admits("", "DNS:anybody")) << "whom the authority has signed";
  EXPECT_TRUE(admits("peers: x.example, *.gpu.example\n", "DNS:n7.gpu.example"));
  EXPECT_TRUE(admits("peers: x.example, *.gpu.example\r\n", "DNS:other,DNS:x.example"));
  EXPECT_TRUE(admits("peers: spiffe://site/b\n", "URI:spiffe://site/b"));
  for (const char* none :
       {"DNS:gpu.example", "DNS:a.n7.gpu.example", "DNS:n7.gpu.example.org", "DNS:X.example", "DNS:.gpu.example", ""})
    EXPECT_FALSE(admits("peers: x.example, *.gpu.example\n", none)) << none;
  EXPECT_FALSE(admits("peers: common\n", "")) << "the common name is no subjectAltName";
  EXPECT_FALSE(admits("peers: common\n", "IP:10.0.0.1"));
}

TEST(Certificate, WhatIsMissingIsSaid) {
  const std::string pem = Signed("DNS:own.example").pem();
  const auto refusal = [](const std::string& text) { return Certificate::from(text).status().message(); };
  EXPECT_EQ(Certificate::from(pem).value()->name(), "own.example");
  EXPECT_EQ(Certificate::from(pem).value()->pem(), pem);
  EXPECT_THAT(refusal("-----BEGIN "), HasSubstr("no certificate"));
  EXPECT_THAT(refusal(pem.substr(0, pem.find("-----BEGIN PRIVATE"))), HasSubstr("no private key"));
  EXPECT_THAT(refusal(pem.substr(0, pem.rfind("-----BEGIN CERT"))),
              HasSubstr("no certificate of the authority behind that of own.example"));
  EXPECT_THAT(refusal("peers:\n" + pem), HasSubstr("names nobody"));
  for (const char* overlooked :
       {"\npeers: a\n", "# peers: a\n", " peers: a\n", "Peers: a\n", "peer: a\n", "peers = a\n", "peers: a\npeers: b\n"})
    EXPECT_THAT(refusal(overlooked + pem), HasSubstr("does not count")) << overlooked;
  EXPECT_THAT(refusal(pem + "peers: a\n"), HasSubstr("does not count"));
  EXPECT_TRUE(Certificate::from("subject=CN = a\nBag Attributes\n" + pem).ok()) << "what other programs write before a block";
  EXPECT_EQ(Certificate::from("").status().code(), kNoCertificate);
}

}  // namespace
}  // namespace paceline
