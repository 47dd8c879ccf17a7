#include "exchange/verdict.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace paceline::exchange {
namespace {

static_assert(std::endian::native == std::endian::little, "parts are copied as they are");

constexpr std::uint32_t kNoTensor = ~std::uint32_t{0};

// What of a part is not words of bits.
struct Head {
  std::uint32_t tensor;
  std::int32_t rank;
};

}  // namespace

bool VerdictPart::add(std::span<const float> mean) {
  tensor::ExactSquareSum piece;
  piece.add(mean);
  squares_.add(piece);
  return piece.finite();
}

// Ranks that are none come last.
void VerdictPart::add_non_finite(const Verdict::NonFinite& found) {
  const auto place = [](const Verdict::NonFinite& of) {
    return std::pair(of.tensor, static_cast<std::uint32_t>(of.rank.value));  // kNobody is the largest
  };
  if (!non_finite_ || place(found) < place(*non_finite_)) non_finite_ = found;
}

void VerdictPart::add(const VerdictPart& other) {
  squares_.add(other.squares_);
  if (other.non_finite_) add_non_finite(*other.non_finite_);
  for (std::size_t word = 0; word < unused_.size(); ++word) unused_[word] |= other.unused_[word];
}

void VerdictPart::clear() {
  squares_ = {};
  non_finite_.reset();
  std::ranges::fill(unused_, 0U);
}

void VerdictPart::tell(Verdict& verdict) const {
  verdict.square_sum = squares_.value();
  verdict.non_finite = non_finite_;
  verdict.unused = unused_;
}

void VerdictPart::write(std::span<std::byte> to) const {
  PACELINE_CHECK(to.size() == bytes(), "{} bytes for a verdict of {}", to.size(), bytes());
  squares_.write(to.first<tensor::kSquareSumBytes>());
  const Verdict::NonFinite found = non_finite_.value_or(Verdict::NonFinite{.tensor = kNoTensor});
  const Head head{found.tensor, found.rank.value};
  std::memcpy(to.data() + tensor::kSquareSumBytes, &head, sizeof head);
  std::memcpy(to.data() + tensor::kSquareSumBytes + sizeof head, unused_.data(), unused_.size() * sizeof(std::uint64_t));
}

void VerdictPart::read(std::span<const std::byte> from) {
  PACELINE_CHECK(from.size() == bytes(), "{} bytes of a verdict of {}", from.size(), bytes());
  squares_ = tensor::ExactSquareSum::read(from.first<tensor::kSquareSumBytes>());
  Head head{};
  std::memcpy(&head, from.data() + tensor::kSquareSumBytes, sizeof head);
  non_finite_.reset();
  if (head.tensor != kNoTensor) non_finite_ = {.rank = Rank{head.rank}, .tensor = head.tensor};
  std::memcpy(unused_.data(), from.data() + tensor::kSquareSumBytes + sizeof head, unused_.size() * sizeof(std::uint64_t));
}

VerdictLedger::VerdictLedger(const job::Plan& plan, const std::vector<Rank>& sources) : tensors_(plan.table().tensors.size()) {
  for (const Rank source : sources) sources_.push_back({source, plan.options().first});
}

Status VerdictLedger::on_part(Rank source, Iteration iteration, const VerdictPart& part, Iteration current) {
  const auto from = std::ranges::find(sources_, source, &Source::rank);
  if (from == sources_.end() || iteration != from->next || iteration > current) {
    return error(ErrorKind::kBadRequest, "server {} told its verdict of iteration {} in iteration {}, where nobody awaits it",
                 source.value, iteration, current);
  }
  ++from->next;
  Gathering& of = gathering(iteration, current);
  of.sum.add(part);
  if (--of.missing == 0) of.sum.tell(of.verdict);
  return {};
}

// The one of the iteration, or one that nobody can ask for any more, or a new one.
VerdictLedger::Gathering& VerdictLedger::gathering(Iteration iteration, Iteration current) {
  auto found = std::ranges::find(gatherings_, iteration, &Gathering::iteration);
  if (found != gatherings_.end()) return *found;
  found = std::ranges::find_if(gatherings_, [&](const Gathering& of) { return of.missing == 0 && of.iteration < current - 1; });
  if (found == gatherings_.end()) found = gatherings_.emplace(gatherings_.end(), tensors_);
  found->iteration = iteration;
  found->missing = sources_.size();
  found->sum.clear();
  return *found;
}

const Verdict* VerdictLedger::of(Iteration iteration) const {
  const auto found = std::ranges::find(gatherings_, iteration, &Gathering::iteration);
  return found != gatherings_.end() && found->missing == 0 ? &found->verdict : nullptr;
}

std::optional<Rank> VerdictLedger::missing(Iteration iteration) const {
  const auto late = std::ranges::find_if(sources_, [&](const Source& source) { return source.next <= iteration; });
  if (late == sources_.end()) return std::nullopt;
  return late->rank;
}

}  // namespace paceline::exchange
