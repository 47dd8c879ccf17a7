#include "job/costs.h"

#include "base/text.h"
#include "wire/frame.h"
#include "wire/message.h"

namespace paceline::job {
namespace {

constexpr std::int64_t kMessageHead = wire::kHeaderBytes + wire::kChunkBodyBytes;
constexpr std::size_t kManyUnits = 100'000;  // which every process keeps, and tells of in every iteration

}  // namespace

std::vector<std::string> costs_of(const Plan& plan) {
  std::vector<std::string> costs;
  std::int64_t bytes = 0;
  for (std::uint32_t unit = 0; unit < plan.units().moving; ++unit) bytes += static_cast<std::int64_t>(plan.payload_bytes(unit));
  const auto units = static_cast<std::int64_t>(plan.units().moving);
  if (plan.units().moving >= kManyUnits && units * kMessageHead > bytes) {
    costs.push_back(fmt::format(
        "the model is cut into {} units, and each is a message of {} bytes behind a head of {}: a worker sends {} an iteration "
        "for {} of gradients, and every process keeps every unit; give a larger --slice",
        units, bytes / units, kMessageHead, to_text(Bytes{units * kMessageHead + bytes}), to_text(Bytes{bytes})));
  }
  const std::int64_t servers = plan.options().servers, workers = plan.options().workers;
  if (servers > workers && servers * kMessageHead > bytes) {
    costs.push_back(
        fmt::format("{} servers share {} of gradients: each is a process that gets {} bytes of a worker in an iteration, behind at "
                    "least one head of {}, over {} connections in all; one server is enough",
                    servers, to_text(Bytes{bytes}), bytes / servers, kMessageHead, servers * workers));
  }
  return costs;
}

}  // namespace paceline::job
