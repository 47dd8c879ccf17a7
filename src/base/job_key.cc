#include "base/job_key.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include "base/check.h"

namespace paceline {
namespace {

constexpr std::size_t kPage = 4096;

std::shared_ptr<Secret> page() {
  void* const memory = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  PACELINE_CHECK(memory != MAP_FAILED, "there is no memory for a key");
  PACELINE_CHECK(::madvise(memory, kPage, MADV_DONTDUMP) == 0, "this system writes all memory into cores");
  return {static_cast<Secret*>(memory), [](Secret* held) {
            wipe(*held);
            ::munmap(held, kPage);
          }};
}

}  // namespace

JobKey JobKey::draw() {
  const auto held = page();
  draw_secret(*held);
  return JobKey(held);
}

Result<JobKey> JobKey::from(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.find("-----BEGIN ") != std::string_view::npos) {
    PACELINE_ASSIGN_OR_RETURN(auto certificate, Certificate::from(text));
    JobKey key = draw();
    key.certificate_ = std::move(certificate);
    return key;
  }
  if (bytes.size() != kBytes)
    return error(ErrorKind::kBadRequest, "{} bytes are no job key; a key has exactly {}", bytes.size(), kBytes);
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }))
    return error(ErrorKind::kBadRequest, "nothing but zeros is no job key");
  const auto held = page();
  std::memcpy(held->data(), bytes.data(), kBytes);
  return JobKey(held);
}

JobKey JobKey::leaving_data_clear() const {
  JobKey key = *this;
  key.leaves_data_clear_ = true;
  return key;
}

std::span<const std::byte> JobKey::source() const {
  return certificate_ == nullptr ? std::span<const std::byte>(bytes()) : std::as_bytes(std::span(certificate_->pem()));
}

Secret JobKey::derive(std::string_view purpose) const {
  Secret extracted = prove(kNoSecret, {bytes()});
  const std::byte counter{1};
  const Secret expanded = prove(extracted, {std::as_bytes(std::span(purpose)), std::span(&counter, 1)});
  wipe(extracted);
  return expanded;
}

std::string JobKey::name() const {
  if (certificate_ != nullptr) return certificate_->name();
  const Secret derived = derive("paceline key name 1");
  std::string digits;
  for (const std::byte byte : std::span(derived).first<8>()) digits += fmt::format("{:02x}", std::to_integer<int>(byte));
  return digits;
}

}  // namespace paceline
