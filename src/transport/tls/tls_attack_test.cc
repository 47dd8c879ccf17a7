// An attacker with a TLS of his own, OpenSSL's without our settings, against one side of ours: other versions, the right key in the
// wrong way, a certificate instead of the key.
#include <functional>

#include <gmock/gmock.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "transport/tls/tls_channel_testing.h"

namespace paceline::transport::testing {
namespace {

// The attacker's half: OpenSSL over two memories.
class Attacker {
 public:
  using Setup = std::function<void(SSL_CTX*)>;

  Attacker(Way& in, Way& out, TlsChannel::Side side, const Setup& setup)
      : in_(in), out_(out), context_(SSL_CTX_new(TLS_method()), SSL_CTX_free) {
    SSL_CTX_set_app_data(context_.get(), this);
    SSL_CTX_set_min_proto_version(context_.get(), 0);
    SSL_CTX_set_security_level(context_.get(), 0);
    setup(context_.get());
    ssl_ = SSL_new(context_.get());
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    BIO_set_mem_eof_return(SSL_get_rbio(ssl_), -1);
    if (side == TlsChannel::Side::kConnects)
      SSL_set_connect_state(ssl_);
    else
      SSL_set_accept_state(ssl_);
  }
  ~Attacker() { SSL_free(ssl_); }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  SSL* ssl() { return ssl_; }
  bool step() {
    take();
    const bool done = SSL_do_handshake(ssl_) == 1;
    give();
    return done;
  }
  void take() {
    const Bytes came(in_.bytes.begin(), in_.bytes.end());
    in_.bytes.clear();
    if (!came.empty()) BIO_write(SSL_get_rbio(ssl_), came.data(), static_cast<int>(came.size()));
  }
  void give() {
    std::byte buffer[4096];
    for (int count; (count = BIO_read(SSL_get_wbio(ssl_), buffer, sizeof buffer)) > 0;)
      out_.bytes.insert(out_.bytes.end(), buffer, buffer + count);
  }

  Secret shared{};
  std::string identity;
  std::uint32_t early_data = 0;

 private:
  Way& in_;
  Way& out_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  SSL* ssl_;
};

int offer(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* bytes, SSL_SESSION** session) {
  const auto* self = static_cast<const Attacker*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  constexpr unsigned char kCipher[] = {0x13, 0x01};
  *session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(*session, reinterpret_cast<const unsigned char*>(self->shared.data()), self->shared.size());
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, kCipher));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  SSL_SESSION_set_max_early_data(*session, self->early_data);
  *identity = reinterpret_cast<const unsigned char*>(self->identity.data());
  *bytes = self->identity.size();
  return 1;
}

int accept_any(SSL* ssl, const unsigned char*, std::size_t, SSL_SESSION** session) {
  const unsigned char* identity = nullptr;
  std::size_t bytes = 0;
  return offer(ssl, nullptr, &identity, &bytes, session);
}

// Our accepting side against an attacker that connects.
struct Siege {
  explicit Siege(const Attacker::Setup& setup, const JobKey& job = JobKey::draw())
      : key(job),
        ours(std::make_shared<TlsContext>(key), TlsChannel::Side::kAccepts, our_end),
        attacker(back, there, TlsChannel::Side::kConnects, setup) {
    attacker.shared = key.derive(kTlsPurpose);
    attacker.identity = tls_identity(key);
  }
  TlsChannel::Next run() {
    TlsChannel::Next next = TlsChannel::Next::kRead;
    for (int round = 0; round < 10 && !Pair::over(next); ++round) {
      inside = attacker.step();
      next = ours.shake_hands();
    }
    inside = attacker.step();
    return next;
  }

  JobKey key;
  Way there, back;
  RawEnd our_end{there, back};
  TlsChannel ours;
  Attacker attacker;
  bool inside = false;
};

void with_key(SSL_CTX* context) { SSL_CTX_set_psk_use_session_callback(context, offer); }

TEST(TlsAttack, WhoHasTheKeyAndSpeaksAsWeDoIsAMember) {
  Siege siege(with_key);
  EXPECT_EQ(siege.run(), TlsChannel::Next::kDone) << siege.ours.failure().message();
  EXPECT_TRUE(siege.inside);
}

TEST(TlsAttack, OtherVersionsAreRefused) {
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION}) {
    Siege siege([version](SSL_CTX* context) {
      SSL_CTX_set_max_proto_version(context, version);
      SSL_CTX_set_cipher_list(context, "ALL:eNULL");
    });
    EXPECT_EQ(siege.run(), TlsChannel::Next::kFailed);
    EXPECT_EQ(siege.ours.failure().kind(), ErrorKind::kBadRequest);
    EXPECT_FALSE(siege.inside);
  }
}

TEST(TlsAttack, GreetingsOfSslAreRefused) {
  const Bytes ssl2 = {std::byte{0x80}, std::byte{0x2e}, std::byte{1}, std::byte{0}, std::byte{2}, std::byte{0}, std::byte{0x15}};
  const Bytes ssl3 = {std::byte{22}, std::byte{3}, std::byte{0}, std::byte{0}, std::byte{4}, std::byte{1}, std::byte{0}};
  for (Bytes greeting : {ssl2, ssl3}) {
    Way in, out;
    RawEnd end(in, out);
    TlsChannel channel(std::make_shared<TlsContext>(JobKey::draw()), TlsChannel::Side::kAccepts, end);
    greeting.resize(200);
    in.bytes.assign(greeting.begin(), greeting.end());
    EXPECT_EQ(channel.shake_hands(), TlsChannel::Next::kFailed);
    EXPECT_EQ(channel.failure().kind(), ErrorKind::kBadRequest);
  }
}

TEST(TlsAttack, TheRightNameOfTheKeyWithoutTheKeyIsNotEnough) {
  const JobKey other = JobKey::draw();
  for (const auto& [what, shared] : std::vector<std::pair<const char*, std::function<Secret(const JobKey&)>>>{
           {"another key", [&](const JobKey&) { return other.derive(kTlsPurpose); }},
           {"a key of another purpose", [](const JobKey& key) { return key.derive("paceline checkpoint 1"); }},
           {"zeros", [](const JobKey&) { return kNoSecret; }}}) {
    Siege siege(with_key);
    siege.attacker.shared = shared(siege.key);
    EXPECT_EQ(siege.run(), TlsChannel::Next::kFailed) << what;
    EXPECT_THAT(siege.ours.failure().message(), ::testing::HasSubstr("does not hold it")) << what;
    EXPECT_FALSE(siege.inside) << what;
  }
}

TEST(TlsAttack, AnIdentityThatIsNoKeysIsShownInPrintableLetters) {
  Siege siege(with_key);
  siege.attacker.identity = std::string("\x1b[31m") + std::string(500, 'x');
  EXPECT_EQ(siege.run(), TlsChannel::Next::kFailed);
  EXPECT_THAT(siege.ours.failure().message(), ::testing::HasSubstr("(?[31mxxx"));
  EXPECT_LT(siege.ours.failure().message().size(), 400U);
}

// The attacker allows the exchange without Diffie-Hellman, and has no group in common with us, so that it is the only one left.
TEST(TlsAttack, TheKeyWithoutDiffieHellmanIsRefusedByBothSides) {
  const auto only_key = [](SSL_CTX* context) {
    SSL_CTX_set_options(context, SSL_OP_ALLOW_NO_DHE_KEX);
    SSL_CTX_set1_groups_list(context, "P-521");
  };
  Siege siege([&](SSL_CTX* context) {
    with_key(context);
    only_key(context);
  });
  EXPECT_EQ(siege.run(), TlsChannel::Next::kFailed);
  EXPECT_FALSE(siege.inside);

  const JobKey key = JobKey::draw();
  Way there, back;
  RawEnd our_end(back, there);
  TlsChannel ours(std::make_shared<TlsContext>(key), TlsChannel::Side::kConnects, our_end);
  Attacker server(there, back, TlsChannel::Side::kAccepts, [&](SSL_CTX* context) {
    SSL_CTX_set_psk_find_session_callback(context, accept_any);
    only_key(context);
  });
  server.shared = key.derive(kTlsPurpose);
  TlsChannel::Next next = TlsChannel::Next::kRead;
  bool inside = false;
  for (int round = 0; round < 10 && !Pair::over(next); ++round) {
    next = ours.shake_hands();
    inside = server.step();
  }
  EXPECT_EQ(next, TlsChannel::Next::kFailed);
  EXPECT_FALSE(inside);
}

TEST(TlsAttack, DataInTheFirstFlightIsNeverDelivered) {
  Siege siege(with_key);
  siege.attacker.early_data = 16384;
  const std::string early = "who replays this is heard twice";
  std::size_t written = 0;
  EXPECT_EQ(SSL_write_early_data(siege.attacker.ssl(), early.data(), early.size(), &written), 1);
  siege.attacker.give();
  const auto next = siege.run();
  EXPECT_NE(SSL_get_early_data_status(siege.attacker.ssl()), SSL_EARLY_DATA_ACCEPTED);
  Bytes got;
  if (next == TlsChannel::Next::kDone) {
    EXPECT_EQ(read_into(siege.ours, got).outcome, Stream::Moved::Outcome::kLater);
  }
  EXPECT_TRUE(got.empty());
}

// Somebody in the middle without the key, who hopes that a certificate will do.
TEST(TlsAttack, ACertificateInsteadOfTheKeyIsRefused) {
  Way there, back;
  RawEnd our_end(back, there);
  TlsChannel ours(std::make_shared<TlsContext>(JobKey::draw()), TlsChannel::Side::kConnects, our_end);
  Attacker server(there, back, TlsChannel::Side::kAccepts, [](SSL_CTX* context) {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), pair.get());
    X509_sign(certificate.get(), pair.get(), EVP_sha256());
    ASSERT_EQ(SSL_CTX_use_certificate(context, certificate.get()), 1);
    ASSERT_EQ(SSL_CTX_use_PrivateKey(context, pair.get()), 1);
  });
  TlsChannel::Next next = TlsChannel::Next::kRead;
  bool inside = false;
  for (int round = 0; round < 10 && !Pair::over(next); ++round) {
    next = ours.shake_hands();
    inside = server.step();
  }
  EXPECT_EQ(next, TlsChannel::Next::kFailed);
  EXPECT_EQ(ours.failure().kind(), ErrorKind::kBadRequest);
  EXPECT_FALSE(inside);
}

TEST(TlsAttack, ManyKeyChangesThatSomebodyAsksForAreAnsweredWithoutGrowing) {
  Siege siege(with_key);
  ASSERT_EQ(siege.run(), TlsChannel::Next::kDone);
  Bytes got;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(SSL_key_update(siege.attacker.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    std::size_t written = 0;
    ASSERT_EQ(SSL_write_ex(siege.attacker.ssl(), "x", 1, &written), 1);
    siege.attacker.give();
    const auto moved = read_into(siege.ours, got);
    if (moved.outcome == Stream::Moved::Outcome::kEnd) return;  // to be cut off for it is well too
    siege.attacker.take();
    std::byte nothing;
    SSL_read(siege.attacker.ssl(), &nothing, 1);
  }
  EXPECT_EQ(got.size(), 1000U);
  EXPECT_LT(siege.back.bytes.size(), 1000U);
}

}  // namespace
}  // namespace paceline::transport::testing
